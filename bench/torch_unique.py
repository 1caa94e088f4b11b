"""Distinct elements as PyTorch finds them, for bench/compare; measure_unique.cpp says the fields."""
import torch

from operands import shape_of


def prepare(fields, device, dtype):
    x = torch.randint(int(fields["distinct"]), shape_of(fields), device=device).to(dtype)
    both = fields.get("with", "both") == "both"
    f = getattr(torch, fields["f"])
    return lambda: f(x, return_inverse=both, return_counts=both)
