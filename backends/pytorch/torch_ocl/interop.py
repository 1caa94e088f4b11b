"""Memory that is shared with other users of OpenCL, without copies: buffers as they are, and by DLPack.

Both sides must be in one OpenCL context: make yours of torch.ocl.context_handle(). Whose turn it is:

- What you put into the queue torch.ocl.queue_handle() is in order with PyTorch's work in its current stream, before
  and after: nobody waits. A profiler that begins or ends makes it another queue: ask for the handle then, not once.
- Before you use a tensor's memory in a queue of your own, torch.ocl.synchronize(). Before PyTorch uses memory that a
  queue of yours wrote, finish that queue. to_dlpack does the first; from_dlpack cannot do the second, since OpenCL's
  DLPack names no queue.
- Keep a tensor whose memory your queue uses until that is done: the pool gives the memory to the next one.
- A buffer is retained while a tensor made of it, or a view, lives. What is in flight then is finished by OpenCL before
  it frees the buffer; for DLPack, PyTorch waits for the device before it tells the owner.
"""

import ctypes

import torch

_ops = torch.ops.ocl
_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p] * 3
_python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_void_p]


def context_handle(device=None):
    """The cl_context, as a number."""
    return _ops.context_handle(torch.ocl._index(device))


def queue_handle(stream=None):
    """The cl_command_queue of a stream, as a number."""
    return (stream if stream is not None else torch.ocl.current_stream()).native_handle


def cl_mem(tensor):
    """The cl_mem of a tensor's storage, as a number, and the byte in it where the tensor begins."""
    return _ops.memory_handle(tensor)


def _tell_pytorch():
    """torch.accelerator.synchronize() waits for devices only that PyTorch has made a tensor on."""
    torch.empty(0, device="ocl")


def from_cl(handle, shape, dtype=torch.float32, offset=0, strides=None):
    """A tensor over a buffer of the context torch.ocl.context_handle(), from byte `offset` on.

    handle: the cl_mem as a number, or something whose int_ptr is that, as of pyopencl.Buffer. Kernels must be allowed
    to read and write it. strides are in elements; without them the tensor is contiguous. A number that is no cl_mem
    is refused where that can be told: OpenCL itself believes it.
    """
    number = getattr(handle, "int_ptr", handle)
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"handle: expected a cl_mem as an int, or int_ptr of something, not {type(handle).__name__}")
    if not 0 <= number < 1 << 63:
        raise ValueError(f"handle: {number} is no address")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    _tell_pytorch()
    return _ops.from_cl(number, shape, dtype, offset, strides)


def to_dlpack(tensor):
    """A DLPack capsule (kDLOpenCL: cl_mem and byte offset) that keeps the tensor. Waits for the device."""
    fresh, _, _, end = _ops.capsule_addresses()
    return _python.PyCapsule_New(_ops.to_dlpack(tensor), fresh, end)


def from_dlpack(source):
    """A tensor over the memory of a DLPack capsule of kDLOpenCL, or of an object with __dlpack__, whose work on it is
    done. The owner gets it back when the tensor and its views are gone."""
    if hasattr(source, "__dlpack__"):
        source = source.__dlpack__()
    _, used, used_versioned, _ = _ops.capsule_addresses()
    for name, versioned, after in ((b"dltensor", False, used), (b"dltensor_versioned", True, used_versioned)):
        if type(source).__name__ == "PyCapsule" and _python.PyCapsule_IsValid(source, name):
            _tell_pytorch()
            tensor = _ops.from_dlpack(_python.PyCapsule_GetPointer(source, name), versioned)
            _python.PyCapsule_SetName(source, after)
            return tensor
    raise ValueError(f"capsule: expected one of DLPack that nobody has taken the tensor from, not {source!r}")
