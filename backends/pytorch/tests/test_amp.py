"""Autocast, the scale of losses, and the switches of f32's precision."""

import pytest
import torch
from torch import nn

F = nn.functional


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 5 * 7, 9),
                         nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_forward_and_backward(dtype):
    torch.ocl.reset_fallbacks()
    x, y = torch.randn(4, 2, 7, 9), torch.tensor([0, 3, 1, 4])
    model, exact = network().to("ocl"), network()
    seen = {}
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda _, a, out, name=name: seen.update({name: out.dtype}))
    with torch.amp.autocast("ocl", dtype=dtype):
        logits = model(x.to("ocl"))
        assert (logits @ logits.t()).dtype == dtype and logits.exp().dtype == torch.float32
        assert logits.sum().dtype == torch.float32 and (logits + 1).dtype == dtype
        assert torch.cat([logits, logits.float()]).dtype == torch.float32
        loss = F.cross_entropy(logits, y.to("ocl"))
    assert loss.dtype == torch.float32
    assert [seen[k] for k in "01457"] == [dtype, dtype, dtype, torch.float32, dtype]
    loss.backward()
    expected = F.cross_entropy(exact(x), y)
    expected.backward()
    eps = torch.finfo(dtype).eps
    assert abs(loss.item() - expected.item()) < 8 * eps
    for got, want in zip(model.parameters(), exact.parameters()):
        assert got.grad.dtype == torch.float32
        # Where ReLU's argument is about 0, rounding decides.
        assert (got.grad.cpu() - want.grad).norm() < max(16 * eps, 0.05) * want.grad.norm() + 2 * eps
    with torch.amp.autocast("ocl", enabled=False):
        assert model(x.to("ocl")).dtype == torch.float32
    with torch.amp.autocast("ocl"), pytest.raises(RuntimeError, match="with_logits"):
        F.binary_cross_entropy(torch.rand(3, device="ocl"), torch.rand(3, device="ocl"))
    assert torch.get_autocast_dtype("ocl") == torch.float16
    assert torch.ocl.fallbacks() == {}


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
                                  lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
                                  lambda p: torch.optim.Adam(p, 0.1, fused=True)])
def test_scaler(make):
    """Steps with an overflow in the middle, against the CPU."""
    results = []
    for device in ("cpu", "ocl"):
        torch.manual_seed(1)
        w = [torch.randn(5, 7).to(device).requires_grad_(), torch.randn(3).to(device).requires_grad_()]
        optimizer, scaler = make(w), torch.amp.GradScaler(device, init_scale=512.0, growth_interval=2)
        seen = []
        for step in range(5):
            optimizer.zero_grad()
            x = torch.full((7,), float("inf") if step == 2 else step + 0.5).to(device)
            loss = (w[0] @ x).square().sum() + w[1].sum()
            scaler.scale(loss).backward()
            if step == 3:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(w, 1.0)
            scaler.step(optimizer)
            scaler.update()
            seen.append(scaler.get_scale())
        results.append((seen, [t.detach().cpu() for t in w], scaler.state_dict()))
    (scales, expected, state), (got_scales, got, got_state) = results
    assert scales == got_scales and scales[1] == 1024 and scales[2] == 512 and state == got_state
    for g, e in zip(got, expected):
        torch.testing.assert_close(g, e, rtol=2e-5, atol=2e-5)


def test_unscaling():
    """Of all dtypes, with gaps, empty; what one call found stays through others."""
    inverse = torch.tensor(0.25, device="ocl")

    def run(tensors, found=None):
        found = torch.zeros((), device="ocl") if found is None else found
        torch._amp_foreach_non_finite_check_and_unscale_(tensors, found, inverse)
        return found

    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        plain = [torch.randn(33).to(dtype), torch.randn(4, 5).to(dtype), torch.zeros(0, dtype=dtype),
                 torch.randn(6, 8).to(dtype)[:, ::2]]
        tensors = [t.to("ocl") for t in plain[:3]] + [torch.randn(6, 8).to(dtype).to("ocl")[:, ::2].copy_(plain[3])]
        found = run(tensors)
        for t, p in zip(tensors, plain):
            torch.testing.assert_close(t.cpu(), p * 0.25, rtol=2 * torch.finfo(dtype).eps, atol=1e-7)
        assert found.item() == 0
        for bad in (float("inf"), -float("inf"), float("nan")):
            tensors[1][3, 4] = bad
            assert run(tensors).item() == 1
    mixed = [torch.ones(3, device="ocl"), torch.full((2,), float("inf"), device="ocl").half()]
    found = run(mixed)
    assert found.item() == 1
    run([torch.ones(3, device="ocl")], found)
    assert found.item() == 1 and torch.equal(mixed[0].cpu(), torch.full((3,), 0.25))


def test_scale_grows_and_shrinks():
    scale, good = torch.tensor([4.0], device="ocl"), torch.tensor([0], dtype=torch.int32, device="ocl")
    expected = [(4, 1), (4, 2), (12, 0), (6, 0), (6, 1)]
    for found, (s, g) in zip((0, 0, 0, 1, 0), expected):
        torch._amp_update_scale_(scale, good, torch.tensor([float(found)], device="ocl"), 3.0, 0.5, 3)
        assert (scale.item(), good.item()) == (s, g)


def test_tf32_switches():
    matmul, conv = torch.backends.ocl.matmul, torch.backends.ocl.conv
    a, b = torch.randn(65, 33, device="ocl"), torch.randn(33, 40, device="ocl")
    x, w = torch.randn(2, 3, 9, 9, device="ocl"), torch.randn(4, 3, 3, 3, device="ocl")
    exact, exact_conv = a @ b, F.conv2d(x, w)
    assert not matmul.allow_tf32 and not conv.allow_tf32
    try:
        torch.set_float32_matmul_precision("high")
        assert matmul.allow_tf32 and not conv.allow_tf32
        assert torch.get_float32_matmul_precision() == "high"
        torch.set_float32_matmul_precision("highest")
        assert not matmul.allow_tf32
        matmul.allow_tf32 = conv.allow_tf32 = True
        assert matmul.allow_tf32 and conv.allow_tf32
        # Devices without it compute as before; with it factors have 10 bits.
        assert (a @ b - exact).abs().max() <= 2e-3 * exact.abs().max()
        assert (F.conv2d(x, w) - exact_conv).abs().max() <= 2e-3 * exact_conv.abs().max()
        with pytest.raises(AttributeError):
            matmul.allow_tf23 = True
    finally:
        matmul.allow_tf32 = conv.allow_tf32 = False
    assert torch.equal((a @ b).cpu(), exact.cpu()) and torch.equal(F.conv2d(x, w).cpu(), exact_conv.cpu())


def test_nothing_waits_for_the_device(busy):
    """Scaled, clipped, fused steps are given to a device that has other work to do, and return before it is done."""
    w = [torch.randn(5, 7, device="ocl", requires_grad=True), torch.randn(3, device="ocl", requires_grad=True)]
    optimizer = torch.optim.AdamW(w, lr=torch.tensor(0.1, device="ocl"), fused=True)
    scaler = torch.amp.GradScaler("ocl")

    def step(seconds):
        x = busy(seconds)
        done = torch.ocl.Event()
        done.record()
        scaler.scale(w[0].square().sum() + w[1].sum() + 0 * x[0, 0]).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(w, 1.0)
        nn.utils.clip_grad_value_(w, 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return done

    for _ in range(2):
        step(0.01)  # programs are made here
    torch.ocl.synchronize()
    done = step(0.5)
    assert not done.query()
    torch.ocl.synchronize()
    assert done.query()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cross_entropy_is_as_exact_as_f32(dtype):
    x = torch.tensor([[1.0, 3.0, -2.0]], dtype=dtype)
    target = torch.tensor([0])
    expected = nn.functional.cross_entropy(x.float(), target)
    for d in (torch.bfloat16, torch.float16):
        with torch.autocast("ocl", dtype=d):
            y = x.to("ocl").requires_grad_()
            loss = nn.functional.cross_entropy(y, target.to("ocl"))
        assert loss.dtype == torch.float32 and abs(loss.item() - expected.item()) < 1e-6
        loss.backward()
        assert y.grad.dtype == dtype
