"""One function on the CPU and on the device: results, dtypes, strides, gradients."""

import torch

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
HALVES = [torch.float16, torch.bfloat16]


def there(value):
    return value.detach().to("ocl") if isinstance(value, torch.Tensor) else value


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for t in result if isinstance(t, torch.Tensor)]


def assert_same(got, expected, tolerance=None, strides=True):
    assert got.device.type == "ocl" and got.dtype == expected.dtype and got.shape == expected.shape
    if strides and expected.numel():
        assert got.stride() == expected.stride(), (got.stride(), expected.stride())
    if expected.dtype.is_floating_point:
        limit = 8 * torch.finfo(expected.dtype).eps if tolerance is None else tolerance
        torch.testing.assert_close(got.detach().cpu(), expected.detach(), rtol=limit, atol=limit, equal_nan=True)
    else:
        assert torch.equal(got.cpu(), expected), (got.cpu(), expected)


def same(function, *arguments, tolerance=None, strides=True, grad=True):
    """The function of these arguments gives the same in both places, and so do the gradients of floating ones. The
    tolerance of half floats is of f32's computation: the CPU rounds in other places."""
    half = any(isinstance(a, torch.Tensor) and a.dtype in HALVES for a in arguments)
    if half and tolerance is None:
        tolerance = 4 * max(torch.finfo(a.dtype).eps for a in arguments if isinstance(a, torch.Tensor) and
                            a.dtype in HALVES)
    here = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments]
    away = [there(a) for a in arguments]
    leaves = []
    for a, b in zip(here, away):
        if grad and isinstance(a, torch.Tensor) and a.is_floating_point():
            leaves.append((a.requires_grad_(), b.requires_grad_()))
    expected, got = tensors_of(function(*here)), tensors_of(function(*away))
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        assert_same(g, e, tolerance, strides)
    if not leaves:
        return
    torch.manual_seed(1)
    outputs = [(e, g) for e, g in zip(expected, got) if e.requires_grad]
    assert outputs
    seeds = [torch.randint(-3, 4, e.shape).to(e.dtype) for e, _ in outputs]
    for a, b in leaves:
        a.grad = b.grad = None
    torch.autograd.backward([e for e, _ in outputs], seeds)
    torch.autograd.backward([g for _, g in outputs], [s.to("ocl") for s in seeds])
    for a, b in leaves:
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            limit = None if tolerance is None else 4 * tolerance
            assert_same(b.grad, a.grad, limit, strides=False)
