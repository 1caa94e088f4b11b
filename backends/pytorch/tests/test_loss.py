"""Softmax, the negative log-likelihood, cross-entropy, gelu, and other losses, against the CPU."""

import pytest
import torch

from compare import FLOATS, HALVES, same

F = torch.nn.functional


def data(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return (torch.randn(shape) * 3).to(dtype)


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax(function, dtype):
    limit = 1e-5 if dtype not in HALVES else 8 * torch.finfo(dtype).eps
    for dim in (0, 1, -1):
        same(lambda x: function(x, dim), data(4, 5, 67, dtype=dtype), tolerance=limit)
    same(lambda x: function(x.transpose(0, 2), 1), data(4, 5, 7, dtype=dtype), tolerance=limit, strides=False)
    same(lambda x: function(x, 0), data(1, dtype=dtype)[0], tolerance=limit)
    same(lambda x: function(x, 1), torch.zeros(3, 0, dtype=dtype))
    if dtype in HALVES:
        same(lambda x: function(x, 1, dtype=torch.float32), data(4, 9, dtype=dtype), tolerance=limit)


def test_softmax_special_values():
    x = torch.tensor([[float("-inf"), 1, 2], [1e4, -1e4, 0], [float("nan"), 1, 2]])
    same(lambda x: F.softmax(x, 1), x, tolerance=1e-6, grad=False)
    same(lambda x: F.log_softmax(x, 1), x, tolerance=1e-6, grad=False)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_nll_loss(reduction, weighted):
    for shape, target in (((6, 5), (6,)), ((5,), ()), ((2, 5, 3, 4), (2, 3, 4)), ((2, 5, 3), (2, 3))):
        x = data(*shape)
        classes = torch.randint(0, 5, target)
        if target and target[0] > 2:
            classes[1] = 2
        weight = torch.rand(5) + 0.5 if weighted else None

        def function(x):
            there = (classes.to(x.device), weight.to(x.device) if weighted else None)
            return F.nll_loss(x, *there, reduction=reduction, ignore_index=2)

        if target == () and classes == 2:
            classes.fill_(1)
        same(function, x, tolerance=1e-5)
        same(lambda x: F.cross_entropy(x, classes.to(x.device), reduction=reduction), x, tolerance=1e-5)


def test_total_weight():
    x, target, weight = data(6, 5), torch.tensor([0, 1, 2, 3, 4, 1]), torch.rand(5)
    for w in (None, weight):
        same(lambda x: torch.ops.aten.nll_loss_forward(x, target.to(x.device), w if w is None else w.to(x.device), 1, 3),
             x, grad=False, tolerance=1e-6)


def test_losses_of_numbers():
    x, y = data(5, 7), data(7, 5).t()
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        target = y.sigmoid() if "binary" in name else y
        same(lambda x: getattr(F, name)(x, target.to(x.device)), x, tolerance=1e-5)
    same(lambda x: F.binary_cross_entropy(x, y.sigmoid().to(x.device)), x.sigmoid(), tolerance=1e-5)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu(approximate, dtype):
    limit = 4e-6 if dtype not in HALVES else 4 * torch.finfo(dtype).eps
    same(lambda x: F.gelu(x, approximate=approximate), data(5, 7, dtype=dtype), tolerance=limit)
    same(lambda x: F.gelu(x[:, ::2].t(), approximate=approximate), data(5, 7, dtype=dtype), tolerance=limit)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_log_sigmoid(dtype):
    limit = 4e-6 if dtype not in HALVES else 4 * torch.finfo(dtype).eps
    same(F.logsigmoid, data(5, 7, dtype=dtype) * 10, tolerance=limit)


def test_logit():
    x = torch.rand(5, 7)
    same(torch.logit, x, tolerance=1e-5)
    same(lambda x: torch.logit(x, 0.2), x, tolerance=1e-5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("function", [torch.nn.functional.mse_loss, torch.nn.functional.smooth_l1_loss])
def test_losses_warn_of_nothing(function, reduction, recwarn):
    a, b = torch.randn(5, 7), torch.randn(5, 7)
    same(lambda x, y: function(x, y, reduction=reduction), a, b)
    assert not [w for w in recwarn if "resized" in str(w.message)]
