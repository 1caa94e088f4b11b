"""The reductions of docs/reductions.md as PyTorch has them, for bench/compare."""
import torch

from operands import WAITS, tensor, uniform


def norm(order):
    return lambda x, axes: torch.linalg.vector_norm(x, order, axes, True)


def arg(f):
    """Those that take one axis, or all of them."""

    def reduce(x, axes):
        return f(x, axes[0], keepdim=True) if len(axes) == 1 else f(x.reshape(-1), 0)

    return reduce


def product(x, axes):
    for axis in axes:
        x = torch.prod(x, axis, keepdim=True)
    return x


OTHERS = {
    "prod": product, "max": arg(torch.max), "min": arg(torch.min), "argmax": arg(torch.argmax), "argmin": arg(torch.argmin),
    "l0": norm(0), "l1": norm(1), "l2": norm(2), "lp": norm(3), "linf": norm(float("inf")), "lminf": norm(-float("inf")),
    "count_nonzero": lambda x, axes: torch.count_nonzero(x, axes),
}


def composite(fields):
    if fields["f"] == "prod" and fields.get("direction") == "backward":
        return WAITS  # it looks for zeros
    if fields["f"] == "prod" and "," in fields["axes"]:
        return "prod of one axis after another"
    return None


def prepare(fields, device, dtype):
    name, axes = fields["f"], [int(axis) for axis in fields["axes"].split(",")]
    f = OTHERS.get(name) or (lambda x, axes: getattr(torch, name)(x, dim=axes, keepdim=True))
    x = tensor("x", fields, device, dtype)
    if fields.get("direction", "forward") == "forward":
        return lambda: f(x, axes)
    results = f(x.requires_grad_(), axes)
    results = [y for y in (results if isinstance(results, tuple) else [results]) if y.requires_grad]
    dys = [uniform(f"dy{i}", y.shape, device, dtype) for i, y in enumerate(results)]
    return lambda: torch.autograd.grad(results, x, dys, retain_graph=True)
