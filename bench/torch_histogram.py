"""Counting elements as PyTorch does, for bench/compare; measure_histogram.cpp says the fields."""
import torch

from operands import WAITS, shape_of, tensor, whole


def composite(fields):
    return None if fields["f"] == "histc" else WAITS


def prepare(fields, device, dtype):
    f, bins = fields["f"], int(fields["bins"])
    x = tensor("x", fields, device, dtype)
    if f == "histc":
        return lambda: torch.histc(x, bins, -1, 1)
    if f == "histc_data":
        return lambda: torch.histc(x, bins)
    places = whole("places", shape_of(fields), device, bins).reshape(-1)
    weights = x.reshape(-1) if f == "weighted" else None
    return lambda: torch.bincount(places, weights, bins)
