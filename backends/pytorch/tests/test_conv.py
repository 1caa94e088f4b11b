"""Convolutions against the CPU: ranks, groups, transposed, layouts, dtypes, gradients."""

import pytest
import torch

from compare import same

F = torch.nn.functional
CASES = [  # input, weight, parameters
    ((2, 3, 9), (4, 3, 3), {}),
    ((2, 4, 11), (6, 2, 3), dict(stride=2, padding=1, groups=2)),
    ((2, 3, 8, 9), (5, 3, 3, 3), dict(padding=1)),
    ((1, 4, 7, 10), (8, 4, 1, 1), {}),
    ((2, 4, 9, 7), (4, 1, 3, 3), dict(padding=1, groups=4)),
    ((2, 3, 13, 11), (4, 3, 5, 3), dict(stride=(2, 3), padding=(2, 0), dilation=(1, 2))),
    ((3, 6, 8, 8), (9, 2, 3, 3), dict(stride=2, padding=1, groups=3)),
    ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), dict(padding=1)),
    ((2, 4, 5, 4, 6), (4, 2, 2, 1, 3), dict(stride=(2, 1, 2), groups=2)),
]
TRANSPOSED = [
    ((2, 3, 9), (3, 4, 3), dict(stride=2, padding=1, output_padding=1)),
    ((2, 4, 5, 6), (4, 3, 3, 3), dict(stride=2, padding=1, output_padding=(1, 0))),
    ((2, 4, 5, 6), (4, 3, 2, 2), dict(stride=2, groups=2)),
    ((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), dict(stride=2, dilation=1)),
]


def whole(shape, dtype):
    torch.manual_seed(sum(shape))
    return torch.randint(-2, 3, shape).to(dtype)


def function(rank, transposed=False):
    return getattr(F, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward_and_backward(case, with_bias):
    x, w, parameters = whole(case[0], torch.float32), whole(case[1], torch.float32), case[2]
    b = [whole((case[1][0],), torch.float32)] if with_bias else []
    same(lambda x, w, *b: function(x.dim() - 2)(x, w, *(b or [None]), **parameters), x, w, *b, tolerance=1e-5)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_transposed(case, with_bias):
    x, w, parameters = whole(case[0], torch.float32), whole(case[1], torch.float32), case[2]
    b = [whole((case[1][1] * parameters.get("groups", 1),), torch.float32)] if with_bias else []
    same(lambda x, w, *b: function(x.dim() - 2, True)(x, w, *(b or [None]), **parameters), x, w, *b, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("case", [CASES[1], CASES[2], CASES[4]], ids=str)
def test_dtypes(case, dtype):
    x, w, b = whole(case[0], dtype), whole(case[1], dtype), whole((case[1][0],), dtype)
    same(lambda x, w, b: function(x.dim() - 2)(x, w, b, **case[2]), x, w, b,
         tolerance=1e-5 if dtype == torch.float64 else 16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("weights_too", [True, False])
def test_channels_last_stays(weights_too):
    for case in CASES[2:7] + TRANSPOSED[1:3]:
        x = whole(case[0], torch.float32).contiguous(memory_format=torch.channels_last)
        w = whole(case[1], torch.float32)
        if weights_too:
            w = w.contiguous(memory_format=torch.channels_last)
        transposed = case in TRANSPOSED
        leaf = x.to("ocl").requires_grad_()
        y = function(2, transposed)(leaf, w.to("ocl"), **case[2])
        assert y.is_contiguous(memory_format=torch.channels_last)
        y.sum().backward()
        assert leaf.grad.is_contiguous(memory_format=torch.channels_last)
        same(lambda x, w: function(2, transposed)(x, w, **case[2]), x, w, tolerance=1e-5, strides=False)
    x = whole((1, 3, 4, 5, 4), torch.float32).contiguous(memory_format=torch.channels_last_3d)
    y = F.conv3d(x.to("ocl"), whole((2, 3, 2, 2, 2), torch.float32).to("ocl"))
    assert y.is_contiguous(memory_format=torch.channels_last_3d)


def test_inputs_of_any_strides():
    w = whole((4, 3, 3, 3), torch.float32)
    for form in (lambda t: t[:, ::2], lambda t: t[:, :3, 1:, 2:], lambda t: t[:, 1:4].transpose(2, 3),
                 lambda t: t[:, :1].expand(-1, 3, -1, -1)):
        same(lambda x, w: F.conv2d(form(x), w, padding=1), whole((2, 5, 8, 9), torch.float32), w, tolerance=1e-5,
             strides=False)
    same(lambda x, w: F.conv2d(x, w.transpose(0, 1)[:, :4]), whole((2, 4, 8, 9), torch.float32),
         whole((4, 3, 3, 3), torch.float32), tolerance=1e-5)


def test_only_what_is_wanted():
    x, w = whole((2, 3, 8, 8), torch.float32).to("ocl"), whole((4, 3, 3, 3), torch.float32).to("ocl")
    w.requires_grad_()
    F.conv2d(x, w).sum().backward()
    assert w.grad is not None and x.grad is None
    y, v = x.clone().requires_grad_(), w.detach()
    F.conv2d(y, v).sum().backward()
    assert y.grad is not None


def test_unbatched_empty_and_refused():
    same(F.conv2d, whole((3, 8, 8), torch.float32), whole((4, 3, 3, 3), torch.float32), tolerance=1e-5)
    same(F.conv2d, torch.zeros(0, 3, 8, 8), torch.zeros(4, 3, 3, 3))
    with pytest.raises(RuntimeError):
        F.conv2d(torch.zeros(1, 3, 8, 8, device="ocl"), torch.zeros(4, 2, 3, 3, device="ocl"))
    with pytest.raises(RuntimeError):
        F.conv2d(torch.zeros(1, 3, 8, 8, device="ocl"), torch.zeros(4, 3, 3, 3, device="ocl").half())
    same(lambda x, w: F.conv2d(x, w, padding="same"), whole((1, 3, 8, 8), torch.float32),
         whole((4, 3, 3, 5), torch.float32), tolerance=1e-5)


def test_integers_go_to_the_cpu(fallback_allowed):
    x, w = whole((1, 3, 8, 8), torch.int64), whole((4, 3, 3, 3), torch.int64)
    assert torch.equal(F.conv2d(x.to("ocl"), w.to("ocl")).cpu(), F.conv2d(x, w))
    assert sum(torch.ocl.fallbacks().values()) == 1
