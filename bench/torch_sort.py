"""Sorting as PyTorch has it, for bench/compare; measure_sort.cpp says the fields."""
import torch

from check import CLOSE, places_in
from operands import tensor


def prepare(fields, device, dtype):
    axis, k = int(fields.get("axis", -1)), int(fields.get("k", 8))
    x = tensor("x", fields, device, dtype)
    if fields["f"] == "top_k":
        run = lambda x: torch.topk(x, k, dim=axis)
    elif fields["f"] == "kth_value":
        run = lambda x: torch.kthvalue(x, k, dim=axis, keepdim=True)
    elif fields["f"] == "median":
        run = lambda x: torch.median(x, dim=axis, keepdim=True)
    else:
        run = lambda x: torch.sort(x, dim=axis, stable=True)
    if fields.get("direction", "forward") == "forward":
        return lambda: run(x), CLOSE if fields["f"] == "sort" else places_in(x, axis)
    x.requires_grad_()
    y = run(x)[0]
    dy = tensor("dy", fields, device, dtype, y.shape)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
