"""Pinned host memory, and copies that the host does not wait for."""

import gc
import time

import pytest
import torch

MIB = 1 << 20


# Where PyTorch sees a CUDA device, too, a factory pins CUDA's memory.
FACTORIES = pytest.mark.skipif(torch.cuda.is_available(), reason="pin_memory=True is CUDA's memory here")


def measured(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def test_is_pinned():
    x = torch.arange(6.0).view(2, 3)
    assert not x.is_pinned()
    y = x.pin_memory()
    assert y.is_pinned() and torch.equal(x, y) and y.pin_memory() is y
    assert y[1:].is_pinned() and y.view(-1)[5:].is_pinned() and y.t().is_pinned()
    assert not torch.empty(5).is_pinned() and not y.clone().is_pinned()
    assert not torch.ones(3, device="ocl").is_pinned()
    assert torch.zeros(0).pin_memory().shape == (0,)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.empty(5, device="ocl", pin_memory=True)


@FACTORIES
def test_factories_pin():
    assert torch.empty(5, pin_memory=True).is_pinned()
    assert torch.empty_like(torch.ones(3), pin_memory=True).is_pinned()
    assert torch.zeros(0, pin_memory=True).shape == (0,)


def test_memory_is_used_again():
    x = torch.empty(3 * MIB, dtype=torch.uint8).pin_memory()
    address = x.data_ptr()
    del x
    y = torch.empty(3 * MIB, dtype=torch.uint8).pin_memory()
    assert y.data_ptr() == address
    del y
    torch.accelerator.empty_host_cache() if hasattr(torch.accelerator, "empty_host_cache") else None
    assert torch.full((MIB,), 7, dtype=torch.uint8).pin_memory().sum().item() == 7 * MIB


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("layout", ["same", "transposed", "sliced"])
def test_values(dtype, layout):
    change = {"same": lambda t: t, "transposed": lambda t: t.t(), "sliced": lambda t: t[1:, ::2]}[layout]
    x = torch.arange(60).view(6, 10).float().pin_memory()
    y = torch.zeros(6, 10, dtype=dtype, device="ocl")
    change(y).copy_(change(x), non_blocking=True)
    expected = torch.zeros(6, 10, dtype=dtype)
    change(expected).copy_(change(x))
    assert torch.equal(y.cpu(), expected)
    back = torch.zeros(6, 10).pin_memory()
    change(back).copy_(change(y), non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(back, expected.float())


def test_conjugates():
    x = torch.randn(4, dtype=torch.complex64).pin_memory()
    y = x.to("ocl", non_blocking=True)
    back = torch.empty(4, dtype=torch.complex64).pin_memory()
    back.copy_(y.conj(), non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(back, x.conj().resolve_conj())
    z = x.conj().to("ocl", non_blocking=True)
    torch.ocl.synchronize()
    assert torch.equal(z.cpu().resolve_conj(), x.conj().resolve_conj())


def test_copies_do_not_wait(busy):
    x = torch.randn(MIB).pin_memory()
    back = torch.empty(MIB).pin_memory()
    copies = [lambda: x.to("ocl", non_blocking=True), lambda: back.copy_(there, non_blocking=True)]
    if not torch.cuda.is_available():  # else PyTorch takes CUDA's memory for what it makes itself
        copies.append(lambda: there.to("cpu", non_blocking=True))
    for copy in copies:
        there = torch.ones(MIB, device="ocl")
        copy()
        torch.ocl.synchronize()
        times = []
        for _ in range(3):  # other programs may take a processor away
            busy(0.3)
            took, result = measured(copy)
            times.append(took)
            torch.ocl.synchronize()
        assert min(times) < 0.15, times
        torch.testing.assert_close(result.cpu(), x if result.device.type == "ocl" else torch.ones(MIB))


def test_a_freed_block_waits_for_its_copy(busy):
    """Memory that a copy still reads or writes is not given out."""
    for _ in range(4):
        busy(0.1)
        x = torch.full((MIB,), 3.0).pin_memory()
        address = x.data_ptr()
        y = x.to("ocl", non_blocking=True)
        del x
        z = torch.empty(MIB).pin_memory()
        assert z.data_ptr() != address
        z.fill_(5.0)
        assert torch.equal(y.cpu(), torch.full((MIB,), 3.0))
        source = torch.full((MIB,), 4.0, device="ocl")
        busy(0.1)
        out = torch.empty(MIB).pin_memory()
        address = out.data_ptr()
        out.copy_(source, non_blocking=True)
        del out
        fresh = torch.empty(MIB).pin_memory()
        assert fresh.data_ptr() != address
        fresh.fill_(6.0)
        torch.ocl.synchronize()
        assert bool((fresh == 6).all())


def test_events_tell_when_data_is_there(busy):
    work = busy(0.1)
    x, back = torch.ones_like(work) + work * 0, torch.zeros(work.shape).pin_memory()
    back.copy_(x, non_blocking=True)
    event = torch.Event("ocl")
    event.record()
    event.synchronize()
    assert bool((back == 1).all())


def test_loader():
    data = torch.utils.data.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    total = 0
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned()
        total += x.to("ocl", non_blocking=True).sum().item() + y.to("ocl", non_blocking=True).sum().item()
    assert total == 190 + 45
    gc.collect()


def test_offloaded_tensors_come_back():
    with torch.autograd.graph.save_on_cpu(pin_memory=True, device_type="ocl"):
        x = torch.randn(5, device="ocl", requires_grad=True)
        y = (x * x).sum()
    y.backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * x.detach().cpu())
