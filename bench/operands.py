"""Operands as the fields of a case say: size, layout, low, high. Their numbers are those that `measure` has
(bench/measure_operands.cpp): they follow from an element's place in row-major order and from the operand's name."""

# What a reference says of itself that reads back from the device how large its result is, or what its inputs are.
WAITS = "waits for the device"


def seed_of(name):
    seed = 2166136261
    for letter in name.encode():
        seed = ((seed ^ letter) * 16777619) & 0xFFFFFFFF
    return seed


def hashed(places, name):
    """`places`: 0, 1, 2, ... as 64-bit integers of PyTorch or NumPy, whose products keep the low bits."""
    low = 0xFFFFFFFF
    h = (places * 0x9E3779B9 + seed_of(name)) & low
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & low
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & low
    return h ^ (h >> 16)


def shape_of(fields):
    return [int(size) for size in fields["size"].split("x")]


def places(shape, device):
    import torch

    return torch.arange(torch.Size(shape).numel(), device=device)


def uniform(name, shape, device, dtype, low=-1, high=1):
    """In [low, high), row-major; computed in single precision."""
    import torch

    x = (hashed(places(shape, device), name) >> 8).to(torch.float32) * 2.0**-24
    return (x * (high - low) + low).to(dtype).reshape(shape)


def whole(name, shape, device, end):
    """Whole numbers from 0 to below `end`, i64."""
    return (hashed(places(shape, device), name) % end).reshape(shape)


def laid_out(x, fields):
    """As the field layout says. strided: every second element of larger rows; nhwc: channels last."""
    layout = fields.get("layout", "nchw")
    if layout == "strided":
        wide = x.new_zeros([*x.shape[:-1], 2 * x.shape[-1]])[..., ::2]
        return wide.copy_(x)
    if layout != "nhwc" or x.dim() < 3:
        return x
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def tensor(name, fields, device, dtype, shape=None):
    """The input of that name."""
    low, high = float(fields.get("low", -1)), float(fields.get("high", 1))
    return laid_out(uniform(name, shape_of(fields) if shape is None else shape, device, dtype, low, high), fields)


def mask(fields, device):
    """The bool input, true with probability one half."""
    return laid_out(whole("mask", shape_of(fields), device, 2) != 0, fields)
