"""Normalisation as PyTorch has it, for bench/compare; the fields are those of measure_norm.cpp."""
import torch
import torch.nn.functional as F

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

    def forward():
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

    wanted = [t for t in (x, weight, None if kind == "rms" else bias, residual) if t is not None]
    if fields.get("direction", "forward") == "forward":
        return forward
    for t in wanted:
        t.requires_grad_()
    y, dy = forward(), tensor("dy", fields, device, dtype)
    return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True)
