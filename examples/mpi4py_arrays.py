"""Device memory in Python: mpi4py takes every object with __cuda_array_interface__ (CuPy's and PyTorch's arrays have it)
and passes its pointer to MPI, where gpucoll takes over. Here the arrays are gpucoll's own memory, so that this runs on
the emulated device as well.

    mpirun --mca coll gpucoll -np 3 python3 mpi4py_arrays.py
"""
import ctypes
import struct
import sys

try:
    from mpi4py import MPI
except ImportError:
    print("skipped: there is no mpi4py for", sys.executable)
    sys.exit(77)

try:
    import cupy
except ImportError:
    cupy = None

# Under this name MPI_Init has loaded it, as what the component needs.
gpucoll = ctypes.CDLL("libgpucoll.so.0")


def need(result):
    if result != 0:
        gpucoll.gpucollGetLastError.restype = ctypes.c_char_p
        raise RuntimeError(gpucoll.gpucollGetLastError(None).decode())


class DeviceArray:
    """Numbers in device memory: "<f4" is what NumPy calls float32 and struct calls "f"."""

    letters = {"<f4": "f", "<i4": "i", "<f8": "d"}

    def __init__(self, values, typestr):
        self.count, self.letter = len(values), self.letters[typestr]
        host = struct.pack(f"={self.count}{self.letter}", *values)
        self.bytes, self.pointer = len(host), ctypes.c_void_p()
        need(gpucoll.gpucollMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes)))
        need(gpucoll.gpucollMemcpy(self.pointer, host, ctypes.c_size_t(self.bytes)))
        self.__cuda_array_interface__ = {
            "version": 2, "shape": (self.count,), "typestr": typestr, "data": (self.pointer.value, False)}

    def values(self):
        host = ctypes.create_string_buffer(self.bytes)
        need(gpucoll.gpucollMemcpy(host, self.pointer, ctypes.c_size_t(self.bytes)))
        return list(struct.unpack(f"={self.count}{self.letter}", host.raw))

    def free(self):
        need(gpucoll.gpucollFree(self.pointer))


def expect(what, array, values):
    if array.values() != values:
        print(f"wrong: {what} on rank {rank}: {array.values()[:5]} ... instead of {values[:5]} ...")
        world.Abort(1)
    array.free()


world = MPI.COMM_WORLD
rank, size = world.rank, world.size
devices = ctypes.c_int()
need(gpucoll.gpucollDeviceCount(ctypes.byref(devices)))
need(gpucoll.gpucollSetDevice(rank % devices.value))
count = 1001
mine = [float((rank + 1) * (i % 97)) for i in range(count)]
total = [float(size * (size + 1) // 2 * (i % 97)) for i in range(count)]

send, recv = DeviceArray(mine, "<f4"), DeviceArray([0.0] * count, "<f4")
world.Allreduce(send, recv, MPI.SUM)
expect("Allreduce", recv, total)
world.Allreduce(MPI.IN_PLACE, send, MPI.SUM)
expect("Allreduce in place", send, total)

block = DeviceArray([rank * 1000 + i for i in range(33)], "<i4")
blocks = DeviceArray([-1] * 33 * size, "<i4")
world.Allgather(block, blocks)
expect("Allgather", blocks, [r * 1000 + i for r in range(size) for i in range(33)])
block.free()

root = size - 1
data = DeviceArray([float(rank * 10 + i) for i in range(count)], "<f8")
other = DeviceArray([rank * size + i for i in range(size)], "<i4")
turned = DeviceArray([-1] * size, "<i4")
requests = [world.Ibcast(data, root=root), world.Ialltoall(other, turned)]
MPI.Request.Waitall(requests)
expect("Ibcast", data, [float(root * 10 + i) for i in range(count)])
expect("Ialltoall", turned, [r * size + rank for r in range(size)])
other.free()

# One side in device memory, the other one in host memory.
result = bytearray(4 * count) if rank == 0 else None
send = DeviceArray(mine, "<f4")
world.Reduce([send, MPI.FLOAT], [result, MPI.FLOAT] if rank == 0 else None, MPI.SUM, root=0)
if rank == 0 and list(struct.unpack(f"={count}f", result)) != total:
    print("wrong: Reduce to host memory")
    world.Abort(1)
send.free()
# CuPy's arrays are passed as they are. MPI waits for no stream: the one that writes an array comes first.
kind = ctypes.c_char_p()
need(gpucoll.gpucollDeviceKind(ctypes.byref(kind)))
if kind.value == b"cuda" and cupy is not None:
    cupy.cuda.Device(rank % devices.value).use()
    mine_there, total_there = cupy.asarray(mine, dtype=cupy.float32), cupy.empty(count, dtype=cupy.float32)
    cupy.cuda.get_current_stream().synchronize()
    world.Allreduce(mine_there, total_there, MPI.SUM)
    if total_there.tolist() != total:
        print("wrong: Allreduce of CuPy's arrays")
        world.Abort(1)

if rank == 0:
    print(f"mpi4py_arrays: all right on {size} ranks")
