"""Grid sampling as PyTorch has it, for bench/compare. Its backward direction gives what is asked for of both gradients."""
import torch
import torch.nn.functional as F

from check import CLOSE, close, expecting
from operands import shape_of, tensor, uniform


def prepare(fields, device, dtype):
    shape = shape_of(fields)
    axes = len(shape) - 2
    centers = [((2 * torch.arange(size, device=device).double() + 1) / size - 1).float() for size in shape[2:]]
    identity = torch.stack(torch.meshgrid(*centers, indexing="ij")[::-1], -1)  # along W first
    grid = (uniform("grid", [shape[0], *shape[2:], axes], device, torch.float32, -0.05, 0.05) + identity).to(dtype)
    x, direction = tensor("x", fields, device, dtype), fields.get("direction", "forward")

    def sample(x, grid):
        return F.grid_sample(x, grid, fields.get("mode", "bilinear"), fields.get("padding", "zeros"), fields.get("align_corners") == "1")

    # A place between two elements, to a bit, goes to either: to one of the nearest, or to a gradient of one of two slopes.
    compare = close(1e-3) if fields.get("mode") == "nearest" or direction == "backward_grid" else CLOSE
    dy = tensor("dy", fields, device, dtype)

    def make_run(x, grid, dy):
        if direction == "forward":
            return lambda: sample(x, grid)
        wanted = (x if direction == "backward_input" else grid).requires_grad_()
        y = sample(x, grid)
        return lambda: torch.autograd.grad(y, [wanted], dy, retain_graph=True)[0]

    if dtype.itemsize == 2:  # on a CPU PyTorch computes places in 16 bits
        wide = [t.detach().float() for t in (x, grid, dy)]
        compare = expecting(lambda: [make_run(*wide)()], "PyTorch's result in f32", compare)
    return make_run(x, grid, dy), compare
