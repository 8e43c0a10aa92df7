"""The C API in Python, by ctypes: one process drives all devices, without MPI. Where CuPy is and gpucoll uses GPUs, the
arrays are CuPy's; else they are memory of gpucoll, so that this runs on the emulated device as well.

    python3 api_arrays.py [DEVICES]
"""
import ctypes
import os
import struct
import sys

gpucoll = ctypes.CDLL(os.environ.get("LIBGPUCOLL", "libgpucoll.so.0"))
gpucoll.gpucollGetLastError.restype = ctypes.c_char_p
gpucoll.gpucollGetLastError.argtypes = [ctypes.c_void_p]
buffers = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
gpucoll.gpucollAllReduce.argtypes = [*buffers, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
gpucoll.gpucollSend.argtypes = gpucoll.gpucollRecv.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
gpucoll.gpucollMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
gpucoll.gpucollMemcpy.argtypes = buffers
gpucoll.gpucollFree.argtypes = gpucoll.gpucollCommDestroy.argtypes = [ctypes.c_void_p]
gpucoll.gpucollStreamSynchronize.argtypes = [ctypes.c_void_p]
FLOAT32, SUM = 7, 0  # of gpucollDataType_t and gpucollRedOp_t


def call(name, *arguments):
    """Calls a function of the C API; raises the sentence that belongs to its error."""
    if getattr(gpucoll, name)(*arguments) != 0:
        raise RuntimeError(f"{name}: {gpucoll.gpucollGetLastError(None).decode()}")


class Memory:
    """Floats in device memory of gpucoll."""

    def __init__(self, values):
        self.count, self.pointer = len(values), ctypes.c_void_p()
        call("gpucollMalloc", ctypes.byref(self.pointer), 4 * self.count)
        call("gpucollMemcpy", self.pointer, struct.pack(f"={self.count}f", *values), 4 * self.count)
        self.address = self.pointer.value

    def values(self):
        host = ctypes.create_string_buffer(4 * self.count)
        call("gpucollMemcpy", host, self.pointer, 4 * self.count)
        return list(struct.unpack(f"={self.count}f", host.raw))

    def free(self):
        call("gpucollFree", self.pointer)


class CupyMemory:
    """The same in an array of CuPy."""

    def __init__(self, values):
        self.count, self.array = len(values), cupy.asarray(values, dtype=cupy.float32)
        cupy.cuda.get_current_stream().synchronize()  # gpucoll's streams do not wait for CuPy's
        self.address = self.array.data.ptr

    def values(self):
        return self.array.tolist()

    def free(self):
        self.array = None


kind, devices = ctypes.c_char_p(), ctypes.c_int()
call("gpucollDeviceKind", ctypes.byref(kind))
call("gpucollDeviceCount", ctypes.byref(devices))
n = int(sys.argv[1]) if len(sys.argv) > 1 else devices.value
array = Memory
if kind.value == b"cuda":
    try:
        import cupy
        array = CupyMemory
    except ImportError:
        pass



def choose(device):
    """Makes a device that of the calls that follow, CuPy's as well."""
    call("gpucollSetDevice", device)
    if array is CupyMemory:
        cupy.cuda.Device(device).use()


comms = (ctypes.c_void_p * n)()
call("gpucollCommInitAll", comms, n, None)
count = 1001
send, recv = [], []
for device in range(n):
    choose(device)
    send.append(array([float((device + 1) * (i % 97)) for i in range(count)]))
    recv.append(array([0.0] * count))


def finish():
    """Waits for the default stream of each device."""
    for device in range(n):
        choose(device)
        call("gpucollStreamSynchronize", None)


def expect(what, right):
    for device in range(n):
        choose(device)
        if recv[device].values() != right(device):
            sys.exit(f"wrong: {what} on device {device}")


call("gpucollGroupStart")
for device in range(n):
    call("gpucollAllReduce", send[device].address, recv[device].address, count, FLOAT32, SUM, comms[device], None)
call("gpucollGroupEnd")
finish()
expect("gpucollAllReduce", lambda _: [float(n * (n + 1) // 2 * (i % 97)) for i in range(count)])

# Each device sends to the next one.
call("gpucollGroupStart")
for device in range(n):
    call("gpucollSend", send[device].address, count, FLOAT32, (device + 1) % n, comms[device], None)
    call("gpucollRecv", recv[device].address, count, FLOAT32, (device - 1) % n, comms[device], None)
call("gpucollGroupEnd")
finish()
expect("gpucollSend", lambda device: [float(((device - 1) % n + 1) * (i % 97)) for i in range(count)])

for device in range(n):
    call("gpucollCommDestroy", comms[device])
    choose(device)
    send[device].free()
    recv[device].free()
print(f"api_arrays: all right on {n} devices ({kind.value.decode()}, {array.__name__})")
