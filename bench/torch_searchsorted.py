"""Places in sorted sequences as PyTorch has them, for bench/compare; measure_searchsorted.cpp says the fields."""
import torch

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    n = int(fields["n"])
    shape = shape_of(fields)[:-1] + [n] if fields.get("sequences", "one") == "each" else [n]
    elements, x = torch.sort(tensor("elements", fields, device, dtype, shape))[0].contiguous(), tensor("x", fields, device, dtype)
    return lambda: torch.searchsorted(elements, x)
