"""Batch, layer and group normalisation against the CPU."""

import pytest
import torch

from compare import same

F = torch.nn.functional
SHAPES = [(5, 3), (4, 3, 7), (2, 6, 5, 7), (2, 3, 4, 5, 3)]


def data(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return (torch.randn(shape) * 2 + 1).to(dtype)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm(shape, training, affine):
    channels = shape[1]
    vectors = [data(channels) * 0.1, data(channels + 1)[1:]] if affine else []
    results = []

    def function(x, *vectors):
        mean, var = torch.linspace(-1, 1, channels).to(x.device), torch.linspace(0.5, 2, channels).to(x.device)
        y = F.batch_norm(x, mean, var, *vectors, training=training, momentum=0.3, eps=1e-3)
        results.append((mean.cpu(), var.cpu()))
        return y

    same(function, data(*shape), *vectors, tolerance=1e-4)
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


def test_batch_norm_without_running_statistics():
    same(lambda x: F.batch_norm(x, None, None, training=True), data(4, 3, 5, 5), tolerance=1e-4)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_batch_norm_dtypes(dtype, training):
    def function(x, w, b):
        mean, var = torch.zeros(6, device=x.device, dtype=w.dtype), torch.ones(6, device=x.device, dtype=w.dtype)
        return F.batch_norm(x, mean, var, w, b, training=training)

    limit = 1e-9 if dtype == torch.float64 else 16 * torch.finfo(dtype).eps
    same(function, data(2, 6, 5, 7, dtype=dtype), data(6, dtype=dtype), data(6, dtype=dtype), tolerance=limit)
    if dtype != torch.float64:  # as under autocast
        same(function, data(2, 6, 5, 7, dtype=dtype), data(6), data(6), tolerance=limit)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_layouts(training):
    def function(form):
        return lambda x, w, b: F.batch_norm(form(x), torch.zeros(6, device=x.device), torch.ones(6, device=x.device), w, b,
                                            training=training)

    x = data(2, 6, 5, 7)
    same(function(lambda t: t), x.contiguous(memory_format=torch.channels_last), data(6), data(6), tolerance=1e-4)
    same(function(lambda t: t.transpose(2, 3)), x, data(6), data(6), tolerance=1e-4, strides=False)
    same(function(lambda t: t[:, ::2]), data(2, 12, 5, 7), data(6), data(6), tolerance=1e-4, strides=False)
    same(function(lambda t: t), x, data(12)[::2], data(8)[1:7], tolerance=1e-4)


@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize("shape,axes", [((4, 7), 1), ((2, 3, 65), 1), ((2, 3, 5, 7), 2), ((3, 4), 2)])
def test_layer_norm(shape, axes, affine):
    sizes = shape[-axes:]
    vectors = {"both": [data(*sizes), data(*sizes)], "weight": [data(*sizes)], "none": []}[affine]
    same(lambda x, *v: F.layer_norm(x, sizes, *v), data(*shape), *vectors, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_layer_norm_dtypes(dtype):
    limit = 1e-9 if dtype == torch.float64 else 16 * torch.finfo(dtype).eps
    same(lambda x, w, b: F.layer_norm(x, (65,), w, b), data(4, 5, 65, dtype=dtype), data(65, dtype=dtype),
         data(65, dtype=dtype), tolerance=limit)
    same(lambda x, w, b: F.layer_norm(x.transpose(0, 2), (4,), w, b), data(4, 5, 65, dtype=dtype), data(4, dtype=dtype),
         data(4, dtype=dtype), tolerance=2 * limit)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 9), (2, 6, 5, 7)], ids=str)
def test_group_norm(shape, groups):
    if shape == (3, 6) and groups == 6:
        pytest.skip("a value for each group")
    same(lambda x, w, b: F.group_norm(x, groups, w, b), data(*shape), data(6), data(6), tolerance=1e-4)
    same(lambda x: F.group_norm(x, groups), data(*shape), tolerance=1e-4)


def test_group_norm_layouts_and_dtypes():
    x = data(2, 6, 5, 7)
    same(lambda x, w, b: F.group_norm(x, 3, w, b), x.contiguous(memory_format=torch.channels_last), data(6), data(6),
         tolerance=1e-4)
    for dtype in (torch.float16, torch.bfloat16):
        same(lambda x, w, b: F.group_norm(x, 3, w, b), x.to(dtype), data(6, dtype=dtype), data(6, dtype=dtype),
             tolerance=16 * torch.finfo(dtype).eps)
    same(lambda x: F.instance_norm(x), x, tolerance=1e-4)


def test_empty():
    same(lambda x: F.layer_norm(x, (3,)), torch.zeros(0, 3))
    same(lambda x, w: F.group_norm(x, 1, w), torch.zeros(0, 3, 2), torch.ones(3))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_permuted_images(training):
    """The result has no gaps, as on the CPU: .view() takes it."""
    x = data(2, 5, 4, 3).permute(2, 0, 3, 1)

    def run(x, w, b):
        y = F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b, training=training)
        return y.view(y.shape[0], -1)

    same(run, x, data(2), data(2) - 0.5, tolerance=1e-4)
    last = data(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    same(lambda x, w, b: F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b, training=training), last, data(3),
         data(3) - 0.5, tolerance=1e-4)
