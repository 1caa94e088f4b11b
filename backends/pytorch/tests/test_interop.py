"""Memory that is shared with another user of OpenCL: buffers, DLPack; order, lifetimes, what is refused."""

import ctypes
import gc
import os
import struct

import pytest
import torch

import opencl

pytestmark = pytest.mark.skipif(opencl.lib is None, reason="there is no libOpenCL.so.1 to call")


@pytest.fixture
def context():
    return torch.ocl.context_handle()


@pytest.fixture
def queue(context):
    """A queue of the other side's own."""
    queue = opencl.lib.clCreateCommandQueue(context, opencl.device_of(context), 0, None)
    yield queue
    opencl.finish(queue)
    opencl.done(opencl.lib.clReleaseCommandQueue(opencl.P(queue)))


@pytest.fixture
def memory(context, queue):
    """A buffer of 24 floats 0, 1, ... and 4 bytes more."""
    memory = opencl.buffer(context, 100)
    opencl.write(queue, memory, struct.pack("24f", *range(24)))
    yield memory
    assert opencl.references(memory) == 1  # no test leaves a tensor
    opencl.release(memory)


def test_a_buffer_as_a_tensor(memory, queue):
    before = torch.ocl.memory_allocated()
    x = torch.ocl.from_cl(memory, (4, 6))
    assert x.device == torch.device("ocl:0") and x.dtype == torch.float32 and x.is_contiguous()
    assert torch.equal(x.cpu(), torch.arange(24.0).view(4, 6))
    assert torch.ocl.memory_allocated() == before  # it is not PyTorch's
    assert torch.ocl.cl_mem(x) == (memory, 0) and torch.ocl.cl_mem(x[2:, 1:]) == (memory, 52)
    x.mul_(2)[1:3].t()[2] = -1
    torch.ocl.synchronize()
    expected = torch.arange(24.0).view(4, 6) * 2
    expected[1:3, 2] = -1
    assert opencl.read(queue, memory, 96) == struct.pack("24f", *expected.flatten().tolist())


@pytest.mark.parametrize("offset", [4, 12, 20, 36])
def test_offsets(memory, offset):
    """The plan of an aligned tensor must not be used for one that is not, nor the reverse."""
    first = offset // 4
    aligned, shifted = torch.ocl.from_cl(memory, 8), torch.ocl.from_cl(memory, 8, offset=offset)
    assert torch.equal((aligned + 1).cpu(), torch.arange(1.0, 9))
    assert torch.equal((shifted + 1).cpu(), torch.arange(1.0, 9) + first)
    assert shifted.data_ptr() % 16 == offset % 16
    m = torch.ocl.from_cl(memory, (2, 4), offset=offset)
    assert torch.equal((m @ m.t()).cpu(), (lambda h: h @ h.t())(torch.arange(8.0).view(2, 4) + first))
    assert shifted.sum().item() == 28 + 8 * first


def test_dtypes_strides_and_no_elements(memory):
    assert torch.ocl.from_cl(memory, 1, torch.uint8, 99).shape == (1,)
    assert torch.ocl.from_cl(memory, (3,), torch.float64, 8).cpu().view(torch.float32).tolist() == list(range(2, 8))
    assert torch.ocl.from_cl(memory, (3, 2), strides=(2, 6)).cpu().tolist() == [[0, 6], [2, 8], [4, 10]]
    assert torch.ocl.from_cl(memory, (2,), torch.complex64, 8).cpu().tolist() == [2 + 3j, 4 + 5j]
    empty = torch.ocl.from_cl(memory, (0, 3))
    assert empty.shape == (0, 3) and (empty + 1).numel() == 0
    scalar = torch.ocl.from_cl(memory, (), offset=28)
    assert scalar.item() == 7 and scalar.view(torch.int32).shape == ()
    # A view of wider elements exists as far as the buffer has whole ones.
    assert torch.ocl.from_cl(memory, 24)[:2].view(torch.int64).shape == (1,)


def test_a_part_of_a_buffer(context, queue):
    """A sub-buffer, and the buffer that it is of: one memory."""
    memory = opencl.buffer(context, 3 * 4096)
    part = opencl.part(memory, 4096, 64)
    whole, x = torch.ocl.from_cl(memory, 3 * 1024), torch.ocl.from_cl(part, 15, offset=4)
    with pytest.raises(ValueError, match="ends at byte 68 of a buffer of 64"):
        torch.ocl.from_cl(part, 16, offset=4)
    whole.copy_(torch.arange(3.0 * 1024))
    assert x.cpu().tolist() == list(range(1025, 1040))
    x.neg_()
    assert whole[1024:1041].cpu().tolist() == [1024.0, *range(-1025, -1040, -1), 1040.0]
    del whole, x
    opencl.release(part)
    opencl.release(memory)


def test_the_buffer_lives_as_long_as_a_tensor(context, queue):
    memory = opencl.buffer(context, 64)
    opencl.write(queue, memory, struct.pack("16f", *range(16)))
    x = torch.ocl.from_cl(memory, (16,))
    assert opencl.references(memory) == 2
    view = x[4:]
    del x
    assert opencl.references(memory) == 2
    opencl.release(memory)  # PyTorch holds the last one
    assert opencl.references(memory) == 1
    assert view.sum().item() == sum(range(4, 16))
    y = view * 1
    for _ in range(50):
        y = y + view
    del view  # with work in flight
    gc.collect()
    assert y[0].item() == 4 * 51


def test_work_in_pytorchs_queue_is_in_order(memory, context):
    """The other side's commands between PyTorch's, and nobody waits."""
    mine = torch.ocl.queue_handle()
    x = torch.ocl.from_cl(memory, (24,))
    scratch = opencl.buffer(context, 96)
    expected = torch.arange(24.0)
    for _ in range(20):
        x.add_(1).mul_(0.5)
        opencl.copy(mine, memory, scratch, 96)
        x.zero_()
        opencl.copy(mine, scratch, memory, 96)
        expected = (expected + 1) * 0.5
    assert torch.equal(x.cpu(), expected)
    big = torch.zeros(1 << 20, device="ocl")
    handle, offset = torch.ocl.cl_mem(big)
    big.fill_(3)
    opencl.copy(mine, handle, scratch, 8, from_=offset + (4 << 20) - 8)
    assert opencl.read(mine, scratch, 8) == struct.pack("2f", 3, 3)
    opencl.release(scratch)


def test_queues_of_two_sides_and_waiting(context, queue):
    size = 4 << 20
    memory = opencl.buffer(context, size)
    x = torch.ocl.from_cl(memory, (1 << 20,))
    for i in range(5):
        data = struct.pack("f", i + 1) * (1 << 20)
        opencl.write(queue, memory, data, blocking=False)
        opencl.finish(queue)  # before PyTorch's turn
        x.mul_(2)
        torch.ocl.synchronize()  # before the other's
        assert opencl.read(queue, memory, 4, size - 4) == struct.pack("f", 2 * i + 2)
    del x
    opencl.release(memory)


@pytest.mark.parametrize("synchronize", ["torch.ocl", "torch.accelerator"])
def test_synchronize_waits_where_pytorch_made_no_tensor_of_its_own(python, synchronize):
    text = (
        "import struct, sys\n"
        f"sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
        "import opencl\n"
        "context = torch.ocl.context_handle()\n"
        "queue = opencl.lib.clCreateCommandQueue(context, opencl.device_of(context), 0, None)\n"
        "memory = opencl.buffer(context, 1 << 24)\n"
        "x = torch.ocl.from_cl(memory, 1 << 22)\n"
        "x.fill_(1)\n"
        "for _ in range(10): x.mul_(2)\n"
        f"{synchronize}.synchronize()\n"
        "print(struct.unpack('f', opencl.read(queue, memory, 4, (1 << 24) - 4)))\n"
    )
    assert python(text) == "(1024.0,)\n"


def test_it_trains(context, queue):
    """A weight in another's buffer, by every kernel that a step takes."""
    memory = opencl.buffer(context, 4 * 12)
    w = torch.nn.Parameter(torch.ocl.from_cl(memory, (3, 4)))
    with torch.no_grad():
        w.copy_(torch.arange(12.0).view(3, 4) / 12)
    other = w.detach().cpu().requires_grad_()
    optimizers = [torch.optim.AdamW([p], 0.1) for p in (w, other)]
    x = torch.randn(5, 4)
    for p, optimizer in zip((w, other), optimizers):
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.linear(x.to(p.device), p).square().sum().backward()
            optimizer.step()
    torch.ocl.synchronize()
    got = torch.tensor(struct.unpack("12f", opencl.read(queue, memory, 48))).view(3, 4)
    torch.testing.assert_close(got, other.detach(), rtol=1e-4, atol=1e-5)
    del w, optimizers
    opencl.release(memory)


def test_what_is_refused(memory, context):
    x = torch.zeros(100, device="ocl")
    from_cl = torch.ocl.from_cl
    for error, match, arguments in [
        (ValueError, "handle: .*null", (0, 4)),
        (ValueError, "handle: -5 is no address", (-5, 4)),
        (TypeError, "handle: .*not str", ("7", 4)),
        (TypeError, "handle: .*not Tensor", (x, 4)),
        (ValueError, "handle: 0x1000 is no cl_mem: there is nothing", (0x1000, 4)),
        (ValueError, "handle: .*data_ptr.*torch.ocl.cl_mem", (x.data_ptr(), 4)),
        (ValueError, "handle: .*(is of another kind|is no cl_mem)", (context, 4)),
        (ValueError, "handle: .*(is of another kind|is no cl_mem)", (torch.ocl.queue_handle(), 4)),
        (ValueError, r"shape: \[-1\] has a negative", (memory, -1)),
        (ValueError, r"shape: \[26\] of Float from byte 0 on ends at byte 104 of a buffer of 100", (memory, 26)),
        (ValueError, r"shape: \[25\] of Float from byte 4 on ends at byte 104", (memory, 25, torch.float32, 4)),
        (ValueError, "ends at byte 104", (memory, (2, 2), torch.float32, 0, (24, 1))),
        (Exception, "overflow", (memory, (1 << 40, 1 << 40))),
        (ValueError, "offset: 6 is no multiple of the 4 bytes of a Float", (memory, 2, torch.float32, 6)),
        (ValueError, "offset: -4 is negative", (memory, 2, torch.float32, -4)),
        (ValueError, "strides: .*not as many", (memory, (2, 2), torch.float32, 0, (1,))),
        (ValueError, "strides: .*negative", (memory, (2, 2), torch.float32, 0, (-2, 1))),
    ]:
        with pytest.raises(error, match=match):
            from_cl(*arguments)
    with pytest.raises(ValueError, match="tensor: is on cpu"):
        torch.ocl.cl_mem(torch.ones(3))
    with pytest.raises(ValueError, match="tensor: has no elements"):
        torch.ocl.cl_mem(torch.ones(0, device="ocl"))
    view = from_cl(memory, 24)
    with pytest.raises(RuntimeError, match="resiz"):
        view.resize_(1000)
    assert view.shape != (1000,) or view.untyped_storage().nbytes() == 100


def test_a_buffer_of_another_context_is_refused(context):
    device = opencl.device_of(context)
    other = opencl.lib.clCreateContext(None, 1, ctypes.byref(device), None, None, None)
    memory = opencl.buffer(other, 64)
    with pytest.raises(ValueError, match="handle: .* of the context 0x.*not of torch.ocl.context_handle.*make it there"):
        torch.ocl.from_cl(memory, 4)
    opencl.release(memory)
    opencl.done(opencl.lib.clReleaseContext(opencl.P(other)))


def test_host_memory_off_its_alignment_is_refused(context):
    room = ctypes.create_string_buffer(256)
    start = -ctypes.addressof(room) % 64
    for shift in (0, 4):
        code = ctypes.c_int32()
        memory = opencl.lib.clCreateBuffer(context, opencl.READ_WRITE | opencl.USE_HOST_PTR, 64,
                                           ctypes.addressof(room) + start + shift, ctypes.byref(code))
        if code.value:
            continue  # the driver refuses it itself
        if shift:
            with pytest.raises(ValueError, match="handle: .* no multiple of 16 bytes"):
                torch.ocl.from_cl(memory, 4)
        else:
            assert torch.ocl.from_cl(memory, 4).fill_(2).sum().item() == 8
        opencl.release(memory)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", DELETER), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


class Producer:
    """Another library's tensor over a buffer: 5 floats from byte 8 on, as DLPack gives them."""

    def __init__(self, memory, versioned=False, **changes):
        self.deleted, self.versioned = 0, versioned
        self.shape, self.strides = (ctypes.c_int64 * 1)(5), (ctypes.c_int64 * 1)(1)
        self.deleter = DELETER(self.delete)
        values = dict(data=memory, device_type=4, device_id=0, ndim=1, code=2, bits=32, lanes=1,
                      shape=self.shape, strides=self.strides, byte_offset=8)
        tensor = DLTensor(**{**values, **changes})
        if versioned:
            self.managed = ManagedVersioned(major=1, minor=0, deleter=self.deleter, tensor=tensor)
        else:
            self.managed = Managed(tensor=tensor, deleter=self.deleter)

    def delete(self, _):
        self.deleted += 1

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new(ctypes.addressof(self.managed), ctypes.cast(ctypes.c_char_p(self.name), ctypes.c_void_p), None)


@pytest.mark.parametrize("versioned", [False, True])
def test_from_dlpack(memory, versioned):
    producer = Producer(memory, versioned)
    capsule = producer.__dlpack__()
    x = torch.ocl.from_dlpack(capsule)
    assert x.cpu().tolist() == [2, 3, 4, 5, 6] and x.device.type == "ocl"
    with pytest.raises(ValueError, match="capsule: .*nobody has taken"):
        torch.ocl.from_dlpack(capsule)
    y = x[2:] * 1
    view = x[1:]
    del x, capsule
    gc.collect()
    assert producer.deleted == 0
    for _ in range(50):
        y = y + view[1:]
    del view  # the owner is told when this work is done
    assert producer.deleted == 1
    assert y.cpu().tolist() == [4 * 51, 5 * 51, 6 * 51]


def test_from_dlpack_of_an_object(memory):
    producer = Producer(memory, strides=None)
    x = torch.ocl.from_dlpack(producer)
    assert x.cpu().tolist() == [2, 3, 4, 5, 6]
    del x
    assert producer.deleted == 1


def test_the_owner_is_told_after_the_work(context):
    """When the deleter runs, what PyTorch does with the memory is over."""
    size = 1 << 22
    memory = opencl.buffer(context, 4 * size)
    queue = opencl.lib.clCreateCommandQueue(context, opencl.device_of(context), 0, None)
    opencl.write(queue, memory, struct.pack("f", 1) * size)
    seen = []
    producer = Producer(memory, byte_offset=0, strides=None, shape=(ctypes.c_int64 * 1)(size))
    producer.delete = lambda _: None
    producer.managed.deleter = producer.deleter = DELETER(
        lambda _: seen.append(opencl.read(queue, memory, 4, 4 * size - 4)))
    x = torch.ocl.from_dlpack(producer)
    for _ in range(10):
        x.mul_(2)
    del x
    assert seen == [struct.pack("f", 1024)]
    opencl.done(opencl.lib.clReleaseCommandQueue(opencl.P(queue)))
    opencl.release(memory)


def test_what_from_dlpack_refuses(memory):
    for match, changes in [
        (r"device type 2, not 4 \(kDLOpenCL\)", dict(device_type=2)),
        ("handle: .*null", dict(data=None)),
        ("offset: 6 is no multiple", dict(byte_offset=6)),
        ("ends at byte 120 of a buffer of 100", dict(byte_offset=100)),
        ("lane", dict(lanes=4)),
        ("negative stride", dict(strides=(ctypes.c_int64 * 1)(-1))),
    ]:
        producer = Producer(memory, **changes)
        with pytest.raises((ValueError, RuntimeError, BufferError), match=match):
            torch.ocl.from_dlpack(producer)
        assert producer.deleted == 0  # it stays the producer's
    versioned = Producer(memory, True)
    versioned.managed.major = 2
    with pytest.raises(ValueError, match="DLPack 2.0, not 1"):
        torch.ocl.from_dlpack(versioned)
    for source in (3, "x", None):
        with pytest.raises(ValueError, match="capsule: expected"):
            torch.ocl.from_dlpack(source)


def managed_of(capsule):
    address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
    return Managed.from_address(address)


def test_to_dlpack():
    base = torch.arange(60.0).to("ocl").view(6, 10)
    x = base[1:5, 2::3]
    x.mul_(2)
    capsule = torch.ocl.to_dlpack(x)
    t = managed_of(capsule).tensor
    handle, offset = torch.ocl.cl_mem(x)
    assert (t.device_type, t.device_id, t.code, t.bits, t.lanes, t.ndim) == (4, 0, 2, 32, 1, 2)
    assert t.data == handle and t.byte_offset == offset
    assert t.shape[:2] == [4, 3] and t.strides[:2] == [10, 3]
    back = torch.ocl.from_dlpack(capsule)
    assert back.shape == x.shape and back.stride() == x.stride() and torch.equal(back.cpu(), x.cpu())
    back.fill_(-1)
    torch.ocl.synchronize()  # two tensors that do not know of one another, but one stream
    assert x.cpu().eq(-1).all() and base.cpu()[0].tolist() == list(range(10))


def test_a_capsule_keeps_the_tensor():
    gc.collect()
    before = torch.ocl.memory_allocated()
    capsule = torch.ocl.to_dlpack(torch.ones(1000, device="ocl"))
    assert torch.ocl.memory_allocated() == before + 4000
    x = torch.ocl.from_dlpack(capsule)
    del capsule
    assert torch.ocl.memory_allocated() == before + 4000 and x.sum().item() == 1000
    del x
    assert torch.ocl.memory_allocated() == before
    capsule = torch.ocl.to_dlpack(torch.ones(1000, device="ocl"))
    del capsule  # nobody took it
    assert torch.ocl.memory_allocated() == before
    managed = managed_of(torch.ocl.to_dlpack(torch.ones(1000, device="ocl")))
    assert managed is not None and torch.ocl.memory_allocated() == before


def test_what_to_dlpack_refuses():
    for tensor, match in [
        (torch.ones(2), "tensor: is on cpu"),
        (torch.ones(0, device="ocl"), "tensor: has no elements"),
        (torch.ones(2, device="ocl", requires_grad=True), "tensor: requires grad"),
        (torch.ones(2, dtype=torch.complex64, device="ocl").conj(), "conjugated"),
    ]:
        with pytest.raises(ValueError, match=match):
            torch.ocl.to_dlpack(tensor)


def test_at_exit(python):
    """Foreign buffers and capsules that outlive everything."""
    assert python(
        "x = torch.ones(4, device='ocl')\n"
        "kept = torch.ocl.to_dlpack(x)\n"
        "taken = torch.ocl.from_dlpack(torch.ocl.to_dlpack(x))\n"
        "handle, offset = torch.ocl.cl_mem(x)\n"
        "again = torch.ocl.from_cl(handle, 4, offset=offset)\n"
        "print(again.add_(1).sum().item(), taken.sum().item())\n") == "8.0 8.0\n"


def test_with_pyopencl():
    cl = pytest.importorskip("pyopencl")
    np = pytest.importorskip("numpy")
    context = cl.Context.from_int_ptr(torch.ocl.context_handle())
    data = np.arange(12, dtype=np.float32)
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
    x = torch.ocl.from_cl(memory, (3, 4))
    assert x.cpu().flatten().tolist() == data.tolist()
    x.mul_(3)
    queue = cl.CommandQueue.from_int_ptr(torch.ocl.queue_handle())
    program = cl.Program(context, "__kernel void more(__global float* x) { x[get_global_id(0)] += 1; }").build()
    program.more(queue, (12,), None, memory)  # in order behind the product
    assert x.cpu().flatten().tolist() == (data * 3 + 1).tolist()
    y = torch.arange(200.0).to("ocl")
    handle, offset = torch.ocl.cl_mem(y)
    other = cl.Buffer.from_int_ptr(handle)
    out = np.empty(200, np.float32)
    cl.enqueue_copy(queue, out, other, src_offset=offset)
    assert out.tolist() == list(range(200))
    del memory
    gc.collect()
    assert x.sum().item() == (data * 3 + 1).sum()
