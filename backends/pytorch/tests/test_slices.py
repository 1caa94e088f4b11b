"""Distinct slices, reductions of segments, cumulative logarithms of sums, padding of integers."""

import pytest
import torch
import torch.nn.functional as F
from compare import FLOATS, HALVES, same


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool], ids=str)
def test_unique_slices(dtype):
    torch.manual_seed(0)
    for shape in ((40, 3), (3, 30), (5, 7, 4), (1, 4), (9, 1)):
        x = torch.randint(0, 2, shape).to(dtype)
        for dim in range(len(shape)):
            same(lambda x: torch.unique(x, dim=dim, return_inverse=True, return_counts=True), x, grad=False, strides=False)
    same(lambda x: torch.unique(x, dim=0), torch.randint(-1, 2, (20, 5)).t().to(dtype), grad=False, strides=False)
    same(lambda x: torch.unique(x, dim=0), torch.empty(0, 3).to(dtype), grad=False)


def test_unique_slices_differ_anywhere():
    x = torch.zeros(60, 33)
    x[torch.arange(33), torch.arange(33)] = 1  # each of these in another column
    x[40, 32] = -1e-30
    same(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), x, grad=False, strides=False)


@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_segments(dtype, reduce, initial):
    torch.manual_seed(0)
    limit = 1e-12 if dtype == torch.float64 else 8 * torch.finfo(dtype).eps * 4
    lengths = torch.tensor([3, 0, 4, 1, 0, 2])

    def function(x, **how):
        there = {k: v.to(x.device) for k, v in how.items()}
        return torch.segment_reduce(x, reduce, **there, axis=next(iter(how.values())).dim() - 1, initial=initial, unsafe=True)

    x = torch.randint(1, 9, (10, 3)).to(dtype) / 4
    if reduce in ("max", "min"):
        x = torch.randperm(30).reshape(10, 3).to(dtype) / 4  # the CPU shares no negative gradient among equal extremes
    same(lambda x: function(x, lengths=lengths), x, tolerance=limit)
    same(lambda x: function(x, offsets=torch.tensor([0, 2, 2, 7, 10])), x, tolerance=limit)
    rows = torch.stack([lengths, lengths.flip(0)])
    same(lambda x: function(x, lengths=rows), torch.stack([x, x.flip(0) * 1.5]), tolerance=limit)
    if reduce == "prod" and dtype not in HALVES:
        x[0] = x[4, 0] = x[5, 0] = x[9, 2] = 0
        same(lambda x: function(x, lengths=lengths), x, tolerance=limit)


def test_equal_extremes_share_a_gradient():
    x = torch.tensor([1.0, 2, 2, 0, 5, 5, 5], device="ocl", requires_grad=True)
    y = torch.segment_reduce(x, "max", lengths=torch.tensor([4, 3], device="ocl"))
    y.backward(torch.tensor([-3.0, 6.0], device="ocl"))
    assert torch.equal(x.grad.cpu(), torch.tensor([0, -1.5, -1.5, 0, 2, 2, 2]))


def test_segments_outside_are_left_out():
    x = torch.arange(10.0, device="ocl")
    offsets = torch.tensor([2, 5, 6], device="ocl")
    assert torch.equal(torch.segment_reduce(x, "sum", offsets=offsets, unsafe=True).cpu(), torch.tensor([9.0, 5.0]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logcumsumexp(dtype):
    torch.manual_seed(0)
    limit = None if dtype in HALVES else 1e-5 if dtype == torch.float32 else 1e-12
    same(lambda x: torch.logcumsumexp(x, 1), torch.randn(5, 37).to(dtype), tolerance=limit)
    same(lambda x: torch.logcumsumexp(x, 0), torch.randn(5, 64).t().to(dtype), tolerance=limit)
    same(lambda x: torch.logcumsumexp(x, -1), torch.tensor(2.0, dtype=dtype), tolerance=limit)
    same(lambda x: torch.logcumsumexp(x, 0), torch.empty(0, 3, dtype=dtype), grad=False)
    # Numbers that a sum of their exponentials could not hold
    far = torch.tensor([-1000.0, -999, 50, 3, 900, -torch.inf, 901], dtype=dtype)
    same(lambda x: torch.logcumsumexp(x, 0), far, tolerance=limit, grad=False)
    limits = torch.tensor([-torch.inf, -torch.inf, 1, torch.inf, 2, torch.nan, 1], dtype=dtype)
    same(lambda x: torch.logcumsumexp(x, 0), limits, tolerance=limit, grad=False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.int16], ids=str)
def test_padding_of_integers(dtype):
    x = torch.randint(0, 100, (2, 3, 5, 6, 7)).to(dtype)
    for mode in ("reflect", "replicate"):
        same(lambda x: F.pad(x, (2, 1), mode=mode), x[0, 0], strides=False)
        same(lambda x: F.pad(x, (2, 3, 0, 4), mode=mode), x[0].transpose(2, 3), strides=False)
        same(lambda x: F.pad(x, (2, 3, 1, 4, 3, 0), mode=mode), x, strides=False)
    same(lambda x: F.pad(x, (-2, 3, 1, -4), mode="replicate"), x[0], strides=False)
