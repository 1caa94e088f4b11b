"""What op_db.py, module_db.py and optim_db.py share: how results are compared, a process for each entry, the page.

A database is a module of Python's with DATABASE, its name; names(dtype), what there is to judge; samples(name, dtype), a
function for each sample, which raises Wrong, or gives False where it is no sample for this dtype.
"""

import argparse
import collections
import importlib.util
import json
import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import time
import warnings

os.environ["OCL_FALLBACK"] = "error"
os.environ.setdefault("DLPRIM_POISON", "1")  # what reads memory that nobody wrote is to be wrong
# PyTorch's lists ask for devices when they are imported, and what has used OpenCL may not fork: the children load it.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch  # noqa: E402

torch.cuda.is_available, torch.cuda.device_count = lambda: False, lambda: 0  # what has used CUDA may not fork either

from torch.nn.utils.rnn import PackedSequence  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
PLACES = ("cpu", "ocl", "f64")


class Wrong(Exception):
    """The device computed another result."""


# Tensors in trees


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def moved(tree, change, device="cpu"):
    def one(value):
        if isinstance(value, PackedSequence):
            rest = [t if t is None else t.to(device) for t in value[2:]]
            return PackedSequence(change(value.data), value.batch_sizes, *rest)
        if is_tensor(value):
            return change(value)
        return torch.device(device) if isinstance(value, torch.device) or value == "cpu" else value

    return tree_map(one, tree)


def on_cpu(t):
    return t.detach().clone().requires_grad_(t.requires_grad)


def on_device(t):
    return t.detach().to("ocl").requires_grad_(t.requires_grad)


def in_f64(t):
    return t.detach().to(torch.float64 if t.is_floating_point() else t.dtype).requires_grad_(t.requires_grad)


def wide(tree):
    """What is asked for in a floating dtype, asked for in f64."""
    def one(value):
        return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value

    return tree_map(one, tree)


def everywhere(tree):
    """The tree in each of PLACES."""
    return {"cpu": moved(tree, on_cpu), "ocl": moved(tree, on_device, "ocl"), "f64": wide(moved(tree, in_f64))}


def tensors(tree):
    leaves = [t.data if isinstance(t, PackedSequence) else t for t in tree_flatten(tree)[0]]
    return [t for t in leaves if is_tensor(t)]


# Comparison. A result is right if it is as near to the CPU's in f64 as the dtype allows: bounds grow with the largest number
# expected, or that came from outside (`scale`), and with the error that the CPU itself makes in that dtype.


def compare(what, got, expected, exact, shape_only=False, place="ocl", steps=1, scale=0.0):
    """`steps`: how many operators one after another the bound is for."""
    if got.device.type != place:
        raise Wrong(f"{what}: on {got.device}")
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise Wrong(f"{what}: {got.dtype} {list(got.shape)}, not {expected.dtype} {list(expected.shape)}")
    if shape_only or not expected.numel():
        return
    here = got.detach().cpu()
    if not expected.is_floating_point():
        if not torch.equal(here, expected.detach()):
            raise Wrong(f"{what}: {int((here != expected).sum())} of {expected.numel()} numbers differ")
        return
    e, x = expected.detach().double(), here.double()
    best = e if exact is None or exact.shape != e.shape else exact.detach().double()
    if torch.allclose(x, e, rtol=0, atol=0, equal_nan=True):
        return
    odd = ~torch.isfinite(e) | ~torch.isfinite(best)
    finite = best[~odd]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    own = float((e[~odd] - finite).abs().max()) if finite.numel() else 0.0
    bound = max(steps * TOLERANCE[expected.dtype] * largest, 2 * torch.finfo(expected.dtype).eps * scale) + 4 * own
    error = (x - best).abs()
    # Where the CPU has an infinity or NaN the device has it too, in the dtype or as f64 has it; or the number that f64 has.
    same_odd = (x == e) | (x.isnan() & e.isnan()) | (x == best) | (x.isnan() & best.isnan())
    bad = ~(error <= bound) & ~(odd & same_odd)
    if bad.any():
        i = int(bad.flatten().nonzero()[0])
        raise Wrong(f"{what}: {int(bad.sum())} of {bad.numel()} numbers beyond {bound:.3g}: "
                    f"{x.flatten()[i]:.9g}, must be {best.flatten()[i]:.9g}")


def run_everywhere(run):
    """{place: tensors of run(place)}; of f64, which integers become there too, None where it fails. Nothing if the CPU
    refuses: then it is no sample."""
    results = {}
    for place in PLACES:
        try:
            torch.manual_seed(0)
            torch.set_default_dtype(torch.float64 if place == "f64" else torch.float32)
            with torch.device("ocl" if place == "ocl" else "cpu"):
                results[place] = tensors(run(place))
        except Exception:
            if place == "ocl":
                raise
            if place == "cpu":
                return None
            results[place] = None
        finally:
            torch.set_default_dtype(torch.float32)
    if any(t.is_complex() for t in results["cpu"]):
        return None
    if len(results["cpu"]) != len(results["ocl"]):
        raise Wrong(f"{len(results['ocl'])} tensors, not {len(results['cpu'])}")
    if results["f64"] is not None and len(results["f64"]) != len(results["cpu"]):
        results["f64"] = None
    return results


def compare_gradients(results, leaves, steps=1):
    """Of all outputs that have one, with respect to the leaves of each place. A derivative such as 1 - y^2 is made of
    numbers about 1, whose rounding the gradient that comes in is multiplied by."""
    outputs = [i for i, e in enumerate(results["cpu"]) if e.requires_grad]
    if not outputs or not leaves["cpu"]:
        return
    torch.manual_seed(1)
    seeds = [torch.randint(-3, 4, results["cpu"][i].shape).to(results["cpu"][i].dtype) for i in outputs]

    def gradients(place, convert):
        return torch.autograd.grad([results[place][i] for i in outputs], leaves[place], [convert(s) for s in seeds],
                                   allow_unused=True)

    try:
        want = gradients("cpu", lambda s: s)
    except Exception:
        return
    try:
        precise = gradients("f64", lambda s: s.double()) if results["f64"] else None
    except Exception:
        precise = None
    have = gradients("ocl", lambda s: s.to("ocl"))
    scale = max(float(s.abs().max()) if s.numel() else 0.0 for s in seeds)
    for i, (g, e) in enumerate(zip(have, want)):
        if (g is None) != (e is None):
            raise Wrong(f"gradient {i}: {'none' if g is None else 'one where there is none'}")
        if e is not None:
            compare(f"gradient {i}", g, e, precise[i] if precise else None, steps=steps, scale=scale)


# A process for each entry, so that a crash ends one


def judge(database, name, dtype):
    """What becomes of an entry: (verdict, samples, cause)."""
    import torch_ocl

    torch_ocl.load()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    samples = list(database.samples(name, dtype))
    count, failures = 0, []
    for sample in samples:
        try:
            count += sample() is not False
        except Wrong as e:
            failures.append(("wrong", str(e)))
        except NotImplementedError as e:
            failures.append(("missing", str(e).split(" has no kernel")[0]))
        except Exception as e:
            failures.append(("error", told(e)))
    if not failures:
        return "passed" if count else "none", count, ""
    failures.sort(key=lambda f: ("wrong", "error", "missing").index(f[0]))
    return failures[0][0], count, f"{len(failures)} of {len(samples)} samples: {failures[0][1]}"


def told(e):
    return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def child(database, name, dtype, pipe):
    sys.stderr = open(os.devnull, "w")
    try:
        pipe.send(judge(database, name, dtype))
    except BaseException as e:
        pipe.send(("error", 0, told(e)))
    pipe.close()
    os._exit(0)


def run_all(database, names, dtype, jobs, limit, tell):
    """{name: [verdict, samples, cause, seconds]}."""
    table, waiting, running = {}, collections.deque(names), {}
    fork = multiprocessing.get_context("fork")
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.popleft()
            ours, theirs = fork.Pipe(duplex=False)
            process = fork.Process(target=child, args=(database, name, dtype, theirs))
            process.start()
            theirs.close()
            running[name] = (process, ours, time.monotonic())
        multiprocessing.connection.wait([p.sentinel for p, _, _ in running.values()] +
                                        [c for _, c, _ in running.values()], timeout=1)
        for name, (process, pipe, start) in list(running.items()):
            seconds = time.monotonic() - start
            if pipe.poll():
                try:
                    verdict = pipe.recv()
                except EOFError:
                    process.join()
                    verdict = ("crash", 0, f"ended by {process.exitcode}")
            elif seconds > limit:
                verdict = ("hang", 0, f"more than {limit} s")
                process.kill()
            else:
                continue
            process.join()
            del running[name]
            table[name] = [*verdict, round(seconds, 2)]
            tell(name, table, len(names))
    return table


def device_name():
    """Asked of another process: this one may have to fork."""
    text = "import torch, torch_ocl; torch_ocl.load(); print(torch.ocl.get_device_name(0))"
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip()


def main(database):
    if importlib.util.find_spec("torch_ocl") is None:
        sys.exit("torch_ocl is not installed: PYTHONPATH=backends/pytorch")
    parser = argparse.ArgumentParser(description=database.__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="entries; all by default; NAME. takes all that begin so")
    parser.add_argument("--dtype", default="float32", help="float32, float16, bfloat16, or of operators int64, bool")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=300, help="seconds for an entry")
    parser.add_argument("--out", help="a JSON file of the verdicts; of entries that it has already the new ones count")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    names = database.names(dtype)
    if options.names:
        names = [n for n in names if any(n == a or (a.endswith(".") and n.startswith(a)) for a in options.names)]

    device = device_name() if options.out else ""
    saved = time.monotonic()

    def tell(name, table, of):
        nonlocal saved
        line = table[name]
        if line[0] != "passed" or options.names:
            print(f"{len(table)}/{of} {name}: {line[0]} ({line[1]} samples, {line[3]} s) {line[2]}", flush=True)
        if options.out and time.monotonic() > saved + 10:  # a run that is cut keeps what it found
            save(options.out, database, options.dtype, device, table)
            saved = time.monotonic()

    table = run_all(database, names, dtype, options.jobs, options.limit, tell)
    counts = collections.Counter(line[0] for line in table.values())
    judged = len(table) - counts["none"]
    print(f"{options.dtype}: {counts['passed']} of {judged} {database.DATABASE} pass "
          f"({100 * counts['passed'] / max(1, judged):.1f} %): {dict(counts)}")
    if options.out:
        save(options.out, database, options.dtype, device, table)
    return 0 if counts["passed"] == judged else 1


def save(file, database, dtype, device, table):
    run = {"database": database.DATABASE, "torch": torch.__version__, "device": device, "dtype": dtype}
    if os.path.exists(file):
        with open(file) as old:
            before = json.load(old)
        if all(before.get(key) == value for key, value in run.items()):
            table = {**before["verdicts"], **table}
    with open(file, "w") as out:
        json.dump({**run, "verdicts": table}, out, indent=0)
