"""Pooling against the CPU."""

import pytest
import torch

from compare import HALVES, same

F = torch.nn.functional


def data(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(shape)


PARAMETERS = [dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=(3, 2), stride=(1, 2)),
              dict(kernel_size=3, stride=2, ceil_mode=True), dict(kernel_size=(1, 5), padding=(0, 2), stride=3)]


@pytest.mark.parametrize("parameters", PARAMETERS + [dict(kernel_size=2, dilation=2)], ids=str)
def test_max_pool2d(parameters):
    same(lambda x: F.max_pool2d(x, **parameters), data(2, 3, 9, 11))
    same(lambda x: F.max_pool2d(x, return_indices=True, **parameters)[1], data(3, 9, 11), grad=False)
    images = data(2, 3, 9, 11).contiguous(memory_format=torch.channels_last)
    same(lambda x: F.max_pool2d(x, **parameters), images)
    same(lambda x: F.max_pool2d(x[:, :, 1:, ::2], **parameters), data(2, 3, 10, 21))


@pytest.mark.parametrize("parameters", PARAMETERS + [dict(kernel_size=3, padding=1, count_include_pad=False),
                                                     dict(kernel_size=2, divisor_override=3)], ids=str)
def test_avg_pool2d(parameters):
    same(lambda x: F.avg_pool2d(x, **parameters), data(2, 3, 9, 11), tolerance=1e-6)
    same(lambda x: F.avg_pool2d(x, **parameters), data(3, 9, 11), tolerance=1e-6)
    images = data(2, 3, 9, 11).contiguous(memory_format=torch.channels_last)
    same(lambda x: F.avg_pool2d(x, **parameters), images, tolerance=1e-6)


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (7, 7), (9, 11), (13, 2)], ids=str)
def test_adaptive(size):
    for x in (data(2, 3, 9, 11), data(3, 9, 11), data(2, 3, 9, 11).contiguous(memory_format=torch.channels_last)):
        same(lambda x: F.adaptive_avg_pool2d(x, size), x, tolerance=1e-6, strides=size != (1, 1))
        same(lambda x: F.adaptive_max_pool2d(x, size), x, strides=size != (1, 1))
    same(lambda x: F.adaptive_avg_pool1d(x, size[0]), data(2, 3, 9), tolerance=1e-6)
    same(lambda x: F.adaptive_avg_pool3d(x, (2, *size)), data(2, 3, 4, 9, 11), tolerance=1e-6)


def test_one_and_three_dimensions():
    same(lambda x: F.max_pool1d(x, 3, 2, 1), data(2, 3, 17))
    same(lambda x: F.avg_pool1d(x, 3, 2, 1), data(2, 3, 17), tolerance=1e-6)
    same(lambda x: F.max_pool3d(x, 2, 1), data(2, 3, 4, 5, 6))
    same(lambda x: F.avg_pool3d(x, 2, (1, 2, 2)), data(2, 3, 4, 5, 6), tolerance=1e-6)


@pytest.mark.parametrize("dtype", HALVES + [torch.float64], ids=str)
def test_dtypes(dtype):
    x = data(2, 3, 8, 8).to(dtype)
    same(lambda x: F.max_pool2d(x, 2), x)
    same(lambda x: F.avg_pool2d(x, 2), x)
    same(lambda x: F.adaptive_avg_pool2d(x, 3), x, tolerance=32 * torch.finfo(dtype).eps)


def test_ties_and_nan():
    x = torch.zeros(1, 1, 4, 4)
    same(lambda x: F.max_pool2d(x, 2, 1), x)
    x[0, 0, 1, 1] = float("nan")
    same(lambda x: F.max_pool2d(x, 2), x)
