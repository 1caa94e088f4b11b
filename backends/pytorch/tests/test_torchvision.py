"""torchvision's operators on the device: against its own on the CPU, forward and backward, and a detector that trains."""

import pytest
import torch

torchvision = pytest.importorskip("torchvision", exc_type=(ImportError, RuntimeError))
ops = torchvision.ops


def boxes(count, seed=0, side=30.0):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, 2, generator=generator) * side
    return torch.cat([corner, corner + torch.rand(count, 2, generator=generator) * side / 2], 1)


def regions(images=2, count=9, seed=1, side=30.0):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, images, (count, 1), generator=generator).float()
    return torch.cat([index, boxes(count, seed, side) - 3], 1)


def check(function, x, *others, tolerance=1e-5):
    """The others are parameters, or tensors with gradients of their own."""
    here = [t.clone().requires_grad_(t.is_floating_point()) for t in (x, *others)]
    away = [t.to("ocl").requires_grad_(t.is_floating_point()) for t in (x, *others)]
    expected, got = function(*here), function(*away)
    assert got.device.type == "ocl" and got.shape == expected.shape and got.dtype == expected.dtype
    torch.testing.assert_close(got.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance)
    torch.manual_seed(2)
    seed = torch.randn(expected.shape).to(expected.dtype)
    expected.backward(seed), got.backward(seed.to("ocl"))
    for a, b in zip(here, away):
        if a.grad is not None:
            torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("count", [0, 1, 70, 500])
def test_nms(count):
    b = boxes(count)
    scores = (torch.rand(count, generator=torch.Generator().manual_seed(3)) * 20).round() / 20  # many are equal
    for threshold in (0.1, 0.5, 1 / 3):
        expected = ops.nms(b, scores, threshold)
        assert torch.equal(ops.nms(b.to("ocl"), scores.to("ocl"), threshold).cpu(), expected)
        classes = torch.arange(count) % 3
        expected = ops.batched_nms(b, scores, classes, threshold)
        assert torch.equal(ops.batched_nms(b.to("ocl"), scores.to("ocl"), classes.to("ocl"), threshold).cpu(), expected)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 2])
def test_roi_align(aligned, samples):
    x = torch.randn(2, 11, 17, 14)
    for scale in (0.5, 0.3):
        check(lambda t: ops.roi_align(t, regions().to(t.device), (3, 4), scale, samples, aligned), x)
    check(lambda t: ops.roi_align(t, regions().to(t), (3, 4), 0.5, samples, aligned), x.double(), tolerance=1e-10)
    check(lambda t: ops.roi_align(t, regions(count=0).to(t.device), (3, 4), 0.5, samples, aligned), x)
    turned = x.to(memory_format=torch.channels_last)
    check(lambda t: ops.roi_align(t, regions().to(t.device), 2, 0.5, samples, aligned), turned)


def test_other_poolings():
    x = torch.randn(2, 12, 17, 14)
    for scale in (0.5, 0.3):
        check(lambda t: ops.roi_pool(t, regions().to(t.device), (3, 2), scale), x)
        check(lambda t: ops.ps_roi_align(t, regions().to(t.device), (3, 2), scale, 2), x)
        check(lambda t: ops.ps_roi_align(t, regions().to(t.device), (3, 2), scale, -1), x)
        inside = regions(side=24.0).clamp(max=24.0 if scale == 0.5 else 40.0)
        check(lambda t: ops.ps_roi_pool(t, inside.to(t.device), (3, 2), scale), x)


def test_the_gradient_of_ps_roi_pool_is_its_forwards():
    """At the last row and column torchvision's own gradient (0.29) is not: forward leaves them out, backward does not."""
    x, r = torch.randn(2, 12, 17, 14), regions()
    expected = ops.ps_roi_pool(x, r, (3, 2), 0.5)
    y = x.to("ocl").requires_grad_()
    got = ops.ps_roi_pool(y, r.to("ocl"), (3, 2), 0.5)
    torch.testing.assert_close(got.detach().cpu(), expected)
    seed = torch.randn(expected.shape)
    got.backward(seed.to("ocl"))  # the operator is linear
    torch.testing.assert_close((y.grad.cpu().double() * x).sum(), (seed.double() * expected).sum(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("with_mask", [False, True])
def test_deform_conv2d(with_mask):
    torch.manual_seed(4)
    x, weight, bias = torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 2), torch.randn(6)
    # Offsets of 0 are what training begins with: gradients there are those of one side.
    for size in (0.0, 1.5):
        offset = torch.randn(2, 2 * 2 * 6, 5, 9) * size
        mask = torch.rand(2, 2 * 6, 5, 9) if with_mask else None
        args = [x, offset, weight, bias] + ([mask] if with_mask else [])
        check(lambda t, o, w, b, m=None: ops.deform_conv2d(t, o, w, b, (2, 1), (1, 2), (1, 3), m), *args, tolerance=1e-4)


def test_a_detector_trains_and_detects():
    torch.manual_seed(0)
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 4, 1), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2, 1), torch.nn.ReLU())
    backbone.out_channels = 16
    detection = torchvision.models.detection
    model = detection.FasterRCNN(
        backbone, 3, min_size=64, max_size=96,
        rpn_anchor_generator=detection.anchor_utils.AnchorGenerator(((16, 32),), ((0.5, 1.0),)),
        box_roi_pool=ops.MultiScaleRoIAlign(["0"], 4, 2), rpn_post_nms_top_n_train=50, rpn_batch_size_per_image=1000,
        box_batch_size_per_image=1000)  # all of them: nothing is drawn at random
    images = [torch.rand(3, 64, 80), torch.rand(3, 60, 64)]
    targets = [{"boxes": torch.tensor([[5.0, 5, 30, 40], [20, 10, 60, 50]]), "labels": torch.tensor([1, 2])},
               {"boxes": torch.tensor([[8.0, 8, 40, 30]]), "labels": torch.tensor([1])}]
    import copy

    there = copy.deepcopy(model).to("ocl")
    losses = model(images, targets)
    got = there([i.to("ocl") for i in images], [{k: v.to("ocl") for k, v in t.items()} for t in targets])
    for name, loss in losses.items():
        torch.testing.assert_close(got[name].detach().cpu(), loss.detach(), rtol=1e-3, atol=1e-4)
    sum(losses.values()).backward(), sum(got.values()).backward()
    for p, q in zip(model.parameters(), there.parameters()):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-2, atol=1e-3)
    model.eval(), there.eval()
    with torch.no_grad():
        for a, b in zip(model(images), there([i.to("ocl") for i in images])):
            assert torch.equal(a["labels"], b["labels"].cpu())
            torch.testing.assert_close(b["boxes"].cpu(), a["boxes"], rtol=1e-3, atol=1e-2)
