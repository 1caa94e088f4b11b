"""What models of other libraries call now and then: whole numbers in histograms, shifts, weight_norm, triangular systems,
quantisation, samples of gamma and Poisson. Against the CPU, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from compare import assert_same, same


def data(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(sum(shape) + seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8], ids=str)
def test_histograms_of_whole_numbers(dtype):
    """The CPU has none: of these numbers those of floats are exact."""
    def check(x, *arguments):
        got = torch.histc(x.to("ocl"), *arguments)
        assert got.dtype == dtype and torch.equal(got.cpu(), torch.histc(x.double(), *arguments).to(dtype))

    x = torch.tensor([0, 1, 1, 3], dtype=dtype)
    assert torch.histc(x.to("ocl"), bins=4, min=0, max=3).tolist() == [1, 2, 0, 1]
    check(x, 4, 0, 3)
    check(torch.arange(100).to(dtype), 8, 0, 63)
    check(torch.arange(100).to(dtype).view(10, 10).t(), 16)
    check(torch.full((5,), 7, dtype=dtype), 4)
    check(torch.arange(0, dtype=dtype), 3, 0, 2)
    out = torch.empty(4, dtype=dtype, device="ocl")
    assert torch.histc(x.to("ocl"), 4, 0, 3, out=out) is out and out.tolist() == [1, 2, 0, 1]


def test_experts_are_counted():
    """As transformers does for each mixture of experts."""
    experts = torch.randint(0, 8, (64, 2), generator=torch.Generator().manual_seed(1))
    counts = torch.histc(experts.to("ocl").int(), bins=8, min=0, max=7)
    assert torch.equal(counts.cpu().long(), torch.bincount(experts.flatten(), minlength=8))
    large = torch.tensor([2**24, 2**24 + 1], dtype=torch.int32, device="ocl")
    assert torch.histc(large, 2, 0, 2**25 + 2).tolist() == [1, 1]


def test_shifts():
    x, y = torch.arange(-6, 6, dtype=torch.int32), torch.arange(12, dtype=torch.int32) % 5
    for t in (x, x.long(), x.to(torch.uint8), x.view(3, 4).t()):
        s = y.to(t.dtype).view_as(t) if t.dim() == 1 else y.view(3, 4).t()
        same(lambda a, b: a << b, t, s)
        same(lambda a, b: a >> b, t, s)
        same(lambda a: a << 3, t)
        same(lambda a: a >> 1, t)
    z = x.to("ocl")
    z <<= 2
    z >>= 1
    assert torch.equal(z.cpu(), x * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_weight_norm(dtype):
    tolerance = 1e-2 if dtype == torch.float16 else None
    for shape, dim in [((4, 3, 5), 0), ((4, 3, 5), 2), ((6, 4), 0), ((6, 4), 1)]:
        v = data(*shape, dtype=dtype)
        g = data(*[n if i == dim else 1 for i, n in enumerate(shape)], dtype=dtype, seed=1)
        same(lambda a, b: torch._weight_norm(a, b, dim), v, g, tolerance=tolerance)
    same(lambda a, b: torch._weight_norm(a, b, 1), data(4, 3, 5), data(1, 3, 1, seed=1))
    torch.manual_seed(0)
    here = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 6, 3))
    away = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 6, 3)).to("ocl")
    away.load_state_dict(here.state_dict())
    x = data(2, 4, 9)
    here(x).square().sum().backward(), away(x.to("ocl")).square().sum().backward()
    for p, q in zip(here.parameters(), away.parameters()):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems(upper, left, unit):
    options = {"upper": upper, "left": left, "unitriangular": unit}

    def function(a, b):
        return torch.linalg.solve_triangular(a, b, **options)

    def matrix(n, *batches, dtype=torch.float32):
        return data(*batches, n, n, dtype=dtype) / n + 3 * torch.eye(n, dtype=dtype)

    same(function, matrix(5), data(5, 5, seed=1), tolerance=1e-5, strides=False)
    same(function, matrix(4, 3, 2), data(3, 2, *((4, 6) if left else (6, 4)), seed=1), tolerance=1e-5, strides=False)
    same(function, matrix(4, 2, dtype=torch.float64), data(3, 1, 4, 4, dtype=torch.float64, seed=1), tolerance=1e-12, strides=False)
    same(function, matrix(150), data(*((150, 3) if left else (3, 150)), seed=1), tolerance=1e-4, strides=False)
    same(function, matrix(3)[:0, :0], torch.zeros(0, 0), strides=False)
    out = torch.empty(0, device="ocl")
    torch.linalg.solve_triangular(matrix(4).to("ocl"), data(4, 4).to("ocl"), out=out, **options)
    torch.testing.assert_close(out.cpu(), function(matrix(4), data(4, 4)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_embeddings_are_cut_down(norm_type):
    table, index = data(6, 4) * 2, torch.tensor([[0, 3, 3], [5, 0, 1]])

    def function(t, i):
        weight = t * 1
        return F.embedding(i, weight, max_norm=1.5, norm_type=norm_type)

    for f in (function, lambda t, i: torch.embedding_renorm_(t.clone(), i, 1.5, norm_type)):
        same(f, table, index, grad=False)
        same(f, table, index.int(), grad=False)
    embedding = torch.nn.Embedding(6, 4, max_norm=1.5, norm_type=norm_type, device="ocl")
    embedding(index.to("ocl")).sum().backward()
    assert float(embedding.weight[index.to("ocl")].norm(norm_type, -1).max()) <= 1.5 + 1e-5


def test_bytes_are_resized():
    x = torch.randint(0, 256, (2, 3, 7, 9), dtype=torch.uint8)
    for mode in ("nearest", "nearest-exact"):
        for t in (x, x.to(memory_format=torch.channels_last)):
            same(lambda a: F.interpolate(a, (11, 4), mode=mode), t)
            same(lambda a: F.interpolate(a, scale_factor=1.7, mode=mode), t)
        same(lambda a: F.interpolate(a[0], 20, mode=mode), x)
        same(lambda a: F.interpolate(a.unsqueeze(2), (2, 5, 5), mode=mode), x)


def test_fake_quantisation():
    # Halves of the scale, which are rounded to even numbers, and what lies outside.
    x = torch.cat([torch.arange(-40, 41) * 0.125, data(50) * 4]).float()
    for zero in (0, 3):
        same(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.25, zero, -8, 7), x)
        same(lambda t, s, z: torch.fake_quantize_per_tensor_affine(t, s, z, -8, 7), x, torch.tensor(0.25),
             torch.tensor(zero, dtype=torch.int32), grad=False)
    rows = x[:120].view(3, 8, 5)
    for axis, n in ((0, 3), (1, 8), (2, 5)):
        scale, zero = torch.rand(n) + 0.1, torch.arange(n, dtype=torch.int32) % 4
        same(lambda t, s, z: torch.fake_quantize_per_channel_affine(t, s, z, axis, -8, 7), rows, scale, zero, grad=False)
        t = rows.clone().requires_grad_()
        u = rows.to("ocl").requires_grad_()
        torch.fake_quantize_per_channel_affine(t, scale, zero, axis, -8, 7).sum().backward()
        torch.fake_quantize_per_channel_affine(u, scale.to("ocl"), zero.to("ocl"), axis, -8, 7).sum().backward()
        assert torch.equal(u.grad.cpu(), t.grad)
        same(lambda t, s, z: torch._fake_quantize_learnable_per_channel_affine(t, s, z, axis, -8, 7, 0.5), rows, scale,
             zero.float(), tolerance=1e-5)
    same(lambda t, s, z: torch._fake_quantize_learnable_per_tensor_affine(t, s, z, -8, 7, 0.5), x, torch.tensor([0.25]),
         torch.tensor([1.0]), tolerance=1e-5)


def test_products_of_bytes():
    torch.manual_seed(2)
    a, b = torch.randint(-128, 128, (17, 40), dtype=torch.int8), torch.randint(-128, 128, (40, 24), dtype=torch.int8)
    expected = (a.long() @ b.long()).int()
    for x, y in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t()), (a.repeat(1, 2)[:, ::2], b)):
        expected = (x.long() @ y.long()).int()
        assert torch.equal(torch._int_mm(x.to("ocl"), y.to("ocl")).cpu(), expected)
    weight, scales = torch.randint(-128, 128, (24, 40), dtype=torch.int8), torch.rand(24)
    x = data(5, 40)
    got = torch._weight_int8pack_mm(x.to("ocl"), weight.to("ocl"), scales.to("ocl"))
    assert_same(got, (x.double() @ weight.double().t() * scales.double()).float(), tolerance=2e-3)
    x = x.bfloat16()
    got = torch._weight_int8pack_mm(x.to("ocl"), weight.to("ocl"), scales.bfloat16().to("ocl"))
    expected = x.double() @ weight.double().t() * scales.bfloat16().double()
    torch.testing.assert_close(got.cpu().double(), expected, rtol=2**-8, atol=2**-6)


def test_samples():
    """dlprim's tests hold the distributions; here: dtypes, seeds, and that parameters are taken element by element."""
    shapes = torch.tensor([0.5, 2.0, 30.0]).repeat(4000, 1)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        torch.manual_seed(5)
        x = torch._standard_gamma(shapes.to(dtype).to("ocl"))
        torch.manual_seed(5)
        assert x.dtype == dtype and torch.equal(x, torch._standard_gamma(shapes.to(dtype).to("ocl")))
        assert not torch.equal(x, torch._standard_gamma(shapes.to(dtype).to("ocl")))
        torch.testing.assert_close(x.cpu().double().mean(0), shapes[0].double(), rtol=0.08, atol=0)
        n = torch.poisson(shapes.to(dtype).to("ocl")).cpu().double()
        assert torch.equal(n, n.round())
        torch.testing.assert_close(n.mean(0), shapes[0].double(), rtol=0.08, atol=0)
    p = torch.distributions.Dirichlet(torch.tensor([1.0, 2.0, 5.0], device="ocl")).sample((4000,)).cpu()
    torch.testing.assert_close(p.sum(-1), torch.ones(4000))
    torch.testing.assert_close(p.mean(0), torch.tensor([1.0, 2.0, 5.0]) / 8, rtol=0.1, atol=0)
    generator = torch.Generator("ocl").manual_seed(4)
    first = torch.poisson(shapes.to("ocl"), generator=generator)
    assert torch.equal(first, torch.poisson(shapes.to("ocl"), generator=generator.manual_seed(4)))


def test_gammas_gradient():
    shapes = torch.tensor([0.1, 0.5, 1.0, 2.0, 5.0, 7.9, 8.1, 30.0, 300.0], dtype=torch.float64)
    a = shapes.unsqueeze(1).expand(9, 40).contiguous()
    torch.manual_seed(3)
    x = torch._standard_gamma(a)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 2e-3)):
        got = torch._standard_gamma_grad(a.to(dtype).to("ocl"), x.to(dtype).to("ocl")).cpu()
        torch.testing.assert_close(got.double(), torch._standard_gamma_grad(a.to(dtype).double(), x.to(dtype).double()), rtol=tolerance, atol=tolerance)
    concentration = torch.tensor([2.0], device="ocl", requires_grad=True)
    torch.distributions.Gamma(concentration, torch.ones(1, device="ocl")).rsample((5,)).sum().backward()
    assert float(concentration.grad) > 0
