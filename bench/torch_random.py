"""Random numbers and samples as PyTorch has them, for bench/compare."""
import math

import torch
import torch.nn.functional as F

from check import same_distribution, same_elements
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
        return lambda: torch.randperm(n, device=device), same_elements
    if f == "multinomial":
        w, samples = tensor("w", fields, device, dtype), int(fields.get("samples", 1))
        replacement = fields.get("replacement", "yes") == "yes"
        return lambda: torch.multinomial(w, samples, replacement), same_distribution
    if f == "dropout":
        x = tensor("x", fields, device, dtype)
        if fields.get("direction", "forward") == "forward":
            return lambda: F.dropout(x, 0.5), same_distribution
        y, dy = F.dropout(x.requires_grad_(), 0.5), tensor("x", fields, device, dtype)
        return lambda: torch.autograd.grad(y, x, dy, retain_graph=True), same_distribution
    y = torch.empty_like(tensor("x", fields, device, dtype))
    if f == "integers":
        high = int(fields.get("range", 1000))
        return lambda: y.random_(0, high), same_distribution
    return lambda: IN_PLACE[f](y), same_distribution
