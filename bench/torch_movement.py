"""Movement as PyTorch does it, for bench/compare: see measure_movement.cpp."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    f, x = fields["f"], tensor(fields, device, dtype)
    rank = x.dim()
    if f == "masked_fill":
        mask = torch.rand(shape_of(fields), device=device) < 0.5
        return lambda: x.masked_fill(mask, -1)
    if f == "one_hot":
        shape = shape_of(fields)
        index = torch.ones(x.numel() // shape[-1], dtype=torch.int64, device=device)
        return lambda: F.one_hot(index, shape[-1])
    moved = {"transpose": [*range(1, rank), 0], "permute": [0, rank - 1, *range(1, rank - 1)]}
    if f in moved:
        return lambda: x.permute(moved[f]).contiguous()
    return {
        "concat": lambda: torch.cat([x, x, x, x], 1),
        "slice": lambda: x[..., ::2].contiguous(),
        "tile": lambda: x.repeat(*[1] * (rank - 1), 4),
        "flip": lambda: x.flip(-2, -1),
        "roll": lambda: x.roll((3, 5), (-2, -1)),
        "tril": lambda: x.tril(),
    }[f]
