"""Calls of built-in functions on the CPU engine's library, without an engine: blocks run on threads in mixed order."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import struct
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import cffi
import numpy as np
import pytest

from vhost_backend.engines.cpu.builtins import library
from virtio_proto import codegen

ROOT: Final = Path(__file__).resolve().parents[2]
TABLE_HEADER: Final = ROOT / "vhost_backend/builtins/vgc_builtins.h"
CPU_HEADER: Final = ROOT / "vhost_backend/engines/cpu/builtins/vgc_cpu_builtins.h"
USE_VALUE, USE_IN, USE_OUT, USE_INOUT = range(4)
KIND_FLOAT: Final = 2
GUARD: Final = 256
"""Bytes of a canary before and behind each array, and behind the workspace."""

SMALL: Final = 16 << 10
"""Bytes of scratch memory of calls that need no workspace."""
PES: Final = (1, 3)
Array: TypeAlias = np.ndarray[Any, Any]
DTYPES: Final[dict[str, Any]] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "u32": np.uint32,
    "u64": np.uint64,
    "b8": np.bool_,
}

ffi: Final = cffi.FFI()
ffi.cdef(codegen.declarations(TABLE_HEADER))
ffi.cdef(codegen.declarations(CPU_HEADER))


class RefusedError(Exception):
    """The check refused the call; the text says why."""


class FailedError(Exception):
    """The call failed while it computed."""


@cache
def lib() -> Any:
    """Loads the library, with OpenBLAS."""
    path = library.library()
    if path is None:
        pytest.skip("the CPU engine's built-in functions are not built")
    opened: Any = ffi.dlopen(str(path))
    why = ffi.new("char[256]")
    openblas = library.openblas()
    assert openblas is not None, "scipy-openblas64 is missing"
    assert opened.vgc_cpu_builtins_open(str(openblas).encode(), why) == 0, ffi.string(why)
    return opened


def text(value: Any) -> str:
    """A string of the library's."""
    found = ffi.string(value)
    assert isinstance(found, bytes)
    return found.decode()


def builtins() -> Iterator[Any]:
    """All functions of the table."""
    for index in itertools.count():
        builtin = lib().vgc_builtin_at(index)
        if builtin == ffi.NULL:
            return
        yield builtin


def named(name: str) -> Any:
    builtin = lib().vgc_builtin_named(name.encode(), len(name))
    assert builtin != ffi.NULL, name
    return builtin


@dataclass(frozen=True)
class Param:
    name: str
    offset: int
    size: int
    kind: int
    use: int


def params_of(builtin: Any) -> list[Param]:
    rows = (builtin.params[i] for i in range(builtin.num_params))
    return [Param(text(row.name), row.offset, row.size, row.kind, row.use) for row in rows]


class Buffer:
    """Memory of an array between canaries, at a multiple of 64 bytes plus `shift`.

    `guard` is the number of bytes of a canary. Other processes map what is shared by its descriptor `fd`.
    """

    fd: int

    def __init__(self, content: bytes, shift: int = 0, guard: int = GUARD, *, is_shared: bool = False) -> None:
        size = len(content) + 2 * guard + 64 + shift
        self.memory = self._share(size) if is_shared else np.empty(size, np.uint8)
        self.memory[:] = 0xA5
        self.begin = (-(self.memory.ctypes.data + guard) % 64) + guard + shift
        self.size = len(content)
        self.memory[self.begin : self.begin + self.size] = np.frombuffer(content, dtype=np.uint8)
        self.before = self.memory.copy()

    def _share(self, size: int) -> Array:
        self.fd = os.memfd_create("buffer")
        weakref.finalize(self, os.close, self.fd)
        os.ftruncate(self.fd, size)
        return np.frombuffer(mmap.mmap(self.fd, size), np.uint8)

    @property
    def address(self) -> int:
        return self.memory.ctypes.data + self.begin

    def content(self) -> bytes:
        return self.memory[self.begin : self.begin + self.size].tobytes()

    def check(self, *, written: bool) -> None:
        """The canaries, and the array itself if it is an input, are as they were."""
        now = self.memory.copy()
        if written:
            now[self.begin : self.begin + self.size] = self.before[self.begin : self.begin + self.size]
        assert np.array_equal(now, self.before), "memory outside of the call's ranges was written"


def pack(builtin: Any, values: Mapping[str, int | float]) -> Any:
    """A parameter block; values that are not given are 0."""
    block = ffi.new("uint64_t[]", (builtin.param_bytes + 7) // 8)
    raw = ffi.buffer(block)
    rest = dict(values)
    for param in params_of(builtin):
        value = rest.pop(param.name, 0)
        if param.kind == KIND_FLOAT:
            struct.pack_into("<d", raw, param.offset, float(value))
        else:
            number = int(value) & ((1 << 8 * param.size) - 1)
            raw[param.offset : param.offset + param.size] = number.to_bytes(param.size, "little")
    assert not rest, f"{sorted(rest)} are no parameters"
    return block


def check(builtin: Any, block: Any) -> list[tuple[int, int, int]]:
    """Address, bytes and parameter of what the call accesses.

    :raise RefusedError: the call is not allowed.
    """
    need: Any = ffi.new("struct vgc_builtin_need *")
    why = ffi.new("char[256]")
    if lib().vgc_builtin_check(builtin, block, need, why) != 0:
        reason = text(why)
        assert reason
        raise RefusedError(reason)
    return [(r.address, r.bytes, r.param) for r in need.ranges[0 : need.num_ranges]]


def run(
    builtin: Any, block: Any, pes: int = 3, seed: int = 0, *, after_step: Callable[[int], None] | None = None
) -> None:
    """Plans a checked call and runs its steps; `after_step` gets the index of each step that has ended.

    :raise FailedError: the call says that it failed.
    """
    size = lib().vgc_cpu_builtin_workspace(builtin, block, pes) or SMALL
    workspace = Buffer(random.Random(seed).randbytes(min(size, 4096)) + bytes(max(size - 4096, 0)))
    steps = ffi.new("struct vgc_cpu_step[]", 64)
    pointer = ffi.cast("void *", workspace.address)
    count = lib().vgc_cpu_builtin_plan(builtin, block, pointer, pes, steps)
    assert count <= 64
    order = random.Random(seed)
    with ThreadPoolExecutor(pes) as pool:
        for i in range(count):
            blocks = list(range(steps[i].blocks))
            order.shuffle(blocks)
            list(pool.map(lambda block, step=steps + i: step.run(step, block), blocks))
            if after_step is not None:
                after_step(i)
    workspace.check(written=True)
    failed = lib().vgc_cpu_builtin_failed(pointer)
    if failed != ffi.NULL:
        raise FailedError(text(failed))


def call(name: str, pes: int = 3, /, **values: Any) -> dict[str, Array]:
    """Calls a function: arrays become buffers between canaries. The arrays that were written, by name."""
    builtin = named(name)
    uses = {param.name: param.use for param in params_of(builtin)}
    buffers: dict[str, Buffer] = {}
    numbers: dict[str, int | float] = {}
    for key, value in values.items():
        if isinstance(value, np.ndarray):
            buffers[key] = Buffer(value.tobytes())
            numbers[key] = buffers[key].address
        else:
            numbers[key] = value
    block = pack(builtin, numbers)
    ranges = check(builtin, block)
    for address, size, _ in ranges:
        owner = [b for b in buffers.values() if b.address <= address and address + size <= b.address + b.size]
        assert owner, "the check asks for memory that the call does not need"
    run(builtin, block, pes)
    for key, buffer in buffers.items():
        buffer.check(written=uses[key] in (USE_OUT, USE_INOUT))
    return {
        key: np.frombuffer(buffer.content(), dtype=values[key].dtype).reshape(values[key].shape)
        for key, buffer in buffers.items()
        if uses[key] != USE_IN
    }
