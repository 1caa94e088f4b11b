"""PyTorch tensors as the fields of a case say: size, layout, low, high."""
import torch


def shape_of(fields):
    return [int(size) for size in fields["size"].split("x")]


def tensor(fields, device, dtype, shape=None):
    """Uniform in [low, high). layout=strided: every second element of larger rows; nhwc: channels last."""
    layout, low, high = fields.get("layout", "nchw"), float(fields.get("low", -1)), float(fields.get("high", 1))
    shape = list(shape_of(fields) if shape is None else shape)
    wide = shape[:-1] + [shape[-1] * (2 if layout == "strided" else 1)]
    x = (torch.rand(wide, device=device) * (high - low) + low).to(dtype)
    if layout == "strided":
        return x[..., ::2]
    if layout != "nhwc" or x.dim() < 3:
        return x
    return x.movedim(1, -1).contiguous().movedim(-1, 1)
