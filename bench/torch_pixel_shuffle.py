"""Shuffles as PyTorch has them, for bench/compare."""
import torch.nn.functional as F

from operands import tensor

FUNCTIONS = {"shuffle": F.pixel_shuffle, "unshuffle": F.pixel_unshuffle, "channels": F.channel_shuffle}


def prepare(fields, device, dtype):
    x, f, factor = tensor("x", fields, device, dtype), FUNCTIONS[fields["f"]], int(fields.get("factor", 2))
    return lambda: f(x, factor)
