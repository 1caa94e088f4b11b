"""Products of matrices and vectors, concatenation, ranges, against the CPU."""

import pytest
import torch

from compare import FLOATS, assert_same, same

F = torch.nn.functional
SHAPES = [(1, 1, 1), (3, 5, 7), (17, 1, 9), (1, 33, 65), (64, 64, 64), (130, 70, 33)]


def whole(*shape, dtype=torch.float32):
    """Small whole numbers: their products are exact in every dtype."""
    torch.manual_seed(len(shape) + sum(shape))
    return torch.randint(-2, 3, shape).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("m,n,k", SHAPES)
def test_mm(m, n, k, dtype):
    same(torch.mm, whole(m, k, dtype=dtype), whole(k, n, dtype=dtype), tolerance=0, grad=k < 64)


@pytest.mark.parametrize("right", ["plain", "transposed", "strided", "column"])
@pytest.mark.parametrize("left", ["plain", "transposed", "strided", "expanded"])
def test_operands_of_any_strides(left, right):
    forms = {
        "plain": lambda m, n: whole(m, n), "transposed": lambda m, n: whole(n, m).t(),
        "strided": lambda m, n: whole(m * 2, n * 3)[::2, ::3], "expanded": lambda m, n: whole(1, n).expand(m, n),
        "column": lambda m, n: whole(m, n * 2)[:, :n],
    }
    a, b = forms[left](9, 6), forms[right](6, 5)
    assert torch.equal((a.to("ocl") @ b.to("ocl")).cpu(), a @ b)
    x = whole(18, 18).to("ocl")
    y = x.cpu()
    pick = {"plain": lambda t: t[:9, :6], "transposed": lambda t: t[:6, :9].t(), "strided": lambda t: t[::2, ::3],
            "expanded": lambda t: t[:1, :6].expand(9, 6), "column": lambda t: t[4:13, 3:9]}
    assert torch.equal((pick[left](x) @ pick[right](x).t()).cpu(), pick[left](y) @ pick[right](y).t())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bmm(dtype):
    a, b = whole(4, 5, 7, dtype=dtype), whole(4, 7, 3, dtype=dtype)
    same(torch.bmm, a, b, tolerance=0)
    same(lambda a, b: torch.bmm(a, b.transpose(1, 2)), a, whole(4, 3, 7, dtype=dtype), tolerance=0)
    same(lambda a, b: torch.bmm(a[:1].expand(4, -1, -1), b), a, b, tolerance=0)
    same(torch.matmul, whole(2, 3, 5, 7, dtype=dtype), whole(7, 2, dtype=dtype), tolerance=0)
    same(torch.matmul, whole(2, 3, 5, 7, dtype=dtype), whole(3, 7, 2, dtype=dtype), tolerance=0)
    same(lambda a, b: torch.einsum("bik,bkj->bji", a, b), a, b, tolerance=0, strides=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("alpha,beta", [(1, 1), (2, 0.5), (1, 0), (0, 1), (-1, 1)])
def test_addmm(alpha, beta, dtype):
    a, b = whole(6, 5, dtype=dtype), whole(5, 4, dtype=dtype)
    for c in (whole(6, 4, dtype=dtype), whole(4, dtype=dtype), whole(6, 1, dtype=dtype), whole(1, dtype=dtype),
              torch.tensor(2.0, dtype=dtype)):
        same(lambda c, a, b: torch.addmm(c, a, b, alpha=alpha, beta=beta), c, a, b, tolerance=0, grad=beta != 0)
    same(lambda c, a, b: torch.baddbmm(c, a, b, alpha=alpha, beta=beta), whole(3, 6, 4, dtype=dtype),
         whole(3, 6, 5, dtype=dtype), whole(3, 5, 4, dtype=dtype), tolerance=0)
    same(lambda c, a, v: torch.addmv(c, a, v, alpha=alpha, beta=beta), whole(6, dtype=dtype), a, whole(5, dtype=dtype),
         tolerance=0)


def test_nan_does_not_spread_from_beta_zero():
    c = torch.full((6, 4), float("nan"))
    same(lambda c, a, b: torch.addmm(c, a, b, beta=0), c, whole(6, 5), whole(5, 4), tolerance=0, grad=False)


def test_in_place_and_out():
    a, b = whole(6, 5), whole(5, 4)
    x, y = a.to("ocl"), b.to("ocl")
    out = torch.empty(4, 6, device="ocl").t()
    torch.mm(x, y, out=out)
    assert torch.equal(out.cpu(), a @ b) and out.stride() == (1, 6)
    c, d = whole(6, 4).to("ocl"), whole(6, 4)
    address = c.data_ptr()
    c.addmm_(x, y, beta=2)
    assert torch.equal(c.cpu(), d.addmm_(a, b, beta=2)) and c.data_ptr() == address
    out = torch.empty(4, 6, device="ocl").t()
    torch.addmm(c, x, y, out=out)
    assert torch.equal(out.cpu(), torch.addmm(d, a, b))
    with pytest.raises(RuntimeError, match="dtype"):
        torch.mm(x, y.half())


def test_vectors():
    for dtype in FLOATS:
        a, v = whole(7, 9, dtype=dtype), whole(9, dtype=dtype)
        same(torch.mv, a, v, tolerance=0)
        same(torch.dot, v, v.flip(0), tolerance=0)
    same(torch.dot, whole(8)[::2], whole(16)[::4], tolerance=0)
    same(lambda a, v: torch.mv(a.t(), v[::2]), whole(5, 7), whole(10), tolerance=0)
    same(torch.dot, torch.tensor([2**40, 3]), torch.tensor([2**20, 5]))


def test_empty():
    same(torch.mm, torch.zeros(0, 3), torch.zeros(3, 4))
    same(torch.mm, torch.zeros(2, 0), torch.zeros(0, 4))
    same(torch.addmm, torch.ones(4), torch.zeros(2, 0), torch.zeros(0, 4))
    same(torch.bmm, torch.zeros(0, 2, 3), torch.zeros(0, 3, 4))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_linear(dtype):
    x, w, b = (torch.randn(*s).to(dtype) for s in ((5, 3, 17), (9, 17), (9,)))
    limit = 32 * torch.finfo(dtype).eps
    same(F.linear, x, w, b, tolerance=limit)
    same(F.linear, x, w, tolerance=limit)
    same(F.linear, x[0, 0], w, b, tolerance=limit)


def test_cat():
    a, b = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    same(lambda a, b: torch.cat((a, b), 1), a, b)
    same(lambda a, b: torch.cat((a, b[:, :3], a), -1), a, b)
    same(lambda a, b: torch.cat((a.transpose(0, 2), b.transpose(0, 2)[:, ::2]), 1), a, b)
    same(lambda a: torch.stack((a, a * 2), 1), a)
    for dtype in (torch.int64, torch.bool, torch.float16, torch.uint8):
        same(lambda a, b: torch.cat((a, b), 1), a.to(dtype), b.to(dtype))
    same(lambda a, b: torch.cat((a, b), 1), a.long(), b)
    same(lambda a, b: torch.cat((torch.empty(0, device=a.device), a, a)), a, b, grad=False)
    images = torch.randn(2, 3, 5, 4).contiguous(memory_format=torch.channels_last)
    same(lambda t: torch.cat((t, t + 1), 1), images)
    same(lambda a: torch.cat([a] * 40), a)
    out = torch.empty(2, 8, 4, device="ocl")
    torch.cat((a.to("ocl"), b.to("ocl")), 1, out=out)
    assert torch.equal(out.cpu(), torch.cat((a, b), 1))


def test_arange():
    for arguments in ((5,), (0,), (2, 9), (10, -3, -4), (0, 1, 0.1), (1.5, 9, 2), (2**60, 2**60 + 4)):
        expected = torch.arange(*arguments)
        assert_same(torch.arange(*arguments, device="ocl"), expected)
    for dtype in (torch.float16, torch.int32, torch.uint8, torch.float64):
        assert_same(torch.arange(3, 100, 7, dtype=dtype, device="ocl"), torch.arange(3, 100, 7, dtype=dtype))


@pytest.mark.parametrize("use_gelu", [False, True])
def test_addmm_with_an_activation(use_gelu):
    torch.manual_seed(3)
    bias, a, b = torch.randn(5), torch.randn(4, 6), torch.randn(6, 5)
    same(lambda *t: torch._addmm_activation(*t, use_gelu=use_gelu), bias, a, b, tolerance=1e-5, grad=False)
    same(lambda *t: torch._addmm_activation(*t, beta=0.5, alpha=2, use_gelu=use_gelu), torch.randn(4, 5), a, b,
         tolerance=1e-5, grad=False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_integers_are_exact(dtype):
    torch.manual_seed(0)
    low, high = (-(2**31), 2**31) if dtype == torch.int64 else (-9, 10)
    a, b = torch.randint(low, high, (5, 7), dtype=dtype), torch.randint(low, high, (6, 7), dtype=dtype).t()
    same(torch.mm, a, b)
    same(torch.matmul, a.expand(3, 5, 7), b)
    same(lambda c, a, b: torch.addmm(c, a, b, alpha=2, beta=-3), torch.ones(5, 6, dtype=dtype), a, b)
    same(torch.mv, a, b[:, 0])
    same(torch.nn.functional.linear, a, b.t(), torch.arange(6, dtype=dtype))
    same(torch.mm, a[:, :0], b[:0])
