"""Reading and writing by indices and masks, extremes, sorting, scans, against the CPU."""

import pytest
import torch

from compare import HALVES, same

F = torch.nn.functional
ALL = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
       torch.uint8, torch.bool]


def data(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


def at(*indices):
    """x[indices], with tensors among them on x's device."""
    return lambda x: x[tuple(i.to(x.device) if isinstance(i, torch.Tensor) else i for i in indices)]


I, J = torch.tensor([[0, 2], [3, -1]]), torch.tensor([1, 0])
INDICES = [at(I), at(I, J), at(slice(None), I), at(I, slice(None), J), at(None, I), at(..., J), at(J, 2, slice(1, 3)),
           at(slice(None), J, J), at(torch.zeros(0, dtype=torch.int64)), at(torch.tensor(2)), at(J.int())]


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_index(number):
    same(INDICES[number], data(4, 5, 6), strides=False)
    same(INDICES[number], data(5, 4, 6).transpose(0, 1), strides=False)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dtypes(dtype):
    x = data(4, 5, 6, dtype=dtype)
    same(at(I, J), x)
    same(lambda x: x.index_select(1, J.to(x.device)), x)
    same(lambda x: x.gather(0, I[:, :, None].to(x.device) % 4), x, grad=False)
    same(lambda x: x[x > 0], x, grad=False)
    same(torch.nonzero, x, grad=False, strides=False)
    same(lambda x: torch.sort(x, dim=1, stable=True), x, grad=False)
    same(lambda x: torch.sort(x, dim=1, descending=True, stable=True), x, grad=False)
    same(lambda x: x.max(1), x, grad=False)
    same(lambda x: x.min(-1, keepdim=True), x, grad=False)
    if dtype != torch.bool:
        same(lambda x: (x.argmax(0), x.argmin(1), x.argmax()), x, grad=False)
        same(lambda x: torch.topk(x, 3, 1)[0], x, grad=False)
        same(lambda x: x.cumsum(1), x, grad=False, tolerance=0.02 if dtype in HALVES else None)
    y = data(2, 2, 6, dtype=dtype)

    def put(x, y, **how):
        x = x.clone()
        x[I.to(x.device), J.to(x.device)] = y
        return x

    same(put, x, y)


def test_masks():
    x, mask = data(4, 5), data(4, 5) > 50
    same(lambda x: x[mask.to(x.device)], x)
    same(lambda x: x[mask[:, 0].to(x.device)], x)
    same(lambda x: x[:, mask[0].to(x.device)], x)
    same(lambda x: x[mask], x)  # a mask on the CPU
    same(lambda x: torch.masked_select(x, mask[0].to(x.device)), x)
    same(lambda x: torch.masked_select(x.t(), mask.t().to(x.device)), x)
    same(lambda x: torch.nonzero(x.t() > 30), x, grad=False, strides=False)
    same(lambda x: torch.nonzero(x > 200), x, grad=False, strides=False)
    same(lambda x: torch.where(x > 50), x, grad=False, strides=False)
    same(torch.nonzero, torch.tensor(3), grad=False, strides=False)
    same(torch.nonzero, torch.zeros(0, 3), grad=False, strides=False)

    def put(x, value):
        x = x.clone()
        x[mask.to(x.device)] = value
        return x

    same(lambda x: put(x, -1.5), x)
    same(lambda x: put(x, torch.tensor(2.5, device=x.device)), x)
    same(lambda x: put(x, torch.arange(int(mask.sum()), dtype=x.dtype, device=x.device)), x)


def test_index_put():
    i = torch.tensor([0, 2, 2, 3])
    x, v = data(4, 5), data(4, 5)
    for accumulate in (True, False):
        k = i if accumulate else i.unique()
        same(lambda x, v: x.index_put((k.to(x.device),), v[:len(k)], accumulate=accumulate), x, v)
        same(lambda x, v: x.index_put((k.to(x.device), k.to(x.device)), v[0, 0], accumulate=accumulate), x, v)
        same(lambda x, v: x.t().index_put((k[:2].to(x.device),), v[0, :4], accumulate=accumulate), x, v)
    for dtype in HALVES:
        same(lambda x, v: x.index_put((i.to(x.device),), v, accumulate=True), x.to(dtype), v.to(dtype))


def test_along_a_dimension():
    x, v, i = data(4, 5, 6), data(4, 3, 6), torch.tensor([4, 0, 2])
    here = lambda x: i.to(x.device)
    same(lambda x: x.index_select(1, here(x)), x)
    same(lambda x: x.transpose(1, 2).index_select(-1, here(x)), x)
    same(lambda x, v: x.index_add(1, here(x), v, alpha=2), x, v)
    same(lambda x, v: x.index_copy(1, here(x), v), x, v)
    same(lambda x: x.index_fill(1, here(x), 3.5), x)
    same(lambda x: x.index_select(0, torch.zeros(0, dtype=torch.int64, device=x.device)), x)
    same(lambda x: x.index_select(0, torch.tensor([0], device=x.device)), torch.tensor(3.0))


def test_gather_and_scatter():
    x, src = data(4, 5, 6), data(3, 7, 6)
    i = torch.randint(0, 5, (3, 7, 6))
    here = lambda x: i.to(x.device)
    same(lambda x: x.gather(1, here(x)), x)
    same(lambda x: x.transpose(0, 1).gather(0, i.transpose(0, 1).to(x.device)), x, strides=False)
    same(lambda x: torch.take_along_dim(x, here(x)[:, :, :1], 1), x[:3])
    same(lambda x, s: x.scatter_add(1, here(x), s), x, src)
    unique = torch.stack([torch.randperm(5)[:3] for _ in range(12)]).reshape(3, 4, 3).transpose(1, 2)  # [3, 3, 4]
    same(lambda x, s: x.scatter(1, unique.to(x.device), s), x, src[:, :3, :4])
    same(lambda x: x.scatter(1, unique.to(x.device), 2.5), x)
    same(lambda x, s: x.scatter_add(1, here(x)[:2, :5], s), x, src, grad=False)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            same(lambda x, s: x.scatter_reduce(1, here(x), s, reduce, include_self=include), x / 50, src / 50,
                 tolerance=1e-5, grad=False)
    same(lambda x: x.scatter(1, unique.to(x.device), 2, reduce="multiply"), x, grad=False)
    y = x.to("ocl")
    y.scatter_(1, unique.to("ocl"), -1)
    assert torch.equal(y.cpu(), x.scatter(1, unique, -1))


def test_embedding():
    w, i = torch.randn(11, 5), torch.randint(0, 11, (4, 7))
    i[0, :3] = 3
    for parameters in ({}, dict(padding_idx=3), dict(scale_grad_by_freq=True)):
        same(lambda w: F.embedding(i.to(w.device), w, **parameters), w, tolerance=1e-6)
    same(lambda w: F.embedding(i.to(w.device), w), w.half())
    same(lambda w: F.embedding(i[:0].to(w.device), w), w)


@pytest.mark.parametrize("largest", [True, False])
def test_topk_and_sort(largest):
    torch.manual_seed(0)
    x = torch.randperm(4 * 70 * 3).reshape(4, 70, 3).float()
    for k in (0, 1, 5, 70):
        same(lambda x: torch.topk(x, k, 1, largest), x, grad=k > 0)
    same(lambda x: torch.topk(x.transpose(1, 2), 5, -1, largest), x)
    same(lambda x: torch.sort(x, 0, descending=largest), x)
    same(lambda x: torch.argsort(x, -1, descending=largest), x, grad=False)
    same(lambda x: torch.sort(x, 0, descending=largest), torch.tensor(3.0), grad=False)
    same(lambda x: torch.topk(x, 1, 0, largest), torch.tensor(3.0), grad=False)
    same(lambda x: torch.sort(x, stable=True, descending=largest), torch.tensor([2.0, float("nan"), 1, 2, -0.0, 0.0]),
         grad=False)


def test_extremes():
    x = data(4, 5, 6)
    for function in (torch.max, torch.min):
        for dim in (0, 1, -1):
            same(lambda x: function(x, dim), x)
            same(lambda x: function(x.transpose(0, 2), dim, keepdim=True), x, strides=False)
    for function in (torch.argmax, torch.argmin):
        same(lambda x: (function(x), function(x, 1), function(x, -1, keepdim=True)), x, grad=False)
    same(lambda x: (x.argmax(), x.argmin(0)), torch.tensor([2**53 + 1, 2**53 + 2, 2**53 + 2, 2**53]), grad=False)
    same(lambda x: x.max(0), torch.tensor([2**53 + 1, 2**53 + 2, 2**53]), grad=False)
    same(lambda x: (x.argmax(1), x.max(1), x.min(1)[0])[0], torch.tensor([[1.0, float("nan"), 3], [4, 4, 2]]), grad=False)
    same(lambda x: x.max(0), torch.tensor(3.0), grad=False)


def test_scans():
    x = data(4, 5, 6) / 50
    for dim in (0, 1, -1):
        same(lambda x: x.cumsum(dim), x, tolerance=1e-5)
        same(lambda x: x.cumprod(dim), x, tolerance=1e-3, grad=False)
    same(lambda x: x.cumsum(0), torch.tensor([2**60, 1, 2**60 + 1]))
    same(lambda x: x.cumsum(0, dtype=torch.float64), data(7, dtype=torch.int32))
    same(lambda x: x.cumsum(1), data(3, 4) > 50)


def test_printing():
    x = torch.tensor([[1.5, -2], [float("nan"), 1e6]])
    assert repr(x.to("ocl")).replace(", device='ocl:0'", "") == repr(x)
    i = torch.arange(2000)
    assert repr(i.to("ocl")).replace(", device='ocl:0'", "") == repr(i)


@pytest.fixture
def checked():
    torch.ocl.check_indices(True)
    yield
    torch.ocl.check_indices(False)
    torch.ocl.synchronize()


def test_bad_indices_are_found(checked):
    table = torch.zeros(10, 4, device="ocl", requires_grad=True)
    bad = torch.tensor([1, 12, 3], device="ocl")
    with pytest.raises(IndexError, match=r"element \[1\] is 12, must be from -10 to 9"):
        torch.nn.functional.embedding(bad, table).cpu()
    torch.nn.functional.embedding(bad - 3, table).cpu()  # it is raised once
    with pytest.raises(IndexError, match=r"element \[0, 2\] is -5, must be from -4 to 3"):
        table.gather(1, torch.tensor([[0, 1, -5]], device="ocl"))
        torch.ocl.synchronize()
    with pytest.raises(IndexError, match=r"target: element \[1\] is 4, must be from 0 to 3, or -100"):
        torch.nn.functional.cross_entropy(table[:2], torch.tensor([-100, 4], device="ocl")).item()
    stream = torch.Stream("ocl")
    with pytest.raises(IndexError, match="is 10, must be"), stream:
        table[torch.tensor([10], device="ocl")]
        stream.synchronize()


def test_without_the_check_bad_indices_read_zeros():
    table = torch.ones(3, 2, device="ocl")
    assert table[torch.tensor([1, 5], device="ocl")].tolist() == [[1, 1], [0, 0]]


def test_indices_of_two_dtypes():
    x = torch.arange(24.0).view(2, 3, 4)
    here = [torch.tensor([1, 0], dtype=t) for t in (torch.int64, torch.int32)]
    there = [i.to("ocl") for i in here]
    for a, b in ((0, 1), (1, 0)):
        assert torch.equal(x.to("ocl")[there[a], there[b]].cpu(), x[here[a].long(), here[b].long()])
        y = x.to("ocl")
        y[there[a], :, there[b]] = 100.0
        expected = x.clone()
        expected[here[a].long(), :, here[b].long()] = 100.0
        assert torch.equal(y.cpu(), expected)
        y.index_put_((there[a], there[b]), torch.ones(2, 4, device="ocl"), accumulate=True)
        expected.index_put_((here[a].long(), here[b].long()), torch.ones(2, 4), accumulate=True)
        assert torch.equal(y.cpu(), expected)
