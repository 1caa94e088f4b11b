"""Distinct elements, places in sorted sequences, counts, orders, patterns, single places: against the CPU."""

import pytest
import torch

from compare import HALVES, assert_same, same

INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.bool]
NAN = float("nan")


def data(*shape, dtype=torch.float32, seed=0):
    torch.manual_seed(sum(shape) + seed)
    return torch.randn(shape).to(dtype)


def whole(*shape, most=6, dtype=torch.int64, seed=0):
    torch.manual_seed(sum(shape) + seed)
    return torch.randint(0, most, shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64] + INTEGERS, ids=str)
def test_unique(dtype):
    x = whole(5, 8, dtype=dtype)
    for t in [x, x.t(), x[:, ::3], x[0, 0], x[:0]]:
        for function in [torch.unique, torch.unique_consecutive]:
            same(lambda t: function(t, return_inverse=True, return_counts=True), t, grad=False)
            same(function, t, grad=False)
    everything = torch.arange(50).flip(0)
    same(lambda t: torch.unique(t, return_counts=True), everything)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_consecutive_slices(dim):
    x = whole(6, 1, 7, most=2).expand(6, 3, 7).sort(0).values
    same(lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True, dim=dim), x, strides=False)
    same(lambda t: torch.unique_consecutive(t, dim=dim), x[:1, :1, :1], strides=False)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right):
    rows, x = data(3, 7).sort(-1).values, data(3, 5, seed=1)
    for options in [{"right": right}, {"side": "right" if right else "left"}, {"right": right, "out_int32": True}]:
        same(lambda s, t: torch.searchsorted(s, t, **options), rows, x, grad=False)
        same(lambda s, t: torch.searchsorted(s, t, **options), rows[0], x.t().contiguous(), grad=False)
        same(lambda s: torch.searchsorted(s, 0.3, **options), rows[1], grad=False)
    same(lambda s, t: torch.searchsorted(s, t, right=right), whole(9).sort().values, whole(4, 5).to(torch.int32))
    same(lambda s, t: torch.searchsorted(s, t, right=right), whole(9).sort().values, x, grad=False)  # two dtypes
    same(lambda s, t: torch.searchsorted(s, t, right=right), rows[:, :0], x, grad=False)
    shuffled = data(3, 7)
    same(lambda s, t: torch.searchsorted(s, t, right=right, sorter=s.argsort(-1)), shuffled, x, grad=False)
    strided = torch.searchsorted(rows.to("ocl")[:, ::2], x.to("ocl").t()[::2].t(), right=right)
    assert_same(strided, torch.searchsorted(rows[:, ::2].contiguous(), x[:, ::2].contiguous(), right=right))
    same(lambda t, b: torch.bucketize(t, b, right=right), whole(4, 5), torch.tensor([1, 3, 5]))
    same(lambda b: torch.bucketize(3, b, right=right), torch.tensor([1, 3, 5]))
    with pytest.raises(RuntimeError):
        torch.searchsorted(rows.to("ocl"), x[:2].to("ocl"))


@pytest.mark.parametrize("invert", [False, True])
def test_isin(invert):
    def function(elements, tests):
        return torch.isin(elements, tests, invert=invert)

    same(function, whole(4, 7, most=9), whole(3, most=9))
    same(function, whole(7, 4, most=9).t(), whole(60, most=9))
    same(function, torch.tensor([NAN, 1.0, 2.5]), torch.tensor([NAN, 2.5, 7.0]), grad=False)
    same(function, whole(5), torch.tensor([0.5, 2.0]), grad=False)
    same(function, whole(5), whole(0))
    same(lambda t: torch.isin(t, 3, invert=invert), whole(4, 7))
    same(lambda t: torch.isin(3, t, invert=invert), whole(4, 7))


def test_counts():
    x = whole(300, most=12)
    same(torch.bincount, x)
    same(lambda t: torch.bincount(t, minlength=20), x[::2].to(torch.uint8))
    same(torch.bincount, x, whole(300).float() / 4, grad=False)
    same(torch.bincount, x, whole(300).double() / 4, grad=False)
    same(lambda t: torch.bincount(t, minlength=3), x[:0])
    with pytest.raises(RuntimeError):
        torch.bincount(torch.tensor([1, -1], device="ocl"))
    y = data(7, 30)
    same(lambda t: torch.histc(t, 10), y, grad=False)
    same(lambda t: torch.histc(t, 8, -1, 1), y.t()[::2], grad=False)
    same(lambda t: torch.histc(t, 8, -1, 1), y.double(), grad=False)
    same(lambda t: torch.histc(t, 8), torch.full((5,), 2.0), grad=False)


def test_repeat_interleave():
    x, repeats = data(5, 3), torch.tensor([2, 0, 1, 3, 1])
    same(lambda t, r: torch.repeat_interleave(t, r, 0), x, repeats, strides=False)
    same(lambda t, r: torch.repeat_interleave(t, r, 0, output_size=7), x, repeats.int(), strides=False)
    same(torch.repeat_interleave, repeats)
    same(lambda t: t.repeat_interleave(2, 1), x, strides=False)
    same(torch.repeat_interleave, repeats[:0])


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_kth_values_and_medians(dim, keepdim):
    x = data(6, 5, 7)
    for t in [x, x.transpose(0, 2), x.to(torch.float16), x.double()]:
        same(lambda t: torch.kthvalue(t, 3, dim, keepdim), t, strides=False)
        same(lambda t: torch.median(t, dim, keepdim), t, strides=False)
    torch.manual_seed(3)
    distinct = torch.randperm(210).view(6, 5, 7)
    same(lambda t: torch.kthvalue(t, 2, dim, keepdim), distinct, strides=False)
    same(lambda t: torch.median(t, dim, keepdim), distinct.int(), strides=False)
    holes = x.masked_fill(x > 1, NAN)
    same(lambda t: torch.nanmedian(t, dim, keepdim)[0], holes, strides=False, grad=False)
    same(lambda t: torch.median(t, dim, keepdim)[0], holes, strides=False, grad=False)


def test_medians_of_all():
    for x in [data(5, 8), data(9, 7).t(), torch.tensor([1.0, NAN, 3.0]), torch.tensor(2.0), data(0), whole(4, 5)]:
        same(torch.median, x, grad=False)
        same(torch.nanmedian, x, grad=False)
    same(torch.median, data(5, 9))
    same(lambda t: torch.kthvalue(t, 1), torch.tensor(3.0))
    for k in [0, 6]:
        with pytest.raises(RuntimeError):
            torch.kthvalue(data(5).to("ocl"), k)


@pytest.mark.parametrize("dim", [0, 1])
def test_extremes_so_far(dim):
    x = data(6, 9)
    x[2, 3] = NAN
    for function in [torch.cummax, torch.cummin]:
        same(lambda t: function(t, dim), x, strides=False)
        same(lambda t: function(t, dim), whole(9, 4).t(), strides=False)


def test_multinomial():
    w = torch.tensor([[0.0, 1.0, 3.0, 0.0], [2.0, 2.0, 0.0, 4.0]])
    torch.manual_seed(0)
    drawn = torch.multinomial(w.to("ocl"), 20000, replacement=True).cpu()
    shares = torch.stack([torch.bincount(row, minlength=4) for row in drawn]) / 20000
    torch.testing.assert_close(shares, w / w.sum(1, keepdim=True), atol=0.02, rtol=0)
    for dtype in HALVES + [torch.float64]:
        once = torch.multinomial(w[1].to(dtype).to("ocl"), 3)
        assert sorted(once.tolist()) == [0, 1, 3]
    generator = torch.Generator("ocl").manual_seed(4)
    first = torch.multinomial(w.to("ocl"), 9, True, generator=generator)
    generator.manual_seed(4)
    assert torch.equal(first, torch.multinomial(w.to("ocl"), 9, True, generator=generator))
    with pytest.raises(RuntimeError):
        torch.multinomial(w.to("ocl"), 5)


def test_spaced_numbers():
    def here(function, tolerance=None, **more):
        assert_same(function(device="ocl", **more), function(device="cpu", **more), tolerance)

    for dtype in [torch.float32, torch.float64, torch.float16, torch.bfloat16]:
        here(lambda **o: torch.linspace(-1, 2, 13, **o), dtype=dtype)
        here(lambda **o: torch.logspace(-1, 2, 7, base=2, **o), 1e-2 if dtype in HALVES else 1e-6, dtype=dtype)
    here(lambda **o: torch.linspace(0, 12, 5, **o), dtype=torch.int64)
    for start, end, steps, base in [(0, 6, 7, 10), (0, 9, 10, 5), (-3, 3, 7, 3), (44, 46, 11, 2), (0, 4, 6, 2.5)]:
        here(lambda **o: torch.logspace(start, end, steps, base=base, **o), dtype=torch.int64)
    for steps in [0, 1, 2]:
        here(lambda **o: torch.linspace(3, 4, steps, **o))
    out = torch.empty(4, 6, device="ocl")[:, ::2]
    torch.linspace(0, 1, 12, out=out)
    assert_same(out.flatten(), torch.linspace(0, 1, 12), strides=False)


def test_diagonals_and_triangles():
    for n, m in [(4, 4), (3, 5), (5, 2), (0, 3)]:
        for dtype in [torch.float32, torch.int64, torch.bool]:
            assert_same(torch.eye(n, m, dtype=dtype, device="ocl"), torch.eye(n, m, dtype=dtype))
        for k in [-2, 0, 1]:
            for of in [torch.tril_indices, torch.triu_indices]:
                assert_same(of(n, m, k, device="ocl"), of(n, m, k))
    for k in [-1, 0, 2]:
        for function in [torch.tril, torch.triu]:
            same(lambda t: function(t, k), data(2, 4, 5))
            same(lambda t: function(t, k), data(5, 4).t(), strides=False)
            same(lambda t: function(t, k), torch.ones(4, 6, dtype=torch.bool))
            same(lambda t: t.clone().t().tril_(k), data(4, 6), strides=False)
    same(torch.trace, data(4, 5))
    same(torch.trace, whole(3, 3, dtype=torch.int32))
    same(torch.diag, data(4))
    same(lambda t: torch.diag(t, 1), data(4, 5), strides=False)
    same(lambda t: torch.diag_embed(t, -1), data(2, 3), strides=False)


def test_cross():
    same(lambda a, b: torch.linalg.cross(a, b), data(4, 3), data(4, 3, seed=1))
    same(lambda a, b: torch.linalg.cross(a, b, dim=0), data(3, 1, 5), data(3, 4, 5, seed=1))
    same(lambda a, b: torch.linalg.cross(a, b), whole(2, 4, 3), whole(2, 4, 3, seed=1))
    same(lambda a, b: torch.linalg.cross(a, b), data(0, 3), data(0, 3))


def test_single_places():
    x, index = data(4, 5), torch.tensor([[3, 19, -1], [0, 7, 3]])
    for t in [x, data(5, 4).t(), whole(4, 5)]:
        same(lambda t, i: torch.take(t, i), t, index)
        for accumulate in [False, True]:
            places = index if accumulate else index[:, :2]
            source = (torch.arange(1, places.numel() + 1) * 2).to(t.dtype).view(places.shape)
            same(lambda t, i, s: t.clone().put_(i, s, accumulate), t, places, source, strides=False)
    same(lambda t, i: torch.take(t, i), x, index[:, :0])
    same(lambda t, m, s: t.masked_scatter(m, s), x, data(4, 5) > 0, data(20, seed=2), grad=False)


@pytest.mark.parametrize("size", [0, 3, 40])
def test_nonzero_of_a_size(size):
    for x in [whole(4, 7, most=3), data(5, 6).t() > 0, torch.tensor(2), whole(0, 3)]:
        same(lambda t: torch.nonzero_static(t, size=size, fill_value=-7), x, grad=False, strides=False)


def test_equal():
    x = data(3, 4).to("ocl")
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:2])
    assert torch.equal(x[:0], x[:0]) and not torch.equal(x * NAN, x * NAN)
