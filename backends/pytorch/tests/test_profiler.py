"""Device times by PyTorch's profilers."""

import json
import os
import time

import pytest
import torch
import torch.utils.cpp_extension
from torch.profiler import ProfilerActivity

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


@pytest.fixture(scope="module", autouse=True)
def warm():
    work()


def work():
    # The smallest operator takes a GPU as long as a product of small matrices.
    side = 4000 if torch.ocl.get_device_properties(0).kind == "GPU" else 500
    x = torch.ones(side, side, device="ocl")
    y = torch.ones(37, device="ocl")
    torch.mm(x, x)
    torch.add(y, 1)
    torch.ocl.synchronize()


def profiled(profiler):
    begin = time.perf_counter()
    with profiler:
        work()
    return (time.perf_counter() - begin) * 1e6, {e.key: e for e in profiler.key_averages()}


def check_times(wall, events):
    """Their own times: operators are inside others, of the same name too."""
    own = {name: e.self_device_time_total for name, e in events.items()}
    assert all(t >= 0 for t in own.values())
    assert 0 < own["aten::add"] < own["aten::mm"] / 3  # 37 elements; side * side * side products
    assert own["aten::mm"] < sum(own.values()) <= wall


def test_autograd_profiler():
    wall, events = profiled(torch.autograd.profiler.profile(use_device="ocl"))
    check_times(wall, events)


HEADER = "torch/csrc/profiler/standalone/privateuse1_profiler.h"  # which the glue was built with, or not
needs_kineto = pytest.mark.skipif(
    not torch.autograd.kineto_available()
    or not any(os.path.exists(os.path.join(path, HEADER)) for path in torch.utils.cpp_extension.include_paths()),
    reason="this torch has no kineto for such devices")


def of(events, kind):
    return [e for e in events if e.device_type == kind]


@needs_kineto
def test_profiler():
    profiler = torch.profiler.profile(activities=BOTH)
    wall, _ = profiled(profiler)
    events = profiler.events()
    on_device = of(events, torch.autograd.DeviceType.PrivateUse1)
    # Each operator that gave work to the device is there once; the filling of ones are two.
    names = sorted(e.name for e in on_device)
    assert names == ["aten::add", "aten::fill_", "aten::fill_", "aten::mm"]
    assert all(e.device_index == 0 for e in on_device)
    in_order = [e.name for e in sorted(on_device, key=lambda e: e.time_range.start)]
    assert in_order == ["aten::fill_", "aten::fill_", "aten::mm", "aten::add"]
    # In the host's time, the work of an operator does not begin before the operator.
    for e in on_device:
        cpu = [c for c in of(events, torch.autograd.DeviceType.CPU) if c.name == e.name]
        assert min(c.time_range.start for c in cpu) <= e.time_range.start + 500
    table = {e.key: e for e in profiler.key_averages() if e.device_type == torch.autograd.DeviceType.CPU}
    check_times(wall, table)
    assert table["aten::ones"].device_time_total == pytest.approx(table["aten::fill_"].device_time_total)


@needs_kineto
def test_backward_and_streams(tmp_path):
    stream = torch.ocl.Stream()
    w = torch.ones(64, 64, device="ocl", requires_grad=True)
    with torch.profiler.profile(activities=BOTH) as profiler:
        (torch.ones(64, 64, device="ocl") @ w).sum().backward()
        with torch.ocl.stream(stream):
            torch.zeros(100, device="ocl").tanh()
    mm = [e for e in profiler.events() if e.name == "aten::mm" and e.kernels]
    assert len(mm) == 2 and all(e.kernels[0].duration > 0 for e in mm)  # forward, backward on its own thread
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    kernels = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    assert {e["name"] for e in kernels} >= {"aten::mm", "aten::tanh"}
    assert {e["tid"] for e in kernels if e["name"] == "aten::tanh"} == {stream.stream_id}


@needs_kineto
def test_profilers_one_after_another():
    """Nothing of what ran before or between is in the second; the CPU's alone takes no notes."""
    work()
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as cpu_alone:
        work()
    assert not of(cpu_alone.events(), torch.autograd.DeviceType.PrivateUse1)
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with torch.profiler.profile(activities=BOTH, schedule=schedule) as profiler:
        for _ in range(4):
            work()
            profiler.step()
    on_device = of(profiler.events(), torch.autograd.DeviceType.PrivateUse1)
    assert sum(e.name == "aten::mm" for e in on_device) == 2


def test_memory_of_operators():
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        x = torch.empty(1000, device="ocl")
    assert x.numel() == 1000
    empty = next(e for e in profiler.key_averages() if e.key == "aten::empty")
    assert empty.device_memory_usage == 4000


@needs_kineto
@pytest.mark.parametrize("name", ["mm", "addmm", "bmm", "baddbmm", "add", "sub", "mul", "div"])
def test_operators_are_counted_once(name):
    """The functional form of an operator does not call the one with an output: profilers would count both."""
    x = torch.ones(2, 4, 4, device="ocl") if name in ("bmm", "baddbmm") else torch.ones(4, 4, device="ocl")
    arguments = (x, x, x) if name in ("addmm", "baddbmm") else (x, x)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], with_flops=True) as profiler:
        for _ in range(3):
            getattr(torch, name)(*arguments)
    events = {e.key: e for e in profiler.key_averages()}
    assert events[f"aten::{name}"].count == 3
    if name == "mm":
        assert events["aten::mm"].flops == 3 * 2 * 4 * 4 * 4
