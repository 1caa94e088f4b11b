"""Random numbers and samples as PyTorch has them, for bench/compare."""
import math

import torch
import torch.nn.functional as F

from operands import shape_of, tensor

IN_PLACE = {
    "uniform": lambda y: y.uniform_(), "normal": lambda y: y.normal_(), "log_normal": lambda y: y.log_normal_(0, 1),
    "bernoulli": lambda y: y.bernoulli_(0.5), "exponential": lambda y: y.exponential_(), "cauchy": lambda y: y.cauchy_(),
    "geometric": lambda y: y.geometric_(0.25),
}


def prepare(fields, device, dtype):
    f = fields["f"]
    if f == "permutation":
        n = math.prod(shape_of(fields))
        return lambda: torch.randperm(n, device=device)
    if f == "multinomial":
        w, samples = tensor(fields, device, dtype), int(fields.get("samples", 1))
        replacement = fields.get("replacement", "yes") == "yes"
        return lambda: torch.multinomial(w, samples, replacement)
    if f == "dropout":
        x = tensor(fields, device, dtype)
        if fields.get("direction", "forward") == "forward":
            return lambda: F.dropout(x, 0.5)
        y, dy = F.dropout(x.requires_grad_(), 0.5), tensor(fields, device, dtype)
        return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)
    y = torch.empty_like(tensor(fields, device, dtype))
    if f == "integers":
        high = int(fields.get("range", 1000))
        return lambda: y.random_(0, high)
    return lambda: IN_PLACE[f](y)
