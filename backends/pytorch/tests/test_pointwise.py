"""Elementwise operators against the CPU: dtypes, strides, mixed dtypes, numbers on the CPU, whole numbers."""

import math

import pytest
import torch

F = torch.nn.functional
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def check(function, *tensors, tolerance=None):
    """The function of these tensors on the device is what it is on the CPU, dtype and strides too."""
    expected = function(*tensors)
    got = function(*(t.to("ocl") if isinstance(t, torch.Tensor) else t for t in tensors))
    assert got.device.type == "ocl" and got.dtype == expected.dtype and got.shape == expected.shape
    assert got.stride() == expected.stride()
    if expected.dtype.is_floating_point:
        eps = torch.finfo(expected.dtype).eps
        torch.testing.assert_close(got.cpu(), expected, rtol=tolerance or 4 * eps, atol=tolerance or 4 * eps,
                                   equal_nan=True)
    else:
        assert torch.equal(got.cpu(), expected), (got.cpu(), expected)


def floats(dtype, low=-3.0, high=3.0, shape=(5, 7)):
    torch.manual_seed(0)
    return (torch.rand(shape) * (high - low) + low).to(dtype)


UNARY = {  # name: the interval of its arguments
    "abs": (-3, 3), "neg": (-3, 3), "exp": (-3, 3), "exp2": (-3, 3), "expm1": (-3, 3), "log": (0.1, 9),
    "log2": (0.1, 9), "log10": (0.1, 9), "log1p": (-0.5, 9), "sqrt": (0, 9), "rsqrt": (0.1, 9), "sin": (-3, 3),
    "cos": (-3, 3), "tan": (-1.2, 1.2), "asin": (-1, 1), "acos": (-1, 1), "atan": (-3, 3), "sinh": (-3, 3),
    "cosh": (-3, 3), "tanh": (-3, 3), "asinh": (-3, 3), "acosh": (1.1, 9), "atanh": (-0.9, 0.9), "erf": (-3, 3),
    "erfc": (-3, 3), "erfinv": (-0.9, 0.9), "lgamma": (2.5, 9), "digamma": (2, 9), "floor": (-3, 3), "ceil": (-3, 3),
    "round": (-3, 3), "trunc": (-3, 3), "frac": (-3, 3), "sign": (-3, 3), "sgn": (-3, 3), "reciprocal": (0.1, 9),
    "sigmoid": (-3, 3), "sinc": (-3, 3), "signbit": (-3, 3), "isposinf": (-3, 3), "isneginf": (-3, 3),
    "logical_not": (-3, 3), "isnan": (-3, 3), "isinf": (-3, 3), "isfinite": (-3, 3), "square": (-3, 3),
    "relu": (-3, 3), "special.entr": (0, 3),
}


def torch_function(name):
    return torch.special.entr if name == "special.entr" else getattr(torch, name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    loose = {"erfinv", "lgamma", "digamma", "tan", "sinh", "cosh", "expm1", "sinc"}
    eps = torch.finfo(dtype).eps
    x = floats(dtype, *UNARY[name])
    check(torch_function(name), x, tolerance=(32 if name in loose else 8) * eps)


@pytest.mark.parametrize("name", UNARY)
def test_unary_special_values(name):
    if name in ("erfinv", "lgamma", "digamma", "sinc", "sgn", "sign"):
        pytest.skip("defined otherwise, or far from numbers that matter")
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0])
    check(torch_function(name), x, tolerance=1e-5)


@pytest.mark.parametrize("dtype", INTEGERS + [torch.bool], ids=str)
def test_unary_of_integers(dtype):
    x = (torch.arange(35) - (0 if dtype in (torch.uint8, torch.bool) else 17)).to(dtype).reshape(5, 7)
    for name in ("abs", "neg", "sign", "signbit", "bitwise_not", "logical_not", "floor", "round", "square"):
        if dtype == torch.bool and name in ("neg", "square", "floor", "round", "abs"):
            continue
        check(getattr(torch, name), x)
    for name in ("exp", "sin", "sigmoid", "tanh", "sqrt", "erf"):  # to floating
        check(getattr(torch, name), x.clamp(0, 9) if dtype != torch.bool else x, tolerance=1e-5)


BINARY = ["add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin",
          "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "pow", "atan2", "hypot",
          "copysign", "xlogy", "heaviside", "logaddexp", "logaddexp2"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    a, b = floats(dtype, -3, 3), floats(dtype, 0.5, 3).flip(0)
    if name in ("pow", "xlogy"):
        a = a.abs() + 0.1
    a[1] = b[1]
    check(getattr(torch, name), a, b, tolerance=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "maximum", "minimum",
                                  "eq", "lt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                                  "bitwise_right_shift", "logical_xor", "pow", "atan2"])
def test_binary_of_integers(name, dtype):
    torch.manual_seed(1)
    info = torch.iinfo(dtype)
    a = torch.randint(max(info.min, -(2**62)), min(info.max, 2**62), (5, 7), dtype=dtype)
    b = torch.randint(1, 7, (5, 7), dtype=dtype)
    check(getattr(torch, name), a, b, tolerance=1e-6)


def test_whole_numbers_beyond_53_bits():
    a = torch.tensor([2**53 + 1, 2**62 + 3, -(2**62) - 5, 2**63 - 1])
    for function in (torch.add, torch.sub, torch.mul, torch.maximum, torch.eq, torch.lt, torch.bitwise_xor,
                     torch.remainder, torch.floor_divide):
        check(function, a, torch.tensor([3, 2**61 + 1, 7, 2**62 + 1]))
    check(lambda t: t + (2**60 + 1), a)  # a scalar is exact too
    check(lambda t: t * 3 - (2**53 + 1), a)
    check(lambda t: t == 2**53 + 1, a)
    check(lambda t: torch.add(t, t, alpha=2**40 + 1), a)
    check(lambda t: t.clamp(-(2**53) - 1, 2**53 + 1), a)
    check(torch.where, torch.tensor([True, False, True, False]), a, a + 1)


FORMS = {
    "transposed": lambda t: t.transpose(0, 2),
    "strided": lambda t: t[::2, 1:, ::3],
    "broadcast": lambda t: t[:, :1],
    "row": lambda t: t[0, 0],
    "column": lambda t: t[:, :, :1],
    "number": lambda t: t[1, 2, 3],
    "expanded": lambda t: t[:1].expand(4, -1, -1),
}


@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_strides(first, second):
    a, b = floats(torch.float32, shape=(4, 4, 4)), floats(torch.float32, 1, 2, shape=(4, 4, 4))
    left, right = FORMS[first](a), FORMS[second](b)
    try:
        torch.broadcast_shapes(left.shape, right.shape)
    except RuntimeError:
        pytest.skip("they do not broadcast")
    there_a, there_b = a.to("ocl"), b.to("ocl")
    got = FORMS[first](there_a) * FORMS[second](there_b) - 2
    expected = left * right - 2
    assert torch.equal(got.cpu(), expected) and got.stride() == expected.stride()


def test_channels_last_stays():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    y = torch.randn(1, 3, 1, 1)
    check(lambda a, b: torch.relu(a * b + 1), x, y, tolerance=1e-6)


def test_many_dimensions():
    x = torch.randn(2, 2, 2, 2, 2, 2, 2, 2)
    check(torch.add, x, x.permute(7, 6, 5, 4, 3, 2, 1, 0))


@pytest.mark.parametrize("b", FLOATS + INTEGERS + [torch.bool], ids=str)
@pytest.mark.parametrize("a", FLOATS + INTEGERS + [torch.bool], ids=str)
def test_mixed_dtypes(a, b):
    x = (torch.arange(12) % 5).to(a)
    y = (torch.arange(12) % 3 + 1).to(b)
    check(torch.add, x, y)
    check(torch.mul, x, y)
    check(torch.div, x, y)
    check(torch.lt, x, y)
    check(torch.add, x, y[2])  # one number on the device
    check(lambda t: t * y[1], x)  # one number on the CPU


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool], ids=str)
def test_scalars(dtype):
    x = (torch.arange(12) % 5).to(dtype)
    for value in (2, 2.5, True):
        check(lambda t: t + value, x)
        check(lambda t: value * t, x)
        if dtype != torch.bool:
            check(lambda t: 2 - t, x)
            check(lambda t: torch.rsub(t, t, alpha=2), x)
        check(lambda t: t / value, x)
        check(lambda t: t > value, x)
        check(lambda t: t == value, x)
        check(lambda t: value + 1 - t.float(), x)
    check(lambda t: t**2, x.float())
    check(lambda t: t**0.5, x.float(), tolerance=1e-6)
    check(lambda t: 2**t, x.float(), tolerance=1e-6)


def test_scalars_are_rounded_as_on_the_cpu():
    x = torch.tensor([0.1, 0.2, 0.3])
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        check(lambda t: t == 0.1, x.to(dtype))
        check(lambda t: t >= 0.3, x.to(dtype))
    check(lambda t: t + 300, torch.tensor([1, 2], dtype=torch.uint8))


def test_outputs():
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    x, y = a.to("ocl"), b.to("ocl")
    out = torch.empty(3, 4, dtype=torch.float64, device="ocl")
    torch.add(x, y, out=out)
    assert torch.equal(out.cpu(), (a + b).double())
    out = torch.empty(4, 3, device="ocl").t()
    torch.mul(x, y, out=out)
    assert torch.equal(out.cpu(), a * b) and out.stride() == (1, 3)
    out = torch.empty(0, device="ocl")
    torch.exp(x, out=out)
    assert out.shape == (3, 4)
    address = x.data_ptr()
    x.add_(y).mul_(2).clamp_(min=-1)
    assert torch.equal(x.cpu(), ((a + b) * 2).clamp(min=-1)) and x.data_ptr() == address
    with pytest.raises(RuntimeError, match="result type|dtype"):
        torch.add(x, y, out=torch.empty(3, 4, dtype=torch.int32, device="ocl"))
    with pytest.raises(RuntimeError, match="device"):
        torch.add(x, b)
    with pytest.raises(RuntimeError, match="single memory location|overlap"):
        x.view(12)[1:].add_(x.view(12)[:-1])


def test_ternary():
    x, a, b = floats(torch.float32), floats(torch.float32).flip(0), floats(torch.float32, 1, 2)
    check(lambda x, a, b: torch.addcmul(x, a, b, value=0.5), x, a, b)
    check(lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), x, a, b)
    check(torch.lerp, x, a, torch.rand(5, 7), tolerance=1e-6)
    check(lambda x, a: torch.lerp(x, a, 0.3), x, a, tolerance=1e-6)
    check(lambda x, a: torch.lerp(x, a, 0.7), x, a, tolerance=1e-6)
    check(torch.where, x > 0, a, b)
    check(lambda x, a: torch.where(x > 0, a, 0.0), x, a)
    check(lambda x, a: torch.where(x > 0, a.half(), a), x, a)
    check(lambda x: torch.clamp(x, -1, 1), x)
    check(lambda x: torch.clamp(x, min=0.5), x)
    check(lambda x: torch.clamp(x, max=0.5), x)
    check(lambda x, a, b: torch.clamp(x, a, b), x, a, b)
    check(lambda x, a: torch.clamp(x, min=a), x, a)
    check(lambda x: x.clamp(-1, 1), torch.tensor([math.nan, 0, 9, -9]))


ACTIVATIONS = {
    "relu": F.relu, "relu6": F.relu6, "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "elu": lambda x: F.elu(x, 1.5),
    "selu": F.selu, "celu": lambda x: F.celu(x, 1.5), "silu": F.silu, "mish": F.mish, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "hardtanh": F.hardtanh, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "softplus": lambda x: F.softplus(x, 2, 3), "softsign": F.softsign, "hardshrink": F.hardshrink,
    "softshrink": F.softshrink, "tanhshrink": F.tanhshrink, "threshold": lambda x: F.threshold(x, 0.5, -2),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_gradients(name):
    x = floats(torch.float32, -5, 5, (6, 7))
    dy = floats(torch.float32, -1, 1, (6, 7)).flip(1)
    results = []
    for device in ("cpu", "ocl"):
        leaf = x.clone().to(device).requires_grad_()
        y = ACTIVATIONS[name](leaf)
        y.backward(dy.to(device))
        results.append((y.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)


def test_nothing_ran_on_the_cpu():
    torch.ocl.reset_fallbacks()
    x = torch.rand(3, device="cpu").to("ocl")
    ((x + 1) * x.exp() > 2).logical_not().float().sub(x).cpu()
    assert torch.ocl.fallbacks() == {}


def test_programs_are_not_made_for_shapes():
    torch.ocl.synchronize()
    torch.zeros(9, 9, device="ocl") + torch.zeros(9, 9, device="ocl")
    before = torch.ocl.program_counts()["built"]
    for n in (17, 33, 65, 129):
        torch.zeros(n, n, device="ocl") + torch.zeros(n, n, device="ocl")
    assert torch.ocl.program_counts()["built"] - before <= 1
