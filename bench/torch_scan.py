"""Scans as PyTorch has them, for bench/compare."""
import torch

from operands import WAITS, tensor


def composite(fields):
    return WAITS if fields["f"] == "cumprod" and fields.get("direction") == "backward" else None  # it looks for zeros


def prepare(fields, device, dtype):
    f, axis = getattr(torch, fields["f"]), int(fields.get("axis", -1))
    x = tensor("x", fields, device, dtype)
    if fields.get("direction", "forward") == "forward":
        return lambda: f(x, axis)
    y, dy = f(x.requires_grad_(), axis), tensor("dy", fields, device, dtype)
    y = y[0] if fields["f"] in ("cummax", "cummin") else y
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
