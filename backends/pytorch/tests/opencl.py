"""As much of OpenCL as another user of the device needs, by ctypes."""

import ctypes

try:
    lib = ctypes.CDLL("libOpenCL.so.1")
except OSError:
    lib = None

P, U32, SIZE = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t
READ_WRITE, USE_HOST_PTR = 1, 8
REFERENCE_COUNT, REGION = 0x1105, 0x1220

if lib is not None:
    lib.clCreateBuffer.restype = lib.clCreateSubBuffer.restype = P
    lib.clCreateContext.restype = lib.clCreateCommandQueue.restype = P
    lib.clCreateCommandQueue.argtypes = [P, P, ctypes.c_uint64, P]
    lib.clCreateBuffer.argtypes = [P, ctypes.c_uint64, SIZE, P, P]


def done(code):
    assert code == 0, f"OpenCL error {code}"


def buffer(context, size, flags=READ_WRITE, host=None):
    code = ctypes.c_int32()
    handle = lib.clCreateBuffer(context, flags, size, host, ctypes.byref(code))
    done(code.value)
    return handle


def part(memory, origin, size):
    code = ctypes.c_int32()
    handle = lib.clCreateSubBuffer(P(memory), ctypes.c_uint64(0), U32(REGION), (SIZE * 2)(origin, size),
                                   ctypes.byref(code))
    done(code.value)
    return handle


def references(memory):
    count = U32()
    done(lib.clGetMemObjectInfo(P(memory), REFERENCE_COUNT, SIZE(4), ctypes.byref(count), None))
    return count.value


def release(memory):
    done(lib.clReleaseMemObject(P(memory)))


def device_of(context):
    device = P()
    done(lib.clGetContextInfo(P(context), 0x1081, SIZE(8), ctypes.byref(device), None))
    return device


def write(queue, memory, data, offset=0, blocking=True):
    done(lib.clEnqueueWriteBuffer(P(queue), P(memory), U32(blocking), SIZE(offset), SIZE(len(data)), data, 0, None, None))


def read(queue, memory, size, offset=0):
    data = ctypes.create_string_buffer(size)
    done(lib.clEnqueueReadBuffer(P(queue), P(memory), U32(1), SIZE(offset), SIZE(size), data, 0, None, None))
    return data.raw


def copy(queue, source, target, size, from_=0, to=0):
    done(lib.clEnqueueCopyBuffer(P(queue), P(source), P(target), SIZE(from_), SIZE(to), SIZE(size), 0, None, None))


def finish(queue):
    done(lib.clFinish(P(queue)))
