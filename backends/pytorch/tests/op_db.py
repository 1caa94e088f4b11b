"""PyTorch's own list of operators (op_db) on the device against the CPU: every sample, forward and gradient.

    PYTHONPATH=backends/pytorch python backends/pytorch/tests/op_db.py [--dtype float32] [--jobs 2] [--out table.json] [NAME...]

Each operator runs in a process of its own, so that a crash ends one, with no way to the CPU. A result is right if it is as
near to the CPU's in f64 as the dtype allows: bounds grow with the largest number expected, and with the error that the CPU
itself makes in that dtype. Left out are linear algebra, FFT, sparse tensors and histograms.
"""

import argparse
import collections
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
import warnings

os.environ["OCL_FALLBACK"] = "error"

import torch  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

LEFT_OUT = re.compile(
    r"^(linalg\.|fft\.|sparse\.|svd|pca_lowrank|cholesky|lu$|lu_|qr$|ormqr|geqrf|logdet|triangular_solve|"
    r"lobpcg|pinverse|matrix_exp|stft|istft|histogram|histc|to_sparse)"
)
# Results that no seed makes equal on two devices: only shapes and dtypes are compared.
RANDOM = re.compile(
    r"(^|\.)(rand|bernoulli|normal|multinomial|uniform|cauchy|exponential|geometric|log_normal|rrelu|empty|new_empty|"
    r"empty_like|randperm|.*dropout)"
)
# Of equal numbers either index will do: the chosen values are compared, not where they stood.
ANY_INDEX = {"mode", "topk", "sort", "argsort", "msort", "kthvalue", "median", "nanmedian"}
# Their tensors of indices lie on the CPU, whatever the device.
INDICES_ON_CPU = {"tensor_split"}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class Wrong(Exception):
    """The device computed another result."""


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def moved(tree, change, device="cpu"):
    def one(value):
        if is_tensor(value):
            return change(value)
        return torch.device(device) if isinstance(value, torch.device) or value == "cpu" else value

    return tree_map(one, tree)


def on_device(t):
    return t.detach().to("ocl").requires_grad_(t.requires_grad)


def in_f64(t):
    return t.detach().to(torch.float64 if t.is_floating_point() else t.dtype).requires_grad_(t.requires_grad)


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if is_tensor(t)]


def compare(what, got, expected, exact, random):
    if got.device.type != "ocl":
        raise Wrong(f"{what}: on {got.device}")
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise Wrong(f"{what}: {got.dtype} {list(got.shape)}, not {expected.dtype} {list(expected.shape)}")
    if random or not expected.numel():
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
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    own = float((e[~odd] - finite).abs().max()) if finite.numel() else 0.0
    bound = TOLERANCE[expected.dtype] * scale + 4 * own
    error = (x - best).abs()
    # Where the CPU has an infinity or NaN the device has it too, in the dtype or as f64 has it.
    same_odd = (x == e) | (x.isnan() & e.isnan()) | (x == best) | (x.isnan() & best.isnan())
    bad = torch.where(odd, ~same_odd, ~(error <= bound))
    if bad.any():
        i = int(bad.flatten().nonzero()[0])
        raise Wrong(f"{what}: {int(bad.sum())} of {bad.numel()} numbers beyond {bound:.3g}: "
                    f"{x.flatten()[i]:.9g}, must be {best.flatten()[i]:.9g}")


def run_sample(op, sample, gradient):
    """Forward, and the gradients of all outputs that have one."""
    base = (sample.input, sample.args, sample.kwargs)
    trees = {
        "cpu": moved(base, lambda t: t.detach().clone().requires_grad_(t.requires_grad)),
        "ocl": moved(base, on_device, "ocl"),
        "f64": moved(base, in_f64),
    }
    if op.name in INDICES_ON_CPU:
        trees["ocl"] = (trees["ocl"][0], *base[1:])
    results = {}
    for place, (first, arguments, named) in trees.items():
        try:
            torch.manual_seed(0)
            with torch.device("ocl" if place == "ocl" else "cpu"):
                results[place] = tensors(op.op(first, *arguments, **named))
        except Exception:
            if place == "ocl":
                raise
            if place == "cpu":
                return False  # not a sample for this dtype
            results[place] = None
    expected, got, exact = results["cpu"], results["ocl"], results["f64"]
    if any(t.is_complex() for t in expected):
        return False
    if len(expected) != len(got):
        raise Wrong(f"{len(got)} tensors, not {len(expected)}")
    if exact is not None and len(exact) != len(expected):
        exact = None
    random = bool(RANDOM.search(op.name)) or sample.kwargs.get("dropout_p", 0) > 0
    if op.name == "nn.functional.multi_head_attention_forward":
        random = random or (sample.args[9] > 0 and sample.kwargs["training"])  # dropout
    # Among many numbers of few digits there are equal ones: which of them comes first is free, and so is where its gradient goes.
    precise_input = all(t.dtype in (torch.float32, torch.float64) for t in tensors(sample.input))
    for i, (g, e) in enumerate(zip(got, expected)):
        index = op.name in ANY_INDEX and not e.is_floating_point() and (len(expected) > 1 or not precise_input)
        if "norm" in op.name and i > 0 and g.dtype == torch.float32 and e.is_floating_point():
            e = e.float()  # statistics of halves are f32, as on CUDA
        compare(f"output {i}", g, e, exact[i] if exact else None, random or index)
    if not gradient or random or (op.name in ANY_INDEX and not precise_input):
        return True
    outputs = [i for i, e in enumerate(expected) if e.requires_grad]
    leaves = {p: [t for t in tensors(tree) if t.requires_grad] for p, tree in trees.items()}
    if not outputs or not leaves["cpu"]:
        return True
    torch.manual_seed(1)
    seeds = [torch.randint(-3, 4, expected[i].shape).to(expected[i].dtype) for i in outputs]

    def gradients(place, convert):
        return torch.autograd.grad([results[place][i] for i in outputs], leaves[place], [convert(s) for s in seeds],
                                   allow_unused=True)

    try:
        want = gradients("cpu", lambda s: s)
    except Exception:
        return True
    try:
        precise = gradients("f64", lambda s: s.double()) if exact else None
    except Exception:
        precise = None
    have = gradients("ocl", lambda s: s.to("ocl"))
    for i, (g, e) in enumerate(zip(have, want)):
        if (g is None) != (e is None):
            raise Wrong(f"gradient {i}: {'none' if g is None else 'one where there is none'}")
        if e is not None:
            compare(f"gradient {i}", g, e, precise[i] if precise else None, False)
    return True


def samples_of(op, dtype, gradient):
    gradient = gradient and dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    return gradient, list(op.sample_inputs("cpu", dtype, requires_grad=gradient))


def judge(name, dtype):
    """What becomes of an operator: (verdict, samples, cause)."""
    import torch_ocl

    torch_ocl._autoload()
    warnings.simplefilter("ignore")
    op = operators()[name]
    torch.manual_seed(0)
    gradient, samples = samples_of(op, dtype, dtype.is_floating_point)
    count, failures = 0, []
    for sample in samples:
        try:
            count += run_sample(op, sample, gradient)
        except Wrong as e:
            failures.append(("wrong", str(e)))
        except NotImplementedError as e:
            failures.append(("missing", str(e).split(" has no kernel")[0]))
        except Exception as e:
            failures.append(("error", f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"))
    if not failures:
        return "passed" if count else "none", count, ""
    failures.sort(key=lambda f: ("wrong", "error", "missing").index(f[0]))
    return failures[0][0], count, f"{len(failures)} of {len(samples)} samples: {failures[0][1]}"


_operators = None


def operators():
    global _operators
    if _operators is None:
        from torch.testing._internal.common_methods_invocations import op_db

        _operators = {}
        for op in op_db:
            full = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
            if not LEFT_OUT.search(op.name):
                _operators[full] = op
    return _operators


def child(name, dtype, pipe):
    sys.stderr = open(os.devnull, "w")
    try:
        pipe.send(judge(name, dtype))
    except BaseException as e:
        pipe.send(("error", 0, f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"))
    pipe.close()
    os._exit(0)


def run_all(names, dtype, jobs, limit, tell):
    """{name: [verdict, samples, cause, seconds]}."""
    table, waiting, running = {}, collections.deque(names), {}
    fork = multiprocessing.get_context("fork")
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.popleft()
            ours, theirs = fork.Pipe(duplex=False)
            process = fork.Process(target=child, args=(name, dtype, theirs))
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
            tell(name, table[name], len(table), len(names))
    return table


def device_name():
    """Asked of another process: this one may have to fork."""
    text = "import torch, torch_ocl; torch_ocl._autoload(); print(torch.ocl.get_device_name(0))"
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip()


def write_page(page, files):
    """Markdown of what several runs found, one for each dtype."""
    runs = [json.load(open(name)) for name in files]
    dtypes = [run["dtype"] for run in runs]
    names = sorted({name for run in runs for name in run["operators"]})
    lines = [
        "# PyTorch's operators on the device ocl",
        "",
        f"What [op_db.py](tests/op_db.py) found with torch {runs[0]['torch']} on {runs[0]['device']}: all samples of PyTorch's list of operators "
        "(op_db, without",
        "linear algebra, FFT, sparse tensors, histograms), against the CPU in f64, with no way to the CPU; of floating dtypes the "
        "gradients too.",
        "",
        "| dtype | operators | pass | |",
        "| --- | --- | --- | --- |",
    ]
    for run in runs:
        counts = collections.Counter(line[0] for line in run["operators"].values())
        judged = len(run["operators"]) - counts["none"]
        lines.append(f"| {run['dtype']} | {judged} | {counts['passed']} | {100 * counts['passed'] / judged:.1f} % |")
    lines += ["", "## Not, or not with every sample", "", f"| operator | {' | '.join(dtypes)} | cause |",
              "| --- |" + " --- |" * (len(dtypes) + 1)]
    for name in names:
        found = [run["operators"].get(name, ["none", 0, "", 0]) for run in runs]
        if all(line[0] in ("passed", "none") for line in found):
            continue
        cause = next(line[2] for line in found if line[0] not in ("passed", "none")).replace("|", "\\|")
        verdicts = " | ".join({"passed": "yes", "none": ""}.get(line[0], line[0]) for line in found)
        lines.append(f"| `{name}` | {verdicts} | {cause} |")
    whole = [n for n in names if all(r["operators"].get(n, ["none"])[0] in ("passed", "none") for r in runs)
             and any(r["operators"].get(n, ["none"])[0] == "passed" for r in runs)]
    lines += ["", "## With every sample", "", ", ".join(f"`{name}`" for name in whole), ""]
    with open(page, "w") as file:
        file.write("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="operators; all by default; NAME. takes all that begin so")
    parser.add_argument("--dtype", default="float32", help="float32, float16, bfloat16, int64 or bool")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=300, help="seconds for an operator")
    parser.add_argument("--out", help="a JSON file of the verdicts")
    parser.add_argument("--page", help="a Markdown page of JSON files, given instead of operators")
    options = parser.parse_args()
    if options.page:
        return write_page(options.page, options.names)
    dtype = getattr(torch, options.dtype)
    names = [n for n, op in operators().items() if dtype in op.supported_dtypes("cpu")]
    if options.names:
        names = [n for n in names if any(n == a or (a.endswith(".") and n.startswith(a)) for a in options.names)]

    def tell(name, line, done, of):
        if line[0] != "passed" or options.names:
            print(f"{done}/{of} {name}: {line[0]} ({line[1]} samples, {line[3]} s) {line[2]}", flush=True)

    table = run_all(names, dtype, options.jobs, options.limit, tell)
    counts = collections.Counter(line[0] for line in table.values())
    judged = len(table) - counts["none"]
    print(f"{options.dtype}: {counts['passed']} of {judged} operators pass "
          f"({100 * counts['passed'] / max(1, judged):.1f} %): {dict(counts)}")
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"torch": torch.__version__, "device": device_name(), "dtype": options.dtype, "operators": table}, file,
                      indent=0)
    return 0 if counts["passed"] == judged else 1


if __name__ == "__main__":
    sys.exit(main())
