"""Connectionist temporal classification against the CPU."""

import pytest
import torch

from compare import same

F = torch.nn.functional
TIMES, BATCH, CLASSES = 9, 4, 6


def log_probs(dtype=torch.float32):
    torch.manual_seed(2)
    return torch.randn(TIMES, BATCH, CLASSES).to(dtype)


def loss(lengths, labels, **more):
    def function(x, targets):
        return F.ctc_loss(x.log_softmax(-1), targets, torch.tensor(lengths), torch.tensor(labels), **more)

    return function


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("flat", [False, True])
def test_loss(flat, reduction):
    torch.manual_seed(1)
    lengths, labels = [9, 7, 9, 5], [3, 2, 4, 0]
    targets = torch.randint(1, CLASSES, (sum(labels),) if flat else (BATCH, 5))
    same(loss(lengths, labels, reduction=reduction), log_probs(), targets, tolerance=1e-4)
    same(loss(lengths, labels, reduction=reduction), log_probs(torch.float64), targets, tolerance=1e-9)


def test_blank_and_repeats():
    targets = torch.tensor([[1, 1, 2], [0, 0, 0], [4, 2, 2], [1, 2, 4]])
    same(loss([9] * 4, [3] * 4, blank=3), log_probs(), targets, tolerance=1e-4)


def test_too_short():
    targets = torch.tensor([[1, 1, 1, 1], [1, 2, 3, 4], [1, 2, 3, 4], [5, 5, 1, 2]])
    same(loss([5, 9, 3, 9], [4] * 4, zero_infinity=True, reduction="none"), log_probs(), targets, tolerance=1e-4)
    same(loss([5, 9, 3, 9], [4] * 4, reduction="none"), log_probs(), targets, tolerance=1e-4, grad=False)


def test_no_labels():
    same(loss([9, 3, 1, 9], [0] * 4), log_probs(), torch.zeros(4, 2, dtype=torch.long), tolerance=1e-4)
    same(loss([9, 3, 1, 9], [0] * 4), log_probs(), torch.zeros(0, dtype=torch.long), tolerance=1e-4)


def test_half():
    """The CPU has no kernel of f16 to compare with."""
    x, targets = log_probs(torch.float16), torch.tensor([[1, 2], [3, 4], [5, 1], [2, 4]])
    function = loss([9] * 4, [2] * 4, reduction="sum")
    half = x.to("ocl").requires_grad_()
    wide = x.float().requires_grad_()
    got, expected = function(half, targets.to("ocl")), function(wide, targets)
    torch.testing.assert_close(got.cpu().float(), expected, rtol=4e-3, atol=4e-3)
    got.backward()
    expected.backward()
    torch.testing.assert_close(half.grad.cpu().float(), wide.grad, rtol=4e-3, atol=4e-3)
