"""Sorting as PyTorch has it, for bench/compare; measure_sort.cpp says the fields."""
import torch

from operands import tensor


def prepare(fields, device, dtype):
    axis, k = int(fields.get("axis", -1)), int(fields.get("k", 8))
    x = tensor(fields, device, dtype)
    if fields["f"] == "top_k":
        run = lambda x: torch.topk(x, k, dim=axis)
    elif fields["f"] == "kth_value":
        run = lambda x: torch.kthvalue(x, k, dim=axis, keepdim=True)
    elif fields["f"] == "median":
        run = lambda x: torch.median(x, dim=axis, keepdim=True)
    else:
        run = lambda x: torch.sort(x, dim=axis, stable=True)
    if fields.get("direction", "forward") == "forward":
        return lambda: run(x)
    x.requires_grad_()
    y = run(x)[0]
    dy = torch.rand_like(y)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
