"""Devices, their numbers, streams, events, random numbers' state."""

import threading
import time

import pytest
import torch


def test_properties():
    properties = torch.ocl.get_device_properties(0)
    assert properties.name and properties.total_memory > 0 and properties.multi_processor_count > 0
    assert torch.ocl.get_device_capability(0) >= (1, 2)
    assert torch.accelerator.current_accelerator() == torch.device("ocl")
    assert torch.accelerator.device_count() == torch.ocl.device_count() >= 1


def test_device_argument_forms():
    for device in ("ocl", "ocl:0", torch.device("ocl"), torch.device("ocl", 0)):
        assert torch.ones(1, device=device).device == torch.device("ocl:0")
    assert torch.ones(1).ocl().is_ocl
    assert not torch.ones(1).is_ocl
    with torch.device("ocl"):
        assert torch.ones(1).device == torch.device("ocl:0")


def test_device_that_is_not_there():
    count = torch.ocl.device_count()
    with pytest.raises(RuntimeError, match=f"there is no device ocl:{count}"):
        torch.ones(1, device=f"ocl:{count}")
    with pytest.raises(RuntimeError, match="there is no device"):
        torch.ocl.set_device(count)
    assert torch.ocl.current_device() == 0


def test_current_device_is_the_threads():
    torch.ocl.set_device(0)
    with torch.ocl.device(0):
        assert torch.ocl.current_device() == 0
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]


def test_streams():
    default = torch.ocl.default_stream()
    assert torch.ocl.current_stream() == default
    stream = torch.ocl.Stream()
    assert stream != default and stream.device == torch.device("ocl:0")
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream() == stream
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_stream()))
        thread.start()
        thread.join()
        assert seen == [default]  # a stream is current in its thread alone
    assert torch.ocl.current_stream() == default
    assert torch.ocl.queue_handle(stream) != torch.ocl.queue_handle(default)


def test_a_stream_waits_for_another():
    stream = torch.ocl.Stream()
    x = torch.zeros(1 << 20, device="ocl")
    for i in range(20):
        with stream:
            stream.wait_stream(torch.ocl.default_stream())
            x.fill_(i)
        torch.ocl.default_stream().wait_stream(stream)
        assert x[-1].item() == i
    torch.ocl.synchronize()
    assert stream.query()


def test_events():
    begin, end = torch.ocl.Event(enable_timing=True), torch.ocl.Event(enable_timing=True)
    x = torch.ones(1 << 22, device="ocl")
    x.fill_(1)
    torch.ocl.synchronize()
    before = time.perf_counter()
    begin.record()
    for _ in range(10):
        x.fill_(2)
    end.record()
    end.synchronize()
    wall = (time.perf_counter() - before) * 1e3
    assert end.query()
    assert 0 < begin.elapsed_time(end) <= wall * 1.5
    assert end.elapsed_time(begin) < 0


def test_an_event_without_timing_has_no_time():
    a, b = torch.ocl.Event(), torch.ocl.Event()
    a.record()
    b.record()
    with pytest.raises(Exception, match="enable_timing"):
        a.elapsed_time(b)


def test_events_between_threads():
    stream = torch.ocl.Stream()
    x = torch.zeros(1 << 20, device="ocl")
    recorded = torch.ocl.Event()
    torch.ocl.synchronize()

    def work():
        with torch.ocl.stream(stream):
            x.fill_(7)
            recorded.record()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    recorded.wait()  # the main thread's stream waits, on the device
    assert x.cpu().eq(7).all()


def test_generator():
    torch.ocl.manual_seed(5)
    assert torch.ocl.initial_seed() == 5
    state = torch.ocl.get_rng_state()
    assert state.numel() == 16 and state.device.type == "cpu"
    with torch.random.fork_rng(devices=[0], device_type="ocl"):
        torch.ocl.manual_seed(6)
        assert torch.ocl.initial_seed() == 6
    assert torch.equal(torch.ocl.get_rng_state(), state)
    torch.manual_seed(9)  # PyTorch's own seeds all devices
    assert torch.ocl.initial_seed() == 9
    generator = torch.Generator("ocl").manual_seed(3)
    assert generator.device == torch.device("ocl:0") and generator.initial_seed() == 3
    copy = generator.clone_state() if hasattr(generator, "clone_state") else generator
    assert copy.initial_seed() == 3
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.ocl.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_handles():
    assert torch.ocl.context_handle() != 0
    x = torch.zeros(10, device="ocl")
    memory, offset = torch.ocl.cl_mem(x)
    again, later = torch.ocl.cl_mem(x[3:])
    assert memory == again != 0 and later == offset + 12


def test_two_devices(python):
    """PoCL makes two of one CPU if asked; with another driver there are as many as there are."""
    out = python(
        "if torch.ocl.device_count() < 2: raise SystemExit(print('one device'))\n"
        "x = torch.arange(6., device='cpu').to('ocl:1')\n"
        "assert x.device.index == 1 and torch.ocl.current_device() == 0\n"
        "y = x.view(2, 3).t().to('ocl:0')\n"
        "assert y.device.index == 0 and y.cpu().tolist() == [[0, 3], [1, 4], [2, 5]]\n"
        "assert (x + 1).device.index == 1 and (x + 1).cpu().sum() == 21\n"
        "y.copy_(torch.ones(2, device='ocl:1'))\n"
        "assert y.cpu().sum() == 6\n"
        "try: y + torch.ones(3, 2, device='ocl:1'); raise SystemExit('no error')\n"
        "except RuntimeError as e: assert 'same device' in str(e)\n"
        "with torch.ocl.device(1):\n"
        "  assert torch.ones(1, device='ocl').device.index == 1\n"
        "  s = torch.ocl.Stream(); assert s.device.index == 1\n"
        "assert torch.ocl.current_device() == 0\n"
        "with s:\n"
        "  assert torch.ocl.current_device() == 1 and torch.ones(1, device='ocl').device.index == 1\n"
        "assert torch.ocl.current_device() == 0\n"
        "assert torch.ocl.memory_allocated(1) >= 24\n"
        "torch.ocl.set_device(1); torch.ocl.synchronize(0); torch.ocl.synchronize()\n"
        "x.requires_grad_(); (x * 2).backward(torch.ones(6, device='ocl:1'))\n"
        "assert x.grad.cpu().tolist() == [2] * 6\n"
        "print('two devices')\n",
        POCL_DEVICES="pthread pthread",
    )
    assert out in ("two devices\n", "one device\n")
