"""Counting elements as PyTorch does, for bench/compare; measure_histogram.cpp says the fields."""
import torch

from check import CLOSE, expecting
from operands import WAITS, shape_of, tensor, whole


def composite(fields):
    return None if fields["f"] == "histc" else WAITS


def in_f32(f, x):
    """PyTorch computes the bin of a 16-bit element in 16 bits, on a CPU."""
    return lambda: f(x), expecting(lambda: [f(x.float())], "PyTorch's counts of f32") if x.dtype.itemsize == 2 else CLOSE


def prepare(fields, device, dtype):
    f, bins = fields["f"], int(fields["bins"])
    x = tensor("x", fields, device, dtype)
    if f == "histc":
        return in_f32(lambda x: torch.histc(x, bins, -1, 1), x)
    if f == "histc_data":
        return in_f32(lambda x: torch.histc(x, bins), x)
    places = whole("places", shape_of(fields), device, bins).reshape(-1)
    weights = x.reshape(-1) if f == "weighted" else None
    return lambda: torch.bincount(places, weights, bins)
