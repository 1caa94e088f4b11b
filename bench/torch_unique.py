"""Distinct elements as PyTorch finds them, for bench/compare; measure_unique.cpp says the fields."""
import torch

from operands import WAITS, shape_of, whole


def composite(fields):
    return WAITS


def prepare(fields, device, dtype):
    x = whole("x", shape_of(fields), device, int(fields["distinct"])).to(dtype)
    both = fields.get("with", "both") == "both"
    f = getattr(torch, fields["f"])
    return lambda: f(x, return_inverse=both, return_counts=both)
