"""Choosing by a mask as PyTorch does it, for bench/compare: see measure_masked.cpp."""
import torch

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    x = tensor(fields, device, dtype)
    mask = tensor({**fields, "low": 0}, device, torch.float32) < 0.5
    if fields["f"] == "nonzero":
        x.masked_fill_(mask, 0)
        return lambda: torch.nonzero(x)
    if fields.get("direction", "forward") == "forward":
        return lambda: torch.masked_select(x, mask)
    y = torch.masked_select(x.requires_grad_(), mask)
    dy = torch.rand_like(y)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
