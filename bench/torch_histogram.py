"""Counting elements as PyTorch does, for bench/compare; measure_histogram.cpp says the fields."""
import torch

from operands import tensor


def prepare(fields, device, dtype):
    f, bins = fields["f"], int(fields["bins"])
    x = tensor(fields, device, dtype)
    if f == "histc":
        return lambda: torch.histc(x, bins, -1, 1)
    if f == "histc_data":
        return lambda: torch.histc(x, bins)
    places = torch.randint(bins, [x.numel()], device=device)
    weights = x.reshape(-1) if f == "weighted" else None
    return lambda: torch.bincount(places, weights, bins)
