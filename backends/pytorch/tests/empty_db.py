"""PyTorch's own list of operators (op_db) with nothing to compute on: every sample with one dimension of size 0, forward
and gradient, on the device against the CPU.

    PYTHONPATH=backends/pytorch python backends/pytorch/tests/empty_db.py [--dtype float32] [--jobs 2] [NAME...]

A dimension becomes 0 in the input alone, or in every tensor where it has that size; what the CPU refuses is no sample.
Memory that nobody wrote is NaN here (DLPRIM_POISON), so that results which nobody computed are seen.
"""

import sys

from judge import is_tensor, main
import op_db
from op_db import operators, run_sample
import torch
from torch.utils._pytree import tree_flatten, tree_map

DATABASE = "operators"
MOST_SAMPLES = 12  # different shapes of an operator
# There is nothing to compare with: PyTorch's CPU ends the process, its result is memory as it was, or it is not the
# shape that PyTorch's own meta function gives.
NO_REFERENCE = {
    "native_batch_norm", "_native_batch_norm_legit", "nn.functional.pdist", "_segment_reduce.offsets",
    "_segment_reduce.lengths", "resize_", "resize_as_", "nn.functional.multi_margin_loss", "nn.functional.pixel_unshuffle",
}


def names(dtype):
    return [n for n in op_db.names(dtype) if n not in NO_REFERENCE]


def cut(t, dims):
    for d in dims:
        t = t.narrow(d, 0, 0)
    return t.detach().clone().requires_grad_(t.requires_grad)


def trees_of(sample):
    """The sample's input, args and kwargs, each time with another dimension of size 0."""
    tree = (sample.input, sample.args, sample.kwargs)
    first = next((t for t in tree_flatten(sample.input)[0] if is_tensor(t)), None)
    if first is None or first.layout != torch.strided:
        return
    for size in dict.fromkeys(first.shape):
        yield tree_map(lambda t: cut(t, [d for d, s in enumerate(t.shape) if s == size]) if is_tensor(t) else t, tree)
    for d in range(first.dim()):
        yield tree_map(lambda t: cut(t, [d]) if t is first else t, tree)


def shapes(tree):
    return str(tree_map(lambda t: tuple(t.shape) if is_tensor(t) else t, tree))


class Sample:
    def __init__(self, tree):
        self.input, self.args, self.kwargs = tree


def samples(name, dtype):
    op = operators()[name]
    gradient = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    seen = set()
    for sample in op.sample_inputs("cpu", dtype, requires_grad=gradient):
        for tree in trees_of(sample):
            key = shapes(tree)
            if key in seen or len(seen) >= MOST_SAMPLES:
                continue
            seen.add(key)
            yield lambda tree=tree: run_sample(op, Sample(tree), gradient)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
