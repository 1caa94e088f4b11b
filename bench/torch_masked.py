"""Choosing by a mask as PyTorch does it, for bench/compare: see measure_masked.cpp."""
import torch

from operands import WAITS, mask as make_mask, tensor, uniform


def composite(fields):
    return WAITS if fields.get("direction", "forward") == "forward" else None


def prepare(fields, device, dtype):
    x = tensor("x", fields, device, dtype)
    mask = make_mask(fields, device)
    if fields["f"] == "nonzero":
        x.masked_fill_(mask, 0)
        return lambda: torch.nonzero(x)
    if fields.get("direction", "forward") == "forward":
        return lambda: torch.masked_select(x, mask)
    y = torch.masked_select(x.requires_grad_(), mask)
    dy = uniform("dy", y.shape, device, dtype)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
