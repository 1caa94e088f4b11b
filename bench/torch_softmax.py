"""Softmax as PyTorch has it, for bench/compare."""
import torch

from operands import shape_of, tensor


def composite(fields):
    return {"masked_softmax": "masked_fill, then softmax"}.get(fields["f"])


def prepare(fields, device, dtype):
    name, axis = fields["f"], int(fields.get("axis", 1))
    x = tensor("x", fields, device, dtype)
    if name == "masked_softmax":
        last = shape_of(fields)[-2:]
        out = (torch.arange(last[0] * last[1], device=device) % 4 == 3).reshape(last)
        f = lambda x: torch.softmax(x.masked_fill(out, -float("inf")), axis)
    elif name == "logsumexp":
        f = lambda x: torch.logsumexp(x, axis, keepdim=True)
    else:
        f = lambda x: getattr(torch, name)(x, axis)
    if fields.get("direction", "forward") == "forward":
        return lambda: f(x)
    x.requires_grad_()
    y = f(x)
    dy = tensor("dy", fields, device, dtype, y.shape)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
