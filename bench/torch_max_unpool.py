"""Max unpooling as PyTorch has it, for bench/compare: fields as bench/measure_max_unpool.cpp says. Its indices are always i64."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    shape = shape_of(fields)
    axes = len(shape) - 2
    wide = shape[:2] + [2 * size for size in shape[2:]]
    x, indices = getattr(F, f"max_pool{axes}d")(tensor("wide", fields, device, dtype, wide), 2, return_indices=True)
    unpool = getattr(F, f"max_unpool{axes}d")
    if fields.get("direction", "forward") == "forward":
        return lambda: unpool(x, indices, 2, output_size=wide)
    x.requires_grad_()
    y, dy = unpool(x, indices, 2, output_size=wide), tensor("dy", fields, device, dtype, wide)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
