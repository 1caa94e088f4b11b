"""PyTorch's own list of operators (op_db): whether results lie in memory as PyTorch's meta functions say (FakeTensorMode),
which torch.compile relies on.

    PYTHONPATH=backends/pytorch python backends/pytorch/tests/strides_db.py [--dtype float32] [--jobs 2] [NAME...]

Strides of dimensions of size 1 do not count. Where an operator has no meta function, or its result's size depends on
numbers, there is no sample.
"""

import sys

from judge import Wrong, main, moved, on_cpu, on_device, tensors
from op_db import names, operators  # noqa: F401
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

DATABASE = "operators"
# In evaluation PyTorch's meta function has the running statistics as saved ones; its CPU, and this device, save none.
FIRST_RESULT = {"native_batch_norm", "_native_batch_norm_legit"}


def significant(t):
    return [s for n, s in zip(t.shape, t.stride()) if n > 1] if t.numel() else []


def compare_strides(real, fake):
    if len(real) != len(fake):
        raise Wrong(f"{len(real)} tensors, not {len(fake)}")
    for i, (r, f) in enumerate(zip(real, fake)):
        if r.shape != f.shape or r.dtype != f.dtype:
            raise Wrong(f"output {i}: {r.dtype} {list(r.shape)}, the meta function says {f.dtype} {list(f.shape)}")
        if significant(r) != significant(f):
            raise Wrong(f"output {i}: sizes {list(r.shape)}, strides {r.stride()}, the meta function says {f.stride()}")


def run_sample(op, sample):
    try:  # of tensors that are no views any more
        here = moved((sample.input, sample.args, sample.kwargs), on_cpu)
        op.op(here[0], *here[1], **here[2])
    except Exception:
        return False
    tree = moved((sample.input, sample.args, sample.kwargs), on_device, "ocl")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = tree_map(lambda t: mode.from_tensor(t) if isinstance(t, torch.Tensor) else t, tree)
    with torch.device("ocl"):
        try:
            with mode:
                fake = tensors(op.op(fakes[0], *fakes[1], **fakes[2]))
        except Exception:
            return False
        if any(not isinstance(n, int) for t in fake for n in t.shape):
            return False
        real = tensors(op.op(tree[0], *tree[1], **tree[2]))
    results = slice(1) if op.name in FIRST_RESULT else slice(None)
    compare_strides(real[results], fake[results])
    return True


def samples(name, dtype):
    op = operators()[name]
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        yield lambda sample=sample: run_sample(op, sample)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
