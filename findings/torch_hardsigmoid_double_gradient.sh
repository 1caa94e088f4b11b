#!/usr/bin/env bash
# PyTorch's hardsigmoid (CPU): in f64 the gradient is 1/6 rounded to f32, though the forward pass divides by 6 in f64.
#
# torch 2.13.0, run 2026-11-28. Between -3 and 3 the gradient is 1/6, for which PyTorch gives 0.16666667163372040 in f64: a
# relative error of 2.98e-8. The gradients of sigmoid, tanh and silu are right to f64's own rounding, and so is hardsigmoid's
# forward pass. Whoever takes a f64 step of PyTorch as the reference for mobilenet_v3, whose squeeze-and-excitation gates are
# hardsigmoids, has a reference with f32's accuracy.
#
# Seen: "hardsigmoid: forward error 0.0e+00, relative error of the gradient 2.98e-08",
# "sigmoid, tanh, silu: relative error of the gradient at most 1.7e-15".
# Needs Python 3.10 or later. Fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.13.0 numpy
"$work/venv/bin/python" - <<'PYTHON'
import torch
import torch.nn.functional as F

x = torch.tensor([-2.0, -0.5, 0.25, 1.0, 2.5], dtype=torch.float64)


def gradient(function, at):
    at = at.clone().requires_grad_(True)
    (result,) = torch.autograd.grad(function(at).sum(), at)
    return result


def relative_error(function, exact):
    return ((gradient(function, x) - exact) / exact).abs().max().item()


print("torch", torch.__version__)
wrong = relative_error(F.hardsigmoid, torch.full_like(x, 1 / 6))
forward = (F.hardsigmoid(x) - (x + 3) / 6).abs().max().item()
s = torch.sigmoid(x)
others = max(
    relative_error(torch.sigmoid, s * (1 - s)),
    relative_error(torch.tanh, 1 - torch.tanh(x) ** 2),
    relative_error(F.silu, s * (1 + x * (1 - s))),
)
print(f"hardsigmoid: forward error {forward:.1e}, relative error of the gradient {wrong:.2e}")
print(f"sigmoid, tanh, silu: relative error of the gradient at most {others:.1e}")
assert 2.9e-8 < wrong < 3.1e-8 and forward < 1e-15 and others < 1e-14, "the behaviour has changed"
PYTHON
echo "as described"
