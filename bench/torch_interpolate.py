"""Interpolation as PyTorch has it, for bench/compare."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor

BY_RANK = {"linear": {3: "linear", 4: "bilinear", 5: "trilinear"}, "cubic": {4: "bicubic"}}


def prepare(fields, device, dtype):
    shape, mode, scale = shape_of(fields), fields["mode"], float(fields.get("scale", 2))
    sizes = [int(size * scale) for size in shape[2:]]
    options = {}
    if mode in BY_RANK:
        options["align_corners"] = fields.get("align_corners") == "1"
        if len(shape) == 4:
            options["antialias"] = fields.get("antialias") == "1"
    mode = BY_RANK.get(mode, {}).get(len(shape), mode.replace("_", "-"))
    x = tensor("x", fields, device, dtype)

    def run():
        return F.interpolate(x, size=sizes, mode=mode, **options)

    if fields.get("direction", "forward") == "forward":
        return run
    x.requires_grad_()
    y, dy = run(), tensor("dy", fields, device, dtype, shape[:2] + sizes)
    return lambda: torch.autograd.grad(y, [x], dy, retain_graph=True)
