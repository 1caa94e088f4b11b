"""Pooling as PyTorch has it, for bench/compare: fields as bench/measure_pool.cpp says."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor


def numbers(fields, name):
    return [int(n) for n in fields[name].split("x")] if name in fields else None


def operator(fields):
    """The forward direction as a function of x, for as many dimensions as x has."""
    mode, d = fields["mode"], len(shape_of(fields)) - 2
    indices = fields.get("indices") == "1"
    output = numbers(fields, "output")
    if output:
        if mode == "max":
            return lambda x: getattr(F, f"adaptive_max_pool{d}d")(x, output, return_indices=indices)
        return lambda x: getattr(F, f"adaptive_avg_pool{d}d")(x, output)
    window, stride = numbers(fields, "window"), numbers(fields, "stride")
    pad = numbers(fields, "pad") or [0] * d
    if mode == "max":
        return lambda x: getattr(F, f"max_pool{d}d")(x, window, stride, pad, return_indices=indices)
    if mode == "average":
        return lambda x: getattr(F, f"avg_pool{d}d")(x, window, stride, pad)
    return lambda x: getattr(F, f"lp_pool{d}d")(x, 2.0, window, stride)


def prepare(fields, device, dtype):
    f, x = operator(fields), tensor("x", fields, device, dtype)
    if fields.get("direction", "forward") == "forward":
        return lambda: f(x)
    x.requires_grad_()
    y = f(x)
    y = y[0] if isinstance(y, tuple) else y
    dy = tensor("dy", fields, device, dtype, y.shape)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
