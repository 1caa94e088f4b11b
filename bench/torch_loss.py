"""Losses as PyTorch has them, for bench/compare."""
import torch
import torch.nn.functional as F

from operands import shape_of, tensor, whole

# What x and the target may be, as tests/cases/loss.cpp has it.
BETWEEN = {"bce": (0.05, 0.95, 0, 1), "bce_with_logits": (-5, 5, 0, 1), "kl_div": (-4, 0, 0.05, 1),
           "kl_div_log": (-4, 0, -4, 0), "poisson_nll": (-2, 2, 0, 5), "soft_margin": (-3, 3, -1, 1)}
FUNCTIONS = {
    "mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss, "huber": F.huber_loss,
    "bce": F.binary_cross_entropy, "bce_with_logits": F.binary_cross_entropy_with_logits, "kl_div": F.kl_div,
    "kl_div_log": lambda x, t, reduction: F.kl_div(x, t, reduction=reduction, log_target=True),
    "poisson_nll": F.poisson_nll_loss, "soft_margin": F.soft_margin_loss,
}


def closure(fields, f, x, dy=None):
    """f(x), or backward its gradient."""
    if fields.get("direction", "forward") == "forward":
        return lambda: f(x)
    x.requires_grad_()
    y = f(x)
    dy = torch.ones_like(y) if y.dim() == 0 else dy
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)


def classes(fields, device, dtype):
    """x and the target of a loss of classes."""
    x, shape = tensor("x", fields, device, dtype), shape_of(fields)
    if fields.get("target") == "probabilities":
        return x, tensor("target", fields, device, dtype)
    return x, whole("target", [shape[0], *shape[2:]], device, shape[1])


def prepare(fields, device, dtype):
    low, high, target_low, target_high = BETWEEN.get(fields["f"], (-2, 2, -2, 2))
    x = tensor("x", {**fields, "low": low, "high": high}, device, dtype)
    target = tensor("target", {**fields, "low": target_low, "high": target_high}, device, dtype)
    f = FUNCTIONS[fields["f"]]
    return closure(fields, lambda x: f(x, target, reduction=fields.get("reduction", "mean")), x,
                   tensor("dy", fields, device, dtype))
