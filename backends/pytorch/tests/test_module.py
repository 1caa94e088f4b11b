"""What PyTorch asks of the module torch.ocl: the page DEVICE_MODULE.md, line by line."""

import os
import re

import pytest
import torch
from torch.utils.checkpoint import checkpoint

F = torch.nn.functional
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "DEVICE_MODULE.md")
INDUCTOR = {"Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen"}


def listed():
    with open(PAGE) as page:
        rows = [line.split("|")[1] for line in page if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def entered(context):
    with context as value:
        return value


def generator_shares_its_place():
    own = torch.ocl.default_generators[0]
    state = own.graphsafe_get_state()
    torch.ocl.manual_seed(4)
    first = torch.rand(3, device="ocl")
    own.graphsafe_set_state(state)
    torch.ocl.manual_seed(4)
    assert torch.equal(torch.rand(3, device="ocl"), first)
    assert not torch.equal(torch.rand(3, device="ocl"), first)
    return own.device == torch.device("ocl", 0)


# Name: what it is to do, as a function that gives a true value.
BEHAVIOUR = {
    "_initialized": lambda m: m._initialized is True,
    "device": lambda m: entered(m.device(0)) is not None and m.current_device() == 0,
    "get_rng_state": lambda m: m.get_rng_state().numel() == 16 and m.get_rng_state(0).is_cpu and m.get_rng_state("ocl:0").is_cpu,
    "set_rng_state": lambda m: m.set_rng_state(m.get_rng_state(), 0) is None,
    "default_generators": lambda m: generator_shares_its_place() and len(m.default_generators) == m.device_count(),
    "_get_generator": lambda m: m._get_generator(torch.device("ocl")).initial_seed() == m.initial_seed(),
    "manual_seed": lambda m: m.manual_seed(3) is None and m.initial_seed() == 3,
    "manual_seed_all": lambda m: m.manual_seed_all(4) is None and m.initial_seed() == 4,
    "seed": lambda m: m.seed() == m.initial_seed(),
    "seed_all": lambda m: m.seed_all() is None,
    "initial_seed": lambda m: isinstance(m.initial_seed(), int),
    "_is_in_bad_fork": lambda m: m._is_in_bad_fork() is False,
    "is_available": lambda m: m.is_available() is True,
    "device_count": lambda m: m.device_count() >= 1,
    "is_initialized": lambda m: m.is_initialized() is True,
    "init": lambda m: m.init() is None,
    "_lazy_init": lambda m: m._lazy_init() is None,
    "_lazy_call": lambda m: (called := [], m._lazy_call(lambda: called.append(1), seed=True)) and called == [1],
    "current_device": lambda m: m.current_device() == 0,
    "set_device": lambda m: m.set_device("ocl:0") is None,
    "exchange_device": lambda m: m.exchange_device(0) == 0,
    "maybe_exchange_device": lambda m: m.maybe_exchange_device(-1) == 0,
    "_exchange_device": lambda m: m._exchange_device(0) == 0,
    "_maybe_exchange_device": lambda m: m._maybe_exchange_device(-1) == 0,
    "_utils": lambda m: m._utils._get_device_index("ocl:0", True) == 0 and m._utils._get_device_index("ocl", True) == 0,
    "get_device_name": lambda m: m.get_device_name() == m.get_device_name("ocl:0") != "",
    "get_device_properties": lambda m: m.get_device_properties(0).total_memory > 0,
    "get_device_capability": lambda m: m.get_device_capability() >= (1, 0),
    "Stream": lambda m: m.Stream(priority=-1) != m.default_stream(),
    "Event": lambda m: m.Event().record() is None,
    "stream": lambda m: entered(m.stream(m.Stream())) is None,
    "current_stream": lambda m: m.current_stream() == m.current_stream(0),
    "default_stream": lambda m: m.default_stream().stream_id == 0,
    "set_stream": lambda m: m.set_stream(m.default_stream()) is None,
    "synchronize": lambda m: m.synchronize() is None and m.synchronize(0) is None,
    "is_current_stream_capturing": lambda m: m.is_current_stream_capturing() is False,
    "memory_stats": lambda m: {"active_bytes.all.current", "num_alloc_retries"} <= set(m.memory_stats()),
    "memory_allocated": lambda m: m.memory_allocated() > 0,
    "max_memory_allocated": lambda m: m.max_memory_allocated() >= m.memory_allocated(),
    "memory_reserved": lambda m: m.memory_reserved() > 0,
    "max_memory_reserved": lambda m: m.max_memory_reserved() >= m.memory_reserved(),
    "reset_peak_memory_stats": lambda m: m.reset_peak_memory_stats() is None,
    "memory_summary": lambda m: f"tensors: {m.memory_allocated()} bytes" in m.memory_summary() and m.memory_summary(0, True),
    "mem_get_info": lambda m: 0 < m.mem_get_info()[0] < m.mem_get_info()[1],
    "empty_cache": lambda m: m.empty_cache() is None,
    "get_amp_supported_dtype": lambda m: torch.bfloat16 in m.get_amp_supported_dtype(),
    "is_bf16_supported": lambda m: m.is_bf16_supported() is True,
    **{name: lambda m, name=name: callable(getattr(m, name)) for name in sorted(INDUCTOR)},
}


def test_the_page_is_the_list():
    assert sorted(listed()) == sorted(BEHAVIOUR)


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_attribute(name):
    keep = torch.ones(1, device="ocl")
    assert hasattr(torch.ocl, name)
    assert BEHAVIOUR[name](torch.get_device_module("ocl"))
    assert keep.item() == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_draws_the_same_dropout(reentrant):
    torch.manual_seed(1)
    x = torch.ones(1000, device="ocl", requires_grad=True)
    y = checkpoint(lambda v: F.dropout(v, 0.5), x, use_reentrant=reentrant)
    torch.rand(10, device="ocl")
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and 300 < int((y > 0).sum()) < 700


def test_forked_generators():
    torch.manual_seed(7)
    with torch.random.fork_rng(device_type="ocl"):
        inside = torch.rand(4, device="ocl")
    assert torch.equal(torch.rand(4, device="ocl"), inside)


def test_memory_info():
    """What tensors hold is not free. On a CPU the system counts memory once it is written, and other programs' with it."""
    free, total = torch.ocl.mem_get_info()
    x = torch.ones(64 << 20, dtype=torch.uint8, device="ocl")
    torch.ocl.synchronize()
    now, again = torch.ocl.mem_get_info()
    assert again == total and free - now >= 32 << 20
    del x
    assert torch.ocl.mem_get_info()[0] > now
