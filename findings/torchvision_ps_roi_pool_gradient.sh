#!/usr/bin/env bash
# torchvision's ps_roi_pool (CPU): the gradient is not that of the forward pass for boxes that reach the last row or
# column of the image, which every box of a whole image does.
#
# torchvision 0.29.1, torch 2.14.1, run 2026-11-28. The operator is linear in its input, so that its gradient is the
# sum of its responses to inputs with a single one. For a 6 x 6 image, one channel for each of 2 x 2 bins and the box
# (0, 0, 6, 6), each bin of the forward pass averages pixels up to row and column 4: those of row and column 5 have no
# influence. The backward pass gives them 1/9 each, and the others less than they have. For a box that ends inside,
# (0, 0, 5, 5), both agree. Forward, bins end at size - 1; backward, at size.
#
# Seen: "box (0, 0, 5, 5): largest difference 0.0000", "box (0, 0, 6, 6): largest difference 0.1389".
# Needs Python 3.10 or later and 6 GB of disk space: these packages come with CUDA's libraries. Fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.14.1 torchvision==0.29.1 numpy
"$work/venv/bin/python" - <<'PYTHON'
import torch
import torchvision
from torchvision.ops import ps_roi_pool

BINS, SIZE = 2, 6


def largest_difference(box):
    boxes = torch.tensor([[0.0, *box]])
    pool = lambda x: ps_roi_pool(x, boxes, BINS).sum()
    x = torch.zeros(1, BINS * BINS, SIZE, SIZE, requires_grad=True)
    (gradient,) = torch.autograd.grad(pool(x), x)
    units = torch.eye(x.numel()).view(-1, *x.shape)
    responses = torch.stack([pool(unit) for unit in units]).view_as(x)
    return (gradient - responses).abs().max().item()


print("torch", torch.__version__, "torchvision", torchvision.__version__)
inside, whole = largest_difference((0, 0, 5, 5)), largest_difference((0, 0, 6, 6))
print(f"box (0, 0, 5, 5): largest difference {inside:.4f}")
print(f"box (0, 0, 6, 6): largest difference {whole:.4f}")
assert inside < 1e-6 and abs(whole - (0.25 - 1 / 9)) < 1e-6, "the behaviour has changed"
PYTHON
echo "as described"
