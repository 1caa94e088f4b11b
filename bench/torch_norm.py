"""Normalisation as PyTorch has it, for bench/compare; the fields are those of measure_norm.cpp."""
import torch
import torch.nn.functional as F

from check import expecting
from operands import shape_of, tensor, uniform


def composite(fields):
    return {"batch_fused": "batch_norm, + and relu"}.get(fields["kind"])


def prepare(fields, device, dtype):
    kind, shape = fields["kind"], shape_of(fields)
    rows, batch = kind in ("layer", "rms"), kind.startswith("batch")
    channels = shape[-1] if rows else shape[1]
    affine = torch.float32 if batch and dtype != torch.float64 else dtype
    x = tensor("x", fields, device, dtype)
    weight, bias = (uniform(name, [channels], device, affine) for name in ("weight", "bias"))
    variance = torch.ones(channels, device=device, dtype=affine)
    residual = tensor("residual", fields, device, dtype) if kind == "batch_fused" else None

    def forward(x, weight, bias, residual):
        if kind == "layer":
            return F.layer_norm(x, [channels], weight, bias, 1e-5)
        if kind == "rms":
            return F.rms_norm(x, [channels], weight, 1e-5)
        if kind == "group":
            return F.group_norm(x, 32, weight, bias, 1e-5)
        if kind == "instance":
            return F.instance_norm(x, None, None, weight, bias, True, 0.1, 1e-5)
        if kind == "batch_inference":
            return F.batch_norm(x, bias, variance, weight, bias, False, 0.1, 1e-5)
        y = F.batch_norm(x, None, None, weight, bias, True, 0.1, 1e-5)
        return y if residual is None else torch.relu(y + residual)

    def backward(dy, *operands):
        wanted = [t.requires_grad_() for t in operands if t is not None and not (kind == "rms" and t is operands[2])]
        y = forward(*operands)
        return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True)

    operands = (x, weight, bias, residual)
    if fields.get("direction", "forward") == "forward":
        return lambda: forward(*operands)
    dy = tensor("dy", fields, device, dtype)
    if kind != "batch_fused" or dtype.itemsize != 2:
        return backward(dy, *operands)
    # Where a sum is near 0, rounding in between decides whether it passes the ReLU; dlprim does not round there.
    wide = [t.detach().float() for t in (dy, *operands)]
    return backward(dy, *operands), expecting(lambda: backward(*wide)(), "PyTorch's result in f32")
