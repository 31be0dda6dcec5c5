"""Calls a libcudart as programs of its CUDA version do, and prints what it wrote where, as JSON.

Run by test_cudart_abi.py in a guest: arguments are the library and its major version.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Callable
from typing import Final

ROOM: Final = 4096
MAGIC: Final = 0x466243B1
SOURCE: Final = b"__global__ void nothing() {}"

library = ctypes.CDLL(sys.argv[1])
major = int(sys.argv[2])


def checked(error: int) -> None:
    assert error == 0, error


def written(call: Callable[[ctypes.Array[ctypes.c_char]], int]) -> bytes:
    """Bytes that a call writes to a buffer, to the last one that it changes."""
    results = []
    extent = 0
    for fill in (b"\xa5", b"\x5a"):
        before = fill * ROOM
        buffer = ctypes.create_string_buffer(before, ROOM)
        checked(call(buffer))
        results.append(buffer.raw)
        extent = max([extent, *(i + 1 for i in range(ROOM) if buffer.raw[i] != before[i])])
    return results[0][:extent]


def register() -> ctypes.c_void_p:
    """Registers a kernel as the constructor of a program does; its host address."""
    name = b"nothing.cu"
    text = struct.pack("<8s4IQ", b"VGCUDA1\0", 0, len(name), 0, 0, len(SOURCE)) + name + SOURCE
    blob = ctypes.create_string_buffer(text, len(text))
    wrapper = ctypes.create_string_buffer(struct.pack("<iiQQ", MAGIC, 1, ctypes.addressof(blob), 0))
    library.__cudaRegisterFatBinary.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(library.__cudaRegisterFatBinary(wrapper))
    host = ctypes.c_void_p(ctypes.addressof(blob) + 1)
    library.__cudaRegisterFunction(handle, host, b"nothing", b"_Z7nothingv", -1, None, None, None, None, None)
    keep.extend([blob, wrapper])
    return host


def texture(memory: ctypes.c_void_p) -> ctypes.c_ulonglong:
    """A texture of linear memory, described as in all versions: no field has moved."""
    resource = struct.pack("<i4xQ5i4xQ", 2, memory.value or 0, 32, 0, 0, 0, 2, 128).ljust(144, b"\0")
    sampling = bytes(68) + b"\xff" * 4 if major == 11 else bytes(72)
    made = ctypes.c_ulonglong()
    checked(library.cudaCreateTextureObject(ctypes.byref(made), resource, sampling, None))
    return made


def edges() -> int:
    """Edges of a graph of two nodes, made and asked for with the version's parameters."""
    graph, first, second = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    data = [None] if major >= 13 else []
    checked(library.cudaGraphCreate(ctypes.byref(graph), 0))
    for node in (first, second):
        checked(library.cudaGraphAddEmptyNode(ctypes.byref(node), graph, None, ctypes.c_size_t(0)))
    one = ctypes.c_size_t(1)
    checked(library.cudaGraphAddDependencies(graph, ctypes.byref(first), ctypes.byref(second), *data, one))
    count = ctypes.c_size_t(0)
    checked(library.cudaGraphGetEdges(graph, None, None, *data, ctypes.byref(count)))
    executable = ctypes.c_void_p()
    log = ctypes.create_string_buffer(b"not written", 16)
    if major == 11:
        checked(
            library.cudaGraphInstantiate(ctypes.byref(executable), graph, ctypes.byref(first), log, ctypes.c_size_t(16))
        )
        assert log.value == b""
        result = ctypes.c_int(-1)
        checked(library.cudaGraphExecUpdate(executable, graph, ctypes.byref(first), ctypes.byref(result)))
        assert result.value == 0
    else:
        checked(library.cudaGraphInstantiate(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)))
    return count.value


def capture_status() -> int:
    stream, graph, status, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(-1), ctypes.c_ulonglong()
    checked(library.cudaStreamCreate(ctypes.byref(stream)))
    checked(library.cudaStreamBeginCapture(stream, 0))
    rest = [None] * 4 if major >= 13 else []
    checked(library.cudaStreamGetCaptureInfo(stream, ctypes.byref(status), ctypes.byref(number), *rest))
    checked(library.cudaStreamEndCapture(stream, ctypes.byref(graph)))
    assert number.value > 0
    return status.value


def advise() -> int:
    """cudaMemAdvise(), where from CUDA 13 a device is a location: its kind in the low half of a register."""
    memory = ctypes.c_void_p()
    checked(library.cudaMallocManaged(ctypes.byref(memory), ctypes.c_size_t(4096), 1))
    where = ctypes.c_ulonglong(1) if major >= 13 else ctypes.c_int(0)
    return int(library.cudaMemAdvise(memory, ctypes.c_size_t(4096), 1, where))


def versions() -> list[int]:
    values = ctypes.c_int(), ctypes.c_int()
    checked(library.cudaRuntimeGetVersion(ctypes.byref(values[0])))
    checked(library.cudaDriverGetVersion(ctypes.byref(values[1])))
    return [value.value for value in values]


keep: list[object] = []
function = register()
device_memory = ctypes.c_void_p()
checked(library.cudaMalloc(ctypes.byref(device_memory), ctypes.c_size_t(128)))
object_ = texture(device_memory)
structs = {
    "cudaGetDeviceProperties": written(lambda buffer: library.cudaGetDeviceProperties(buffer, 0)),
    "cudaGetDeviceProperties_v2": written(lambda buffer: library.cudaGetDeviceProperties_v2(buffer, 0)),
    "cudaFuncGetAttributes": written(lambda buffer: library.cudaFuncGetAttributes(buffer, function)),
    "cudaPointerGetAttributes": written(lambda buffer: library.cudaPointerGetAttributes(buffer, device_memory)),
    "cudaGetTextureObjectTextureDesc": written(lambda buffer: library.cudaGetTextureObjectTextureDesc(buffer, object_)),
    "cudaGetTextureObjectResourceDesc": written(
        lambda buffer: library.cudaGetTextureObjectResourceDesc(buffer, object_)
    ),
}
answers = {
    "structs": {name: data.hex() for name, data in structs.items()},
    "versions": versions(),
    "edges": edges(),
    "capture_status": capture_status(),
    "advise": advise(),
}
sys.stdout.write(json.dumps(answers) + "\n")
