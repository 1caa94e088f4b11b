"""Grid sampling as PyTorch has it, for bench/compare. Its backward direction gives what is asked for of both gradients."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    shape = shape_of(fields)
    axes = len(shape) - 2
    identity = torch.eye(axes, axes + 1, device=device).expand(shape[0], axes, axes + 1)
    grid = F.affine_grid(identity, shape, align_corners=False)
    grid = (grid + (torch.rand_like(grid) - 0.5) * 0.1).to(dtype)
    x, direction = tensor(fields, device, dtype), fields.get("direction", "forward")

    def run():
        return F.grid_sample(x, grid, fields.get("mode", "bilinear"), fields.get("padding", "zeros"), fields.get("align_corners") == "1")

    if direction == "forward":
        return run
    wanted = (x if direction == "backward_input" else grid).requires_grad_()
    y, dy = run(), tensor(fields, device, dtype)
    return lambda: torch.autograd.grad(y, [wanted], dy, retain_graph=True)
