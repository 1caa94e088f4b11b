"""The module torch.backends.ocl: whether products of f32 may round their factors to 10-bit mantissas (TF32), on
devices that are faster so. Both are off at first; torch.set_float32_matmul_precision sets matmul's too."""

import functools
import sys

import torch

_ops = torch.ops.ocl


class _Switch:
    def __init__(self, get, set_):
        object.__setattr__(self, "_functions", (get, set_))

    @property
    def allow_tf32(self):
        return self._functions[0]()

    def __setattr__(self, name, value):
        if name != "allow_tf32":
            raise AttributeError(f"there is no {name} here, only allow_tf32")
        self._functions[1](bool(value))


matmul = _Switch(_ops.matmul_allows_tf32, _ops.allow_matmul_tf32)
conv = _Switch(_ops.conv_allows_tf32, _ops.allow_conv_tf32)


def _follow(set_precision):
    @functools.wraps(set_precision)
    def set_float32_matmul_precision(precision):
        set_precision(precision)
        matmul.allow_tf32 = precision != "highest"

    return set_float32_matmul_precision


def _register():
    """Makes this module torch.backends.ocl. Called once, by torch_ocl."""
    sys.modules["torch.backends.ocl"] = sys.modules[__name__]
    torch.backends.ocl = sys.modules[__name__]
    # PyTorch's own place for this is slow to ask, 80 ns for each product: it is told here.
    matmul.allow_tf32 = torch.get_float32_matmul_precision() != "highest"
    torch.set_float32_matmul_precision = _follow(torch.set_float32_matmul_precision)
