"""Complex numbers on the device, as pairs of real ones: against the CPU, forward and backward."""

import pytest
import torch

from compare import FLOATS

COMPLEX = [torch.complex64, torch.complex128]


def data(*shape, dtype=torch.complex64, seed=0):
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(shape, dtype=torch.complex128, generator=generator).to(dtype)


def whole(*shape, dtype=torch.complex64, seed=0):
    """Small whole numbers: sums and products of them are exact."""
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    parts = torch.randint(-4, 5, (*shape, 2), generator=generator).to(torch.float64)
    return torch.view_as_complex(parts).to(dtype)


def check(got, expected, tolerance):
    assert got.device.type == "ocl" and got.dtype == expected.dtype and got.shape == expected.shape
    got, expected = got.detach().resolve_conj().cpu(), expected.detach().resolve_conj()
    if expected.dtype == torch.complex32:  # the CPU does not even compare these
        got, expected = torch.view_as_real(got), torch.view_as_real(expected)
    if tolerance == 0 or not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        assert torch.equal(got, expected), (got, expected)
    else:
        limit = tolerance * torch.finfo(expected.dtype).eps
        torch.testing.assert_close(got, expected, rtol=limit, atol=limit * max(1, float(expected.abs().max()) if expected.numel() else 1))


def same(function, *arguments, tolerance=16, grad=True):
    """Results and gradients within `tolerance` units of rounding of the largest number; 0: exactly."""
    here = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    away = [a.detach().to("ocl") if isinstance(a, torch.Tensor) else a for a in arguments]
    leaves = [(a, b) for a, b in zip(here, away)
              if grad and isinstance(a, torch.Tensor) and (a.is_complex() or a.is_floating_point())]
    for a, b in leaves:
        a.requires_grad_(), b.requires_grad_()
    expected, got = function(*here), function(*away)
    check(got, expected, tolerance)
    if not leaves or not expected.requires_grad:
        return
    seed = whole(*expected.shape, dtype=torch.complex128)
    seed = seed.to(expected.dtype) if expected.is_complex() else seed.real.to(expected.dtype)
    expected.backward(seed), got.backward(seed.to("ocl"))
    for a, b in leaves:
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            check(b.grad, a.grad, 4 * tolerance)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_arithmetic(dtype):
    a, b = whole(3, 5, dtype=dtype), whole(3, 5, dtype=dtype, seed=1)
    for f in (torch.add, torch.sub, torch.mul):
        same(f, a, b, tolerance=0)
        same(f, a, b[0], tolerance=0)
    same(lambda x, y: x.t() * y.t(), a, b, tolerance=0)
    same(lambda x, y: x[:, ::2] - y[:, ::2], a, b, tolerance=0)
    same(lambda x, y: torch.add(x, y, alpha=2), a, b, tolerance=0)
    same(lambda x, y: torch.sub(x, y, alpha=2 - 1j), a, b, tolerance=0)
    same(lambda x: -x, a, tolerance=0)
    same(lambda x: 3 - x, a, tolerance=0)
    same(lambda x: x * (2 - 3j) + 1j, a, tolerance=0)
    same(lambda x: x * 2, a, tolerance=0)
    same(lambda x, y: x * y.real, a, b, tolerance=0)
    same(lambda x, y: x.imag + y, a, b, tolerance=0)
    same(lambda x, y: torch.addcmul(x, y, x, value=2), a, b, tolerance=0)
    nonzero = data(3, 5, dtype=dtype)
    same(torch.div, a, nonzero)
    same(lambda x: 1 / x, nonzero)
    same(torch.reciprocal, nonzero)
    same(lambda x, y: torch.addcdiv(x, y, x + 3, value=2), nonzero, b)
    same(lambda x, y: torch.lerp(x, y, 0.25), a, b)
    same(lambda x: x.clone().mul_(1j).add_(x), a, tolerance=0)
    same(torch.add, a[:, :0], b[:, :0])
    same(torch.mul, a[0, 0], b[0, 0], tolerance=0)


def test_reals_become_complex():
    x = torch.randn(4, 3)
    for f in (lambda t: t * 1j, lambda t: t + (1 - 2j), lambda t: t.to(torch.complex64) * t,
              lambda t: t.double().to(torch.complex64), lambda t: torch.complex(t, 2 * t), lambda t: t.half().to(torch.complex64)):
        same(f, x)
    same(lambda t: t.to(torch.complex128), data(3, 2), tolerance=0)
    check(data(3, 2).to("ocl").to(torch.float32), data(3, 2).real, 0)


def test_division_neither_overflows_nor_loses_all():
    a = torch.tensor([1e30 + 1e30j, 1e-30 - 1e-30j, 3 + 4j, 1 + 0j], dtype=torch.complex64)
    b = torch.tensor([1e30 - 1e30j, 1e-30 + 1e-30j, 0 + 2j, 0 + 0j], dtype=torch.complex64)
    got = (a.to("ocl") / b.to("ocl")).cpu()
    assert torch.equal(got[:3], torch.tensor([1j, -1j, 2 - 1.5j])) and not torch.isfinite(got[3])


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", ["exp", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
                                  "sigmoid", "sgn", "abs", "angle", "expm1", "square", "conj_physical", "conj", "neg"])
def test_functions(name, dtype):
    x = torch.cat([data(40, dtype=dtype), torch.tensor([3, -3, 2j, -2j, 1 + 1e-3j, -1 - 1e-3j], dtype=dtype)])
    same(getattr(torch, name), x, tolerance=64)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_powers(dtype):
    x, y = data(12, dtype=dtype), data(12, dtype=dtype, seed=1)
    for p in (2, 3, 0.5, -1, 1 - 2j, 0, 1):
        same(lambda t: t**p, x, tolerance=64)
    same(torch.pow, x, y, tolerance=128)
    same(lambda t: 2**t, x, tolerance=64)


def test_tanh_and_tan_far_out():
    x = torch.tensor([30 + 1j, -100 + 2j, 88 - 1j, 1 + 30j, 2 - 90j], dtype=torch.complex64)
    for f in (torch.tanh, torch.tan):
        expected = f(x.to(torch.complex128)).to(torch.complex64)
        torch.testing.assert_close(f(x.to("ocl")).cpu(), expected, rtol=1e-5, atol=1e-30)


def test_comparisons_and_truths():
    a = whole(5, 6)
    b = a.clone()
    b[::2] += 1j
    for f in (torch.eq, torch.ne):
        same(f, a, b)
        same(lambda t: f(t, 0), a)
        same(lambda t: f(t, 1 - 2j), a)
    same(torch.isnan, torch.tensor([1 + 1j, complex(float("nan"), 0), complex(0, float("nan"))]))
    same(torch.isfinite, torch.tensor([1 + 1j, complex(float("inf"), 0), complex(0, float("nan"))]))
    same(torch.nonzero, whole(4, 9) * torch.randint(0, 2, (4, 9)))
    same(torch.logical_not, whole(4, 9))
    same(lambda t: t.any(0), torch.tensor([[0, 1j], [0, 0]]))
    same(lambda t: t.all(), torch.tensor([[1, 1j], [2, 0]]))
    same(torch.count_nonzero, torch.tensor([[1, 1j], [2, 0]]))
    assert torch.equal(a.to("ocl"), a.to("ocl").clone()) and not torch.equal(a.to("ocl"), b.to("ocl"))


def test_polar_and_parts():
    for dtype in FLOATS[::3]:
        size, angle = torch.rand(4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype)
        same(torch.polar, size, angle)
        same(torch.complex, size, angle, tolerance=0)
        same(lambda s, a: torch.polar(torch.ones_like(s), a), size, angle)
    z = whole(4, 6)
    same(torch.view_as_real, z, tolerance=0)
    same(torch.view_as_complex, torch.randn(4, 3, 2), tolerance=0)
    same(lambda t: t.real * 2, z, tolerance=0)
    same(lambda t: t.conj().imag * 2, z, tolerance=0)
    same(lambda t: (t.conj() * t).real, z, tolerance=0)
    with pytest.raises(RuntimeError, match="scalar type"):
        torch.complex(torch.ones(2, device="ocl"), torch.ones(2, device="ocl", dtype=torch.float64))


@pytest.mark.parametrize("dtype", COMPLEX + [torch.complex32], ids=str)
def test_moving(dtype):
    grad = dtype != torch.complex32  # the CPU has no sums of these
    x, y = whole(5, 4, 6).to(dtype), whole(5, 4, 6, seed=1).to(dtype)
    index, mask = torch.tensor([3, 0, 0]), torch.arange(6) % 2 == 0

    def moved(f, *arguments):
        same(f, *arguments, tolerance=0, grad=grad)

    if grad:
        moved(lambda t, u: torch.cat([t, u, t.conj()], 1), x, y)
        moved(lambda t, u: torch.stack([t, u], -1), x, y)
        moved(lambda t, u: torch.cat([t, u.real], -1), x, y)
        moved(lambda t: t[index], x)
        moved(lambda t: t[:, index, index], x)
        moved(lambda t: t[..., mask], x)
        moved(lambda t: t.index_select(1, index.to(t.device)), x)
        moved(lambda t: t.gather(2, torch.tensor([[[1, 0, 5, 5]]]).expand(5, 4, 4).to(t.device)), x)
        moved(lambda t, u: torch.where(mask.to(t.device), t, u), x, y)
        moved(lambda t: torch.where(mask.to(t.device), t, 0), x)
        moved(lambda t: t.masked_fill(mask.to(t.device), 2 - 1j), x)
        moved(lambda t: t.flip(0).roll(2, 1), x)
        moved(lambda t: t[0].tril(), x)
        moved(lambda t: t.masked_select(mask.to(t.device)), x)
        moved(lambda t, u: t.index_add(0, index.to(t.device), u[:3]), x, y)
        moved(lambda t, u: t.index_copy(0, index[:2].to(t.device), u[:2]), x, y)
        moved(lambda t, u: t.scatter_add(2, torch.tensor([[[1, 1, 5, 0, 2, 1]]]).expand(5, 4, 6).to(t.device), u), x, y)
        moved(lambda t: torch.nn.functional.pad(t, (1, 2)), x)
        moved(lambda t, u: t.index_put((index.to(t.device),), u[:3], accumulate=True), x, y)
    moved(lambda t: t.clone(), x)
    moved(lambda t: t.transpose(0, 2).contiguous(), x)
    moved(lambda t: t.expand(2, 5, 4, 6).reshape(-1), x)
    filled = torch.full((3, 4), 2 - 1j, dtype=dtype, device="ocl")
    assert torch.view_as_real(filled).tolist() == [[[2, -1]] * 4] * 3
    filled[:, 1] = 3j
    filled[0].zero_()
    assert filled.cpu()[1].tolist() == [2 - 1j, 3j, 2 - 1j, 2 - 1j] and filled[0, 0].item() == 0


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_sums(dtype):
    x = whole(3, 5, 4, dtype=dtype)
    for f in (torch.sum, lambda t: t.sum(1), lambda t: t.sum((0, 2), keepdim=True), lambda t: t.cumsum(1)):
        same(f, x, tolerance=0)
    same(lambda t: t.mean(2), x, tolerance=0)
    same(lambda t: t.prod(1), data(3, 5, dtype=dtype))
    same(torch.prod, data(3, 3, dtype=dtype))
    same(lambda t: torch.linalg.vector_norm(t), data(3, 5, dtype=dtype))
    same(lambda t: t.norm(dim=1), data(3, 5, dtype=dtype))
    same(torch.trace, whole(4, 4, dtype=dtype), tolerance=0)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_products(dtype):
    a, b = whole(3, 5, dtype=dtype), whole(5, 4, dtype=dtype)
    same(torch.mm, a, b, tolerance=0)
    same(lambda x, y: x.conj() @ y, a, b, tolerance=0)
    same(lambda x, y: x.mH.mm(y.conj_physical()[:3]), a, b, tolerance=0)
    same(torch.matmul, whole(2, 3, 5, dtype=dtype), whole(2, 5, 4, dtype=dtype), tolerance=0)
    same(torch.matmul, a, b[:, 0], tolerance=0)
    same(lambda x, y: torch.addmm(y[:3], x, y, beta=2, alpha=1 - 1j), a, b, tolerance=0)
    same(torch.dot, a[0], a[1], tolerance=0)
    same(torch.vdot, a[0], a[1], tolerance=0)
    same(lambda x, y: torch.einsum("ij,jk->ki", x, y), a, b, tolerance=0)
    same(lambda x, y: torch.nn.functional.linear(x, y), a, whole(6, 5, dtype=dtype), tolerance=0)


def test_rotary_embedding_in_complex_numbers():
    """Llama 4's and DeepSeek's."""
    inverse = 1 / 10000 ** (torch.arange(0, 8, 2).float() / 8)

    def rotated(q):
        angles = torch.outer(torch.arange(6, device=q.device).float(), inverse.to(q.device))
        turns = torch.polar(torch.ones_like(angles), angles)[torch.arange(6, device=q.device)]
        z = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        return torch.view_as_real(z * turns[None, :, None, :]).flatten(3).type_as(q)

    same(rotated, torch.randn(2, 6, 3, 8))


def test_random_and_printed():
    torch.manual_seed(3)
    x = torch.randn(4000, dtype=torch.complex64, device="ocl").cpu()
    assert abs(x.mean()) < 0.08 and abs(float(x.abs().square().mean()) - 1) < 0.08
    assert "j" in repr(torch.ones(2, dtype=torch.complex64, device="ocl"))
