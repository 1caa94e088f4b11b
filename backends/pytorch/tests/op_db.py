"""PyTorch's own list of operators (op_db) on the device against the CPU: every sample, forward and gradient.

    PYTHONPATH=backends/pytorch python backends/pytorch/tests/op_db.py [--dtype float32] [--jobs 2] [--out table.json] [NAME...]

Each operator runs in a process of its own, so that a crash ends one, with no way to the CPU; judge.py says when a result is
right. Left out are linear algebra, FFT, sparse tensors and histograms.
"""

import dataclasses
import re
import sys

from judge import compare, compare_gradients, everywhere, main, run_everywhere, tensors
import torch

DATABASE = "operators"
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


def is_half(t):
    return t.dtype in (torch.float16, torch.bfloat16)


def random_places(op, sample):
    """Where windows begin is random unless it is said."""
    axes = {"nn.functional.fractional_max_pool2d": 2, "nn.functional.fractional_max_pool3d": 3}.get(op.name)
    if axes is None:
        return {}
    images = sample.input.shape[0] if sample.input.dim() == axes + 2 else 1
    return {"_random_samples": torch.rand(images, sample.input.shape[-axes - 1], axes).to(sample.input.dtype)}


def run_sample(op, sample, gradient):
    """Forward, and the gradients of all outputs that have one."""
    base = (sample.input, sample.args, {**random_places(op, sample), **sample.kwargs})
    trees = everywhere(base)
    if op.name in INDICES_ON_CPU:
        trees["ocl"] = (trees["ocl"][0], *base[1:])
    options = sample.kwargs.get("options")
    if op.name == "nn.functional.linear_cross_entropy" and options and options.acc_policy == "auto" and is_half(sample.input):
        for place in ("cpu", "ocl"):  # else PyTorch sums up in f32 on the CPU, and in the input's dtype here
            trees[place][2]["options"] = dataclasses.replace(options, acc_policy="accurate", acc_dtype=torch.float32)
    results = run_everywhere(lambda place: op.op(trees[place][0], *trees[place][1], **trees[place][2]))
    if results is None:
        return False
    expected, got, exact = results["cpu"], results["ocl"], results["f64"]
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
    if gradient and not random and (precise_input or op.name not in ANY_INDEX):
        compare_gradients(results, {p: [t for t in tensors(tree) if t.requires_grad] for p, tree in trees.items()})
    return True


def samples(name, dtype):
    op = operators()[name]
    gradient = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    for sample in list(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
        yield lambda sample=sample: run_sample(op, sample, gradient)


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


def names(dtype):
    return [n for n, op in operators().items() if dtype in op.supported_dtypes("cpu")]


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
