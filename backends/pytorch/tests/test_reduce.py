"""Reductions against the CPU: dtypes, dimensions, strides, empty tensors."""

import math

import pytest
import torch

SHAPE = (3, 5, 70, 4)
DIMS = [None, 0, 1, 3, -2, (0, 1), (1, 3), (0, 2, 3), (0, 1, 2, 3)]


def check(function, x, tolerance=1e-5):
    expected, got = function(x), function(x.to("ocl"))
    for e, g in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (expected, got))):
        assert g.device.type == "ocl" and g.dtype == e.dtype and g.shape == e.shape and g.stride() == e.stride()
        if e.dtype.is_floating_point:
            torch.testing.assert_close(g.cpu(), e, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert torch.equal(g.cpu(), e), (g.cpu(), e)


def data(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randint(-4, 5, SHAPE).to(dtype)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "all", "any", "var", "std"])
def test_dimensions(name, dim, keepdim):
    function = getattr(torch, name)
    x = data()
    if name == "all":
        x = x + 4
    if dim is None:
        check(lambda t: function(t), x)
    else:
        check(lambda t: function(t, dim=dim, keepdim=keepdim), x)


@pytest.mark.parametrize("dim", [0, 2, -1])
def test_products_and_norms(dim):
    x = (torch.rand(SHAPE) + 0.5).to(torch.float32)
    check(lambda t: t[:, :, :9].prod(dim), x)
    check(lambda t: t[0, 0, :3].prod(), x)
    for order in (0, 1, 2, 3, 0.5, math.inf, -math.inf):
        check(lambda t: torch.linalg.vector_norm(t - 1, order, dim), x, 1e-4)
        check(lambda t: torch.linalg.vector_norm(t - 1, order), x, 1e-4)
    check(lambda t: torch.norm(t), x)
    check(lambda t: torch.var_mean(t, dim), x)
    check(lambda t: torch.std_mean(t, dim, correction=0), x)
    check(lambda t: torch.var(t, dim, correction=100), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16,
                                   torch.int8, torch.uint8, torch.bool], ids=str)
def test_dtypes(dtype):
    x = data(torch.int64).abs().to(dtype)
    for name in ("sum", "all", "any", "max", "min"):
        check(getattr(torch, name), x, 2e-2 if dtype.is_floating_point else 0)
    check(lambda t: t.amax(2), x)
    check(lambda t: t.sum(2), x, 2e-2)
    check(lambda t: t.sum(1, dtype=torch.float32), x)
    if dtype.is_floating_point:
        check(lambda t: t.mean((0, 2)), x, 2e-2)


def test_whole_numbers_are_exact():
    x = torch.tensor([2**60 + 1, 2**60 + 3, 5, -7])
    check(torch.sum, x)
    check(torch.max, x)
    check(lambda t: t[2:].prod(), x)


@pytest.mark.parametrize("form", [lambda t: t.transpose(0, 3), lambda t: t[:, ::2, 1:, 1:3],
                                  lambda t: t[:, :1].expand(-1, 5, -1, -1), lambda t: t[1],
                                  lambda t: t.contiguous(memory_format=torch.channels_last)])
def test_strides(form):
    x = data()
    there = x.to("ocl")
    for dim in (None, 0, 1, -1, (0, 2)):
        for name in ("sum", "amax"):
            function = lambda t: getattr(torch, name)(t) if dim is None and name == "sum" else getattr(torch, name)(
                t, dim=() if dim is None else dim)
            assert torch.equal(function(form(there)).cpu(), function(form(x)))


def test_nan_and_infinity():
    x = torch.tensor([[1.0, math.nan, 2], [math.inf, 3, 4], [-math.inf, math.inf, 0]])
    for name in ("sum", "mean", "amax", "amin"):
        check(lambda t: getattr(torch, name)(t, dim=1), x)
    for name in ("all", "any", "max", "min"):
        check(getattr(torch, name), x)


def test_empty():
    x = torch.zeros(3, 0, 2)
    for name in ("sum", "prod", "all", "any"):
        check(lambda t: getattr(torch, name)(t, dim=1), x)
        check(getattr(torch, name), x)
    check(lambda t: t.mean(1), x)
    with pytest.raises((RuntimeError, IndexError)):
        x.to("ocl").amax(1)


def test_large():
    x = torch.rand(300_000)
    check(torch.sum, x.double(), 1e-12)
    assert abs(x.to("ocl").sum().item() - x.double().sum().item()) < 0.1
    check(lambda t: t.reshape(3, 100_000).mean(1), x)


def test_gradients():
    x = torch.rand(4, 5, 6)
    for function in (torch.sum, torch.mean, lambda t: t.amax((0, 2)).sum(), lambda t: t.var(1).sum(),
                     lambda t: (t.exp() / t.exp().sum(1, keepdim=True)).square().sum(),
                     lambda t: torch.linalg.vector_norm(t)):
        grads = []
        for device in ("cpu", "ocl"):
            leaf = x.clone().to(device).requires_grad_()
            function(leaf).backward()
            grads.append(leaf.grad.cpu())
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-5, atol=1e-6)


def test_masked_fill():
    x, mask = torch.rand(3, 4), torch.rand(3, 4) > 0.5
    check(lambda t: t.masked_fill(mask.to(t.device), -1.5), x)
    check(lambda t: t.masked_fill(mask[:, :1].to(t.device), math.inf), x)
    check(lambda t: t.masked_fill(mask[0].to(t.device), torch.tensor(2.0)), x)
    check(lambda t: t.masked_fill(mask.to(t.device), torch.tensor(2.0).to(t.device)), x)
    check(lambda t: t.t().masked_fill(mask.t().to(t.device), 3), (x * 9).long())
    y = x.to("ocl")
    y[1:].masked_fill_(mask[1:].to("ocl"), 7)
    x[1:].masked_fill_(mask[1:], 7)
    assert torch.equal(y.cpu(), x)
