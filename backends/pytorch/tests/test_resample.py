"""Resizing, sampling by grids, padding, unpooling, windows as columns: against the CPU."""

import pytest
import torch

from compare import HALVES, assert_same, same

F = torch.nn.functional
LAST = torch.channels_last


def data(*shape, dtype=torch.float32, seed=0):
    torch.manual_seed(sum(shape) + seed)
    return torch.randn(shape).to(dtype)


IMAGES = {1: (2, 3, 7), 2: (2, 3, 5, 7), 3: (2, 2, 3, 4, 5)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bicubic"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_resizing(axes, mode):
    if mode == "bicubic" and axes != 2:
        pytest.skip("bicubic is of planes")
    mode = LINEAR[axes] if mode == "linear" else mode
    x = data(*IMAGES[axes])
    for more in [{"size": [9, 4, 6][:axes]}, {"scale_factor": 1.7}, {"scale_factor": 0.6}]:
        same(lambda t: F.interpolate(t, mode=mode, **more), x, tolerance=1e-5)
    if "nearest" not in mode:
        same(lambda t: F.interpolate(t, size=[9, 4, 6][:axes], mode=mode, align_corners=True), x, tolerance=1e-5)


@pytest.mark.parametrize("size", [(3, 4), (11, 3)], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased(mode, size):
    same(lambda t: F.interpolate(t, size=size, mode=mode, antialias=True), data(1, 3, 8, 9), tolerance=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_resizing_layouts_and_dtypes(mode):
    def function(t):
        return F.interpolate(t, scale_factor=2, mode=mode)

    same(function, data(2, 3, 5, 7).contiguous(memory_format=LAST), tolerance=1e-5)
    same(function, data(2, 3, 7, 10).transpose(2, 3)[..., ::2], tolerance=1e-5)
    for dtype in HALVES + [torch.float64]:
        same(function, data(1, 2, 4, 5, dtype=dtype), tolerance=1e-9 if dtype == torch.float64 else
             8 * torch.finfo(dtype).eps)
    assert function(torch.empty(0, 3, 4, 5, device="ocl")).shape == (0, 3, 8, 10)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding, align):
    grid = torch.rand(2, 4, 6, 2, generator=torch.Generator().manual_seed(3)) * 2.6 - 1.3

    def function(x, g):
        return F.grid_sample(x, g, mode, padding, align)

    same(function, data(2, 3, 5, 7), grid, tolerance=2e-5)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_of_volumes(mode):
    grid = torch.rand(2, 3, 4, 2, 3, generator=torch.Generator().manual_seed(3)) * 2.4 - 1.2
    same(lambda x, g: F.grid_sample(x, g, mode, align_corners=False), data(2, 2, 3, 5, 4), grid, tolerance=2e-5)


def test_grid_sample_dtypes_and_empty():
    grid = (torch.rand(1, 4, 6, 2, generator=torch.Generator().manual_seed(3)) * 2 - 1).double()
    same(lambda x, g: F.grid_sample(x, g, align_corners=False), data(1, 3, 5, 7, dtype=torch.float64), grid,
         tolerance=1e-12)
    x = data(1, 3, 5, 7)
    expected = F.grid_sample(x.half().float(), grid.half().float(), align_corners=False)
    got = F.grid_sample(x.half().to("ocl"), grid.half().to("ocl"), align_corners=False)
    assert_same(got, expected.half(), 4e-3)
    empty = torch.empty(0, 3, 5, 7, device="ocl")
    assert F.grid_sample(empty, torch.empty(0, 2, 2, 2, device="ocl"), align_corners=False).shape == (0, 3, 2, 2)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_padding(axes, mode):
    padding = [2, 1, 0, 2, 1, 1][:2 * axes]
    x = data(*IMAGES[axes])
    same(lambda t: F.pad(t, padding, mode), x)
    if mode in ("reflect", "replicate"):
        same(lambda t: F.pad(t, padding, mode), x[0])
        with pytest.raises(RuntimeError):
            F.pad(x[..., :0].to("ocl"), padding, mode)
    assert F.pad(x[:0].to("ocl"), padding, mode).numel() == 0
    if mode == "reflect":
        with pytest.raises(RuntimeError):
            F.pad(x.to("ocl"), [9, 0] + padding[2:], mode)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "constant"])
def test_padding_layouts_and_dtypes(mode):
    same(lambda t: F.pad(t, [1, 2, 0, 1], mode), data(2, 3, 5, 7).contiguous(memory_format=LAST))
    same(lambda t: F.pad(t, [1, 2, 0, 1], mode), data(2, 3, 7, 10).transpose(2, 3)[..., ::2])
    for dtype in HALVES + [torch.float64]:
        same(lambda t: F.pad(t, [1, 2, 0, 1], mode), data(1, 2, 4, 5, dtype=dtype))


def test_constant_padding():
    same(lambda t: F.pad(t, [1, -2, -1, 2], value=2.5), data(3, 4, 6))
    same(lambda t: F.pad(t, [-2, -2]), data(3, 9))
    for x in [torch.arange(12).view(3, 4), torch.arange(12).view(3, 4) % 2 == 0]:
        same(lambda t: F.pad(t, [1, 2, 3, 0], value=1), x)
    same(lambda t: F.pad(t, [1, 2], value=3.0), torch.empty(2, 0))
    large = torch.tensor([2**62 + 1])
    assert torch.constant_pad_nd(large.to("ocl"), [1, 1], 2**61 + 1).tolist() == [2**61 + 1, 2**62 + 1, 2**61 + 1]


@pytest.mark.parametrize("axes", [2, 3])
def test_max_unpool(axes):
    pool, unpool = getattr(F, f"max_pool{axes}d"), getattr(F, f"max_unpool{axes}d")

    def function(t):
        y, indices = pool(t, 2, return_indices=True)
        return unpool(y, indices, 2, output_size=t.shape[-axes:])

    same(function, data(2, 3, 6, 7, 5)[..., :axes == 3 and 5 or 1].squeeze(-1))
    same(function, data(3, 6, 8, 4) if axes == 3 else data(3, 6, 8))


def test_adaptive_max_pool3d():
    same(lambda t: F.adaptive_max_pool3d(t, (2, 3, 2), return_indices=True), data(2, 3, 5, 7, 4), strides=False)


@pytest.mark.parametrize("more", [{}, {"dilation": 2, "padding": 1}, {"stride": (2, 3), "padding": (0, 2)}], ids=str)
def test_unfold_and_fold(more):
    same(lambda t: F.unfold(t, (2, 3), **more), data(2, 3, 6, 7), strides=False)
    same(lambda t: F.unfold(t, (2, 3), **more), data(2, 3, 6, 7).contiguous(memory_format=LAST), strides=False)
    columns = F.unfold(data(2, 3, 6, 7), (2, 3), **more)
    same(lambda t: F.fold(t, (6, 7), (2, 3), **more), columns, strides=False, tolerance=1e-5)
    same(lambda t: F.fold(t, (6, 7), (2, 3), **more), columns[0], strides=False, tolerance=1e-5)


def test_shuffles():
    same(lambda t: F.pixel_shuffle(t, 2), data(2, 12, 3, 5), strides=False)
    same(lambda t: F.pixel_unshuffle(t, 3), data(2, 2, 6, 9), strides=False)
    same(lambda t: F.channel_shuffle(t, 3), data(2, 6, 3, 5), strides=False, grad=False)
