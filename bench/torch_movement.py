"""Movement as PyTorch does it, for bench/compare: see measure_movement.cpp."""
import math

import torch
import torch.nn.functional as F

from operands import WAITS, mask as make_mask, shape_of, tensor

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


def prepare_made(f, shape, device, dtype):
    """Those that only places make, or an index."""
    count = math.prod(shape)
    index = torch.ones(count // shape[-1], dtype=torch.int64, device=device)
    return {
        "arange": lambda: torch.arange(count, device=device, dtype=dtype),
        "linspace": lambda: torch.linspace(0, 1, count, device=device, dtype=dtype),
        "eye": lambda: torch.eye(*shape, device=device, dtype=dtype),
        "fill": lambda: torch.full(shape, 1, device=device, dtype=dtype),
        "one_hot": lambda: F.one_hot(index, shape[-1]),
    }.get(f)


def composite(fields):
    return {"one_hot": WAITS}.get(fields["f"])


def prepare(fields, device, dtype):
    f, shape = fields["f"], shape_of(fields)
    made = prepare_made(f, shape, device, dtype)
    if made:
        return made
    x, rank = tensor("x", fields, device, dtype), len(shape)
    moved = {"transpose": [*range(1, rank), 0], "permute": [0, rank - 1, *range(1, rank - 1)]}
    if f in moved:
        return lambda: x.permute(moved[f]).contiguous()
    mask = make_mask(fields, device)
    to = DTYPES[fields.get("to", "f16")]
    run = {
        "concat": lambda x: torch.cat([x, x, x, x], 1),
        "slice": lambda x: x[..., ::2].contiguous(),
        "tile": lambda x: x.repeat(*[1] * (rank - 1), 4),
        "flip": lambda x: x.flip(-2, -1),
        "roll": lambda x: x.roll((3, 5), (-2, -1)),
        "tril": lambda x: x.tril(),
        "triu": lambda x: x.triu(),
        "masked_fill": lambda x: x.masked_fill(mask, -1),
        "cast": lambda x: x.to(to, copy=True),
    }[f]
    if fields.get("direction", "forward") == "forward":
        return lambda: run(x)
    if f == "cast" and dtype == to:
        raise RuntimeError("a cast to its own dtype hands the gradient on")
    y = run(x.requires_grad_())
    dy = tensor("dy", fields, device, y.dtype, y.shape)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
