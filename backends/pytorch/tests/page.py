"""The page OPERATORS.md of what op_db.py, module_db.py and optim_db.py found (--out), a JSON file for each dtype.

    python backends/pytorch/tests/page.py backends/pytorch/OPERATORS.md FILE...
"""

import collections
import json
import re
import sys

DATABASES = {
    "operators": ("op_db", "all samples of PyTorch's list of operators without linear algebra, FFT, sparse tensors, "
                  "histograms; of floating dtypes the gradients too"),
    "modules": ("module_db", "all samples of PyTorch's list of modules, in training and in evaluation, with the gradients of "
                "inputs and parameters"),
    "optimizers": ("optim_db", "all configurations of PyTorch's list of optimizers but SparseAdam, whose gradients are sparse: "
                   "plain, foreach, fused, capturable and differentiable"),
}
GOOD = ("passed", "none")
# Why something is missing, where that is more than that nobody wrote it: what the cause says, of which dtypes, the reason.
REASONS = [
    (r"aten::convolution$", r"int|bool", "convolutions of floating numbers alone, as on CUDA"),
    (r"(avg|max)_pool[123]d|x: dtype i64 must be f32", r"int|bool", "pooling of floating numbers alone, as on CUDA"),
    (r"_linalg_svd", r"", "linear algebra"),
    (r"special_", r"", "no function of dlprim's expressions computes it yet"),
]


def load(names):
    """{database: runs}, of each database in the order of the files."""
    runs = collections.defaultdict(list)
    for name in names:
        with open(name) as file:
            run = json.load(file)
        runs[run["database"]].append(run)
    return runs


def verdict(run, name):
    return run["verdicts"].get(name, ["none", 0, "", 0])


def names_of(runs, wanted):
    """Names for which wanted(verdicts of all runs)."""
    names = sorted({name for run in runs for name in run["verdicts"]})
    return [name for name in names if wanted([verdict(run, name)[0] for run in runs])]


def summary(runs):
    for run in runs:
        counts = collections.Counter(line[0] for line in run["verdicts"].values())
        judged = len(run["verdicts"]) - counts["none"]
        samples = sum(line[1] for line in run["verdicts"].values())
        yield (f"| {run['database']} | {run['dtype']} | {judged} | {counts['passed']} | "
               f"{100 * counts['passed'] / judged:.1f} % | {samples} |")


def cause(run, name):
    text = verdict(run, name)[2].replace("|", "\\|")
    for said, dtypes, reason in REASONS:
        if re.search(said, text) and re.search(dtypes, run["dtype"]):
            return f"{text}: {reason}"
    return text


def failures(runs, title):
    names = names_of(runs, lambda found: not all(v in GOOD for v in found))
    yield from ("", f"## {title.capitalize()}: not, or not with every sample", "")
    if not names:
        yield "None."
        return
    yield f"| {title[:-1]} | {' | '.join(run['dtype'] for run in runs)} | cause |"
    yield "| --- |" + " --- |" * (len(runs) + 1)
    for name in names:
        first = next(run for run in runs if verdict(run, name)[0] not in GOOD)
        verdicts = " | ".join({"passed": "yes", "none": ""}.get(verdict(run, name)[0], verdict(run, name)[0]) for run in runs)
        yield f"| `{name}` | {verdicts} | {cause(first, name)} |"


def page(runs):
    first = next(iter(runs.values()))[0]
    yield from ("# PyTorch's operators, modules and optimizers on the device ocl", "",
                f"Found with torch {first['torch']} on {first['device']}, against the CPU in f64, with no way to the CPU:", "")
    for database in runs:
        program, text = DATABASES[database]
        yield f"- [{program}.py](tests/{program}.py): {text}"
    yield from ("", "| of | dtype | judged | pass | | samples |", "| --- | --- | --- | --- | --- | --- |")
    for found in runs.values():
        yield from summary(found)
    for database, found in runs.items():
        yield from failures(found, database)
    for database, found in runs.items():
        whole = names_of(found, lambda v: all(x in GOOD for x in v) and "passed" in v)
        yield from ("", f"## {database.capitalize()}: with every sample", "", ", ".join(f"`{name}`" for name in whole))
    yield ""


def main(out, *files):
    with open(out, "w") as file:
        file.write("\n".join(page(load(files))))


if __name__ == "__main__":
    main(*sys.argv[1:])
