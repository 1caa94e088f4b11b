"""Special functions and functions of integers that the list computes by statements, against the CPU in f64."""

import pytest
import torch
from compare import same

KINDS = [torch.float32, torch.float64]


def near(function, *arguments, relative, floor=0.0):
    """Element by element: as near to f64 as asked for, beside what is below the floor."""
    got = function(*(a.to("ocl") for a in arguments)).cpu()
    expected = function(*(a.double() for a in arguments))
    assert got.dtype == function(*arguments).dtype and got.shape == expected.shape
    fits = expected.abs() <= torch.finfo(got.dtype).max
    assert torch.equal(got.isnan(), expected.isnan()) and torch.equal(got.isfinite()[fits], expected.isfinite()[fits])
    counts = fits & expected.isfinite()
    error = (got.double() - expected).abs()[counts]
    assert (error <= relative * expected.abs()[counts] + floor).all(), error.max()


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_erfcx(dtype):
    x = torch.cat([torch.linspace(-9, 60, 3001, dtype=dtype), torch.tensor([-1e6, 1e6, torch.inf, -torch.inf, torch.nan])])
    near(torch.special.erfcx, x.to(dtype), relative=1e-6 if dtype == torch.float32 else 1e-13)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_log_ndtr(dtype):
    x = torch.cat([torch.linspace(-60, 5, 3001, dtype=dtype), torch.tensor([-1e6, torch.inf, -torch.inf, torch.nan])])
    near(torch.special.log_ndtr, x.to(dtype), relative=4e-6 if dtype == torch.float32 else 1e-13)
    same(torch.special.log_ndtr, torch.randn(5, 7, dtype=dtype)[:, ::2].t(), tolerance=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_ndtri(dtype):
    inside = torch.cat([torch.linspace(0, 1, 1001, dtype=dtype), torch.logspace(-30, -2, 500, dtype=dtype)])
    limits = torch.tensor([0, 1, -0.5, 1.5, torch.nan, 1e-37], dtype=dtype)
    near(torch.special.ndtri, torch.cat([inside, limits]), relative=1e-6 if dtype == torch.float32 else 1e-14)
    same(torch.special.ndtri, torch.rand(5, 7, dtype=dtype) * 0.9 + 0.05, tolerance=1e-5 if dtype == torch.float32 else 1e-12)


def test_special_of_integers_and_none():
    for function in (torch.special.erfcx, torch.special.log_ndtr, torch.special.ndtri):
        same(function, torch.arange(-3, 4), tolerance=1e-5)
        same(function, torch.empty(0, 3), grad=False)


@pytest.mark.parametrize("function", [torch.igamma, torch.igammac])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_incomplete_gamma(function, dtype):
    a = torch.tensor([0, 0.01, 0.5, 1, 2.5, 7, 11.9, 12.1, 19, 100, 1e3, torch.inf, -1], dtype=dtype)[:, None]
    x = torch.cat([torch.linspace(0, 40, 157, dtype=dtype), torch.tensor([90, 100, 110, 1e3, 1.05e3, torch.inf, -1])])
    # Of a above 20 the CPU's own f64 has nine digits.
    near(function, a, x.to(dtype), relative=0, floor=4e-6 if dtype == torch.float32 else 1e-8)
    near(function, a[1:9], x[1:150].to(dtype), relative=2e-4 if dtype == torch.float32 else 1e-12,
         floor=1e-7 if dtype == torch.float32 else 1e-15)


def test_gradient_of_incomplete_gamma():
    a, x = torch.rand(5, 1) * 5 + 0.5, torch.rand(7) * 8 + 0.1
    same(lambda x: torch.igamma(a.to(x.device), x), x, tolerance=1e-5)
    same(lambda x: torch.igammac(a.to(x.device), x), x, tolerance=1e-5)
    for dtype in (torch.float16, torch.bfloat16):
        near(torch.igamma, a.to(dtype), x.to(dtype), relative=0, floor=torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_divisors(dtype):
    least = 0 if dtype == torch.uint8 else -100
    a, b = torch.randint(least, 100, (31, 1), dtype=dtype), torch.randint(least, 100, (37,), dtype=dtype)
    b[0] = a[0] = 0
    for function in (torch.gcd, torch.lcm):
        same(function, a, b)
        same(function, a, torch.tensor(6, dtype=dtype))
    if dtype == torch.int64:
        same(torch.gcd, a * 10**15, b * 10**15)
        # The least number has no positive counterpart, and divided by -1 it ends a process on some CPUs.
        least, seven = torch.tensor([-(2**63), 7], device="ocl")
        assert torch.gcd(least, seven).item() == 1 and torch.gcd(seven, least).item() == 1
        assert torch.lcm(least, seven).item() == -(2**63)
    same(torch.gcd, a[:0], b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_nextafter(dtype):
    limits = torch.finfo(dtype)
    numbers = [0.0, -0.0, 1, -1, 1.5, limits.max, -limits.max, limits.tiny, -limits.tiny, torch.inf, -torch.inf, torch.nan]
    a = torch.tensor(numbers, dtype=dtype)
    # The CPU may not have it of this dtype: then the bits say it.
    got = torch.nextafter(a.to("ocl")[:, None], a.to("ocl")).cpu()
    try:
        expected = torch.nextafter(a[:, None], a)
    except RuntimeError:
        return
    assert got.dtype == dtype and torch.equal(got.nan_to_num(nan=7), expected.nan_to_num(nan=7))
    assert torch.equal(got.signbit(), expected.signbit())
    same(torch.nextafter, torch.randn(5, 7).to(dtype)[:, ::2].t(), torch.randn(4, 1).to(dtype), grad=False, tolerance=0)
    same(torch.nextafter, torch.randn(5).to(dtype), torch.tensor(0.0, dtype=dtype), grad=False, tolerance=0)
    same(torch.nextafter, torch.empty(0, 3, dtype=dtype), torch.empty(3, dtype=dtype), grad=False)
