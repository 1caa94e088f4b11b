"""Losses of margins, distances of pairs, maxima of windows that begin at random."""

import pytest
import torch
import torch.nn.functional as F
from compare import same

REDUCTIONS = ["none", "mean", "sum"]


def data(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multi_margin(reduction, dtype):
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    target, weight = torch.tensor([2, 0, 4, 4, 1, 3, 0]), torch.rand(5, dtype=dtype) + 0.5

    def loss(x, **options):
        there = {k: v.to(x.device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        return F.multi_margin_loss(x, target.to(x.device), reduction=reduction, **there)

    x = data(7, 5, dtype=dtype)
    same(loss, x, tolerance=limit)
    same(lambda x: loss(x, p=2, margin=0.7), x, tolerance=limit)
    same(lambda x: loss(x, weight=weight, margin=1.5), data(5, 7, dtype=dtype).t(), tolerance=limit)
    same(lambda x: F.multi_margin_loss(x, torch.tensor(3, device=x.device), reduction=reduction), x[0], tolerance=limit)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin(reduction, dtype):
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    target = torch.tensor([[3, 0, -1, 1, 2], [-1, 3, 0, 1, 2], [0, 1, 2, 3, 4], [2, 2, -1, 0, 0], [4, -1, -1, -1, -1]])

    def loss(x):
        return F.multilabel_margin_loss(x, target[: x.shape[0]].to(x.device), reduction=reduction)

    same(loss, data(5, 5, dtype=dtype), tolerance=limit)
    same(loss, data(5, 5, dtype=dtype).t()[:3], tolerance=limit)
    same(lambda x: F.multilabel_margin_loss(x, target[0].to(x.device), reduction=reduction), data(5, dtype=dtype),
         tolerance=limit)
    same(lambda x: torch.ops.aten.multilabel_margin_loss_forward(x, target.to(x.device), 1), data(5, 5, dtype=dtype),
         grad=False, tolerance=limit)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, torch.inf])
def test_distances_of_pairs(p):
    x = data(9, 4)
    x[3] = x[5]
    same(lambda x: torch.pdist(x, p), x, tolerance=2e-5)
    same(lambda x: torch.pdist(x, p), data(9, 8, dtype=torch.float64)[:, ::2], tolerance=1e-12)
    for shape in ((1, 4), (0, 4), (3, 0)):
        same(lambda x: torch.pdist(x, p), torch.randn(shape), grad=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_fractional_max_pool(dtype):
    def pool(axes, images, *arguments, **options):
        samples = torch.rand(images, 3, axes, dtype=torch.float64).to(dtype)
        function = F.fractional_max_pool2d if axes == 2 else F.fractional_max_pool3d
        return lambda x: function(x, *arguments, **options, return_indices=True, _random_samples=samples.to(x.device))

    # Numbers that all differ in any dtype: of equal ones either may be taken.
    def image(*shape):
        return torch.stack([torch.randperm(shape[-1] * shape[-2] * (shape[-3] if len(shape) > 4 else 1))
                            for _ in range(shape[0] * 3)]).reshape(shape).to(dtype)

    same(pool(2, 2, 3, output_size=(4, 5)), image(2, 3, 13, 12), tolerance=0)
    same(pool(2, 1, (2, 4), output_ratio=(0.4, 0.6)), image(1, 3, 13, 12)[0], tolerance=0)
    same(pool(2, 2, 2, output_size=1), image(2, 3, 12, 13).transpose(2, 3), tolerance=0)
    same(pool(3, 2, (2, 1, 3), output_size=(2, 3, 4)), image(2, 3, 4, 7, 8), tolerance=0)


def test_fractional_max_pool_checks():
    with pytest.raises(RuntimeError, match="do not fit"):
        F.fractional_max_pool2d(torch.randn(1, 1, 4, 4, device="ocl"), 3, output_size=3)
