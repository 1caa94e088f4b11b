"""The module torch.ocl: devices, streams, memory, random numbers, what ran on the CPU, OpenCL's handles."""

import atexit
import contextlib
import os
import sys
import time
import types

import torch

from .interop import cl_mem, context_handle, from_cl, from_dlpack, queue_handle, to_dlpack  # noqa: F401

_ops = torch.ops.ocl


class OclDeviceProperties:
    """What OpenCL says of a device. Sizes are in bytes."""

    def __init__(self, index):
        self.name, self.platform, self.vendor, self.driver, self.version, self.kind = _ops.device_texts(index)
        numbers = _ops.device_numbers(index)
        self.total_memory, self.max_allocation, self.multi_processor_count = numbers[:3]
        self.has_fp64, self.has_fp16 = bool(numbers[3]), bool(numbers[4])
        self.dlprim_index = numbers[5]

    def __repr__(self):
        return f"OclDeviceProperties({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


def _register():
    """Makes this module torch.ocl. Called once, by torch_ocl."""
    torch.utils.rename_privateuse1_backend("ocl")
    torch._register_device_module("ocl", sys.modules[__name__])
    sys.modules["torch.ocl"] = sys.modules[__name__]
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    atexit.register(_wait_for_autograd)


def _autograd_threads():
    """Of each thread that autograd started, which PyTorch names: its number, its state, how often it was switched."""
    threads = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/status") as status:
                lines = dict(line.split(":", 1) for line in status)
        except OSError:  # it has ended
            continue
        if lines["Name"].strip().startswith("pt_autograd"):
            threads.append((task, lines["State"].split()[0], lines["voluntary_ctxt_switches"], lines["nonvoluntary_ctxt_switches"]))
    return threads


def _wait_for_autograd():
    """Waits until autograd's threads sleep. They let go of what backward() used, for which they need Python, after
    backward() has returned: if Python ends meanwhile, the process aborts."""
    before, calm, end = None, 0, time.monotonic() + 10
    while calm < 3 and time.monotonic() < end:
        try:
            now = _autograd_threads()
        except OSError:
            return
        if not now:
            return
        calm = calm + 1 if now == before and all(state == "S" for _, state, _, _ in now) else 0
        before = now
        time.sleep(0.002)  # without Python's lock, which they may wait for


def __getattr__(name):
    if name in ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen"):  # Inductor asks
        from .no_inductor import Refusal

        return Refusal
    if name == "_initialized":  # torch.utils.checkpoint asks, before it keeps the state of random numbers
        return is_initialized()
    if name == "default_generators":
        return tuple(_get_generator(torch.device("ocl", i)) for i in range(device_count()))
    raise AttributeError(f"module 'torch.ocl' has no attribute '{name}'")


def _index(device, optional=True):
    """The number of a device that is given as a number, a text, a torch.device, or not at all."""
    if device is None and optional:
        return current_device()
    if isinstance(device, int):
        return current_device() if device < 0 else device
    device = torch.device(device)
    if device.type != "ocl":
        raise ValueError(f"expected a device of type ocl, not {device}")
    return current_device() if device.index is None else device.index


# Devices


def is_available():
    return device_count() > 0


def device_count():
    return _ops.device_count()


def current_device():
    return _ops.current_device()


def set_device(device):
    index = _index(device)
    if index != current_device():
        _ops.exchange_device(index)


def get_device_name(device=None):
    return _ops.device_texts(_index(device))[0]


def get_device_properties(device=None):
    return OclDeviceProperties(_index(device))


def get_device_capability(device=None):
    """Major and minor version of OpenCL."""
    version = _ops.device_texts(_index(device))[4].split()
    major, minor = version[1].split(".")[:2]
    return int(major), int(minor)


class device:
    """Context manager: another current device. A negative number changes nothing."""

    def __init__(self, device):
        self.idx = device if isinstance(device, int) else _index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)
        return self

    def __exit__(self, *_):
        _exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: the device of a tensor, if it is on one of these."""

    def __init__(self, tensor):
        super().__init__(tensor.get_device() if tensor.device.type == "ocl" else -1)


def _exchange_device(index):
    return _ops.exchange_device(index) if index >= 0 else current_device()


_maybe_exchange_device = _exchange_device
exchange_device = maybe_exchange_device = _exchange_device


def _get_device_index(device, optional=False, allow_cpu=False):
    """PyTorch's name for _index(): torch.load asks for it."""
    if allow_cpu and torch.device(device).type == "cpu":
        return -1
    return _index(device, optional)


_utils = types.SimpleNamespace(_get_device_index=_get_device_index)


def is_initialized():
    return any(_ops.is_made(i) for i in range(device_count())) and not _is_in_bad_fork()


def init():
    _lazy_init()


def _lazy_init():
    _ops.init()


def _lazy_call(callable, **_):
    """Nothing is put off here: devices are made when they are used."""
    callable()


def _is_in_bad_fork():
    return _ops.in_bad_fork()


def is_bf16_supported(including_emulation=True):
    """bf16 works on every device; where it lacks the instructions, by way of f32."""
    return True


def get_amp_supported_dtype():
    return [torch.float16, torch.bfloat16]


# Streams and events


# PyTorch accepts its own types alone, no classes made of them.


def Stream(device=None, priority=0):
    """A stream of the device's pool: a torch.Stream."""
    return torch.Stream(torch.device("ocl", _index(device)), priority=priority)


def Event(enable_timing=False, blocking=False, interprocess=False):
    """A torch.Event of this device type."""
    return torch.Event("ocl", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def synchronize(device=None):
    """Waits for all work on the device."""
    _ops.synchronize(_index(device))


def current_stream(device=None):
    return torch.accelerator.current_stream(torch.device("ocl", _index(device)))


def default_stream(device=None):
    current = current_stream(device)
    return torch.Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


def set_stream(stream):
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream):
    """Context manager: another current stream, and its device. None changes nothing."""
    if stream is None:
        yield
        return
    with stream:
        yield


def is_current_stream_capturing():
    """Work is never captured in graphs here."""
    return False


# Memory


def memory_stats(device=None):
    return torch.accelerator.memory_stats(torch.device("ocl", _index(device)))


def memory_allocated(device=None):
    return torch.accelerator.memory_allocated(torch.device("ocl", _index(device)))


def max_memory_allocated(device=None):
    return torch.accelerator.max_memory_allocated(torch.device("ocl", _index(device)))


def memory_reserved(device=None):
    return torch.accelerator.memory_reserved(torch.device("ocl", _index(device)))


def max_memory_reserved(device=None):
    return torch.accelerator.max_memory_reserved(torch.device("ocl", _index(device)))


def reset_peak_memory_stats(device=None):
    torch.accelerator.reset_peak_memory_stats(torch.device("ocl", _index(device)))


def reset_accumulated_memory_stats(device=None):
    torch.accelerator.reset_accumulated_memory_stats(torch.device("ocl", _index(device)))


def mem_get_info(device=None):
    """Bytes that may still be allocated, and bytes in all."""
    return torch.accelerator.get_memory_info(torch.device("ocl", _index(device)))


def memory_summary(device=None, abbreviated=False):
    """memory_stats() as a text: bytes of tensors, bytes of buffers, how often memory ran short."""
    stats = memory_stats(device)
    lines = [f"memory of ocl:{_index(device)}, {get_device_name(device)}"]
    for name, key in (("tensors", "allocated_bytes"), ("buffers", "reserved_bytes")):
        now, peak = (stats[f"{key}.all.{when}"] for when in ("current", "peak"))
        lines.append(f"{name}: {now} bytes, at most {peak}")
    if not abbreviated:
        lines.append(f"allocations: {stats['allocation.all.allocated']}, repeated with an emptied cache: "
                     f"{stats['num_alloc_retries']}, failed: {stats['num_ooms']}")
    return "\n".join(lines)


def empty_cache():
    torch.accelerator.empty_cache()


def set_memory_limit(limit, device=None):
    """Most bytes of buffers that the device's pool may hold."""
    _ops.set_memory_limit(_index(device), limit)


def check_indices(on=True):
    """Whether operators search their indices and labels for what is out of range, on all devices.

    Without it, such an index reads zeros, writes nothing and counts as an ignored label. With it, the next
    synchronize() or copy to the CPU raises IndexError, which names operator, argument, element and value. Each
    search is a kernel of its own. Off, unless the environment has DLPRIM_CHECK_INDEX=1."""
    _ops.check_indices(bool(on))


def set_per_process_memory_fraction(fraction, device=None):
    index = _index(device)
    set_memory_limit(int(fraction * get_device_properties(index).total_memory), index)


# Random numbers


def manual_seed(seed):
    _ops.manual_seed(current_device(), int(seed))


def manual_seed_all(seed):
    if _is_in_bad_fork():
        return
    for i in range(device_count()):
        _ops.manual_seed(i, int(seed))


def seed():
    manual_seed(int.from_bytes(os.urandom(7), "little"))
    return initial_seed()


def seed_all():
    manual_seed_all(int.from_bytes(os.urandom(7), "little"))


def _get_generator(device):
    """The generator that operators on the device use if they are given none."""
    return _ops.default_generator(_index(device))


def initial_seed():
    return _ops.initial_seed(current_device())


def get_rng_state(device="ocl"):
    return _ops.get_rng_state(_index(device))


def get_rng_state_all():
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="ocl"):
    _ops.set_rng_state(_index(device), new_state)


def set_rng_state_all(new_states):
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


# What ran on the CPU


class _Fallbacks(dict):
    """Operators and how often each ran on the CPU, most often first."""

    def __str__(self):
        if not self:
            return "no operator ran on the CPU"
        return "\n".join(f"{times:8d}  {name}" for name, times in self.items())


def fallbacks():
    """Which operators ran on the CPU, or were refused, and how often."""
    names, times = _ops.fallback_counts()
    return _Fallbacks(sorted(zip(names, times), key=lambda pair: (-pair[1], pair[0])))


def reset_fallbacks():
    _ops.reset_fallbacks()


def set_fallback_mode(mode):
    """"warn", "error" or "silent", in place of OCL_FALLBACK. Returns the mode before."""
    return _ops.fallback_mode(mode)


# OpenCL itself


def program_counts(device=None):
    """How many programs were compiled, loaded from disk, and found in memory."""
    return dict(zip(("built", "from_disk", "reused"), _ops.program_counts(_index(device))))
