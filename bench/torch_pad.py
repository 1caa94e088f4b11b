"""Padding as PyTorch has it, for bench/compare."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor


def prepare(fields, device, dtype):
    shape, amount = shape_of(fields), int(fields.get("amount", 1))
    x = tensor("x", fields, device, dtype)

    def run():
        return F.pad(x, [amount] * (2 * (len(shape) - 2)), mode=fields.get("mode", "constant"))

    if fields.get("direction", "forward") == "forward":
        return run
    x.requires_grad_()
    y = run()
    dy = tensor("dy", fields, device, dtype, y.shape)
    return lambda: torch.autograd.grad(y, [x], dy, retain_graph=True)
