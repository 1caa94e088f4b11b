"""Affine grids as PyTorch has them, for bench/compare: fields as bench/measure_affine_grid.cpp says."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    shape = shape_of(fields)
    axes = shape[-1]
    theta = tensor("theta", fields, device, dtype, [shape[0], axes, axes + 1])
    size, align_corners = [shape[0], 1] + shape[1:-1], fields.get("align_corners") == "1"
    if fields.get("direction", "forward") == "forward":
        return lambda: F.affine_grid(theta, size, align_corners)
    theta.requires_grad_()
    grid, dgrid = F.affine_grid(theta, size, align_corners), tensor("dgrid", fields, device, dtype)
    return lambda: torch.autograd.grad(grid, theta, dgrid, retain_graph=True)
