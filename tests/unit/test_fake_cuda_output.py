"""Output of kernels on the fake CUDA driver: it is flushed by the calls that the programming guide names."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from typing import Self

import pytest

from tests.unit.fake_cuda_rig import ASSERT, INVALID_VALUE, SUCCESS, Rig, bare, fake, rig

__all__ = ["bare", "fake", "rig"]

STACK_LIMIT, PRINTF_LIMIT = 0, 1


class Printed:
    """Captures what the driver writes to stdout (or stderr, 2)."""

    def __init__(self, fd: int = 1) -> None:
        self.file, self._fd = os.memfd_create("printed"), fd
        self._before = os.dup(fd)
        os.dup2(self.file, fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.dup2(self._before, self._fd)
        os.close(self._before)
        os.close(self.file)

    def lines(self) -> int:
        ctypes.CDLL(None).fflush(None)
        return os.pread(self.file, 1 << 22, 0).count(b"\n")

    def first(self) -> bytes:
        ctypes.CDLL(None).fflush(None)
        return os.pread(self.file, 1 << 22, 0).partition(b"\n")[0]


def run(rig: Rig, lines: int) -> None:
    """Runs a kernel that prints, without a call that synchronises."""
    stream = rig.stream()
    rig.launch(rig.kernel("prints"), struct.pack("<I", lines), stream=stream)
    while rig.code("cuStreamQuery", stream) != SUCCESS:
        pass


def launching(rig: Rig) -> Callable[[], object]:
    kernel = rig.kernel("empty")
    return lambda: rig.launch(kernel)


def synchronising(name: str) -> Callable[[Rig], Callable[[], object]]:
    def prepare(rig: Rig) -> Callable[[], object]:
        of = {"cuStreamSynchronize": rig.stream(), "cuEventSynchronize": rig.event()}.get(name)
        return lambda: rig.call(name, *([] if of is None else [of]))

    return prepare


def unloading(rig: Rig) -> Callable[[], object]:
    module = rig.module()
    return lambda: rig.call("cuModuleUnload", module)


BRINGS_TEXT: dict[str, Callable[[Rig], Callable[[], object]]] = {
    "stream": synchronising("cuStreamSynchronize"),
    "event": synchronising("cuEventSynchronize"),
    "context": synchronising("cuCtxSynchronize"),
    "launch": launching,
    "copy in": lambda rig: lambda: rig.write(rig.alloc(4), bytes(4)),
    "copy out": lambda rig: lambda: rig.read(rig.alloc(4), 4),
    "load": lambda rig: rig.module,
    "unload": unloading,
    "end": lambda rig: lambda: rig.call("cuDevicePrimaryCtxRelease_v2", 0),
}
QUIET: dict[str, Callable[[Rig], object]] = {
    "query": lambda rig: rig.call("cuStreamQuery", rig.stream()),
    "event query": lambda rig: rig.call("cuEventQuery", rig.event()),
    "copy": lambda rig: rig.call("cuMemcpyHtoDAsync_v2", rig.alloc(4), bytes(4), 4, rig.stream()),
    "fill": lambda rig: rig.call("cuMemsetD8_v2", rig.alloc(4), 0, 4),
    "write": lambda rig: rig.call("cuStreamWriteValue32_v2", rig.stream(), rig.get("cuMemHostAlloc", 64, 0), 1, 0),
    "limit": lambda rig: rig.call("cuCtxSetLimit", STACK_LIMIT, 2048),
    "destroyed stream": lambda rig: rig.call("cuStreamDestroy_v2", rig.stream()),
}


@pytest.mark.parametrize("prepare", BRINGS_TEXT.values(), ids=BRINGS_TEXT)
def test_text_is_flushed_by_documented_calls(rig: Rig, prepare: Callable[[Rig], Callable[[], object]]) -> None:
    call = prepare(rig)
    with Printed() as printed:
        run(rig, 1)
        assert printed.lines() == 0
        call()
        assert printed.lines() == 1


@pytest.mark.parametrize("call", QUIET.values(), ids=QUIET)
def test_text_is_not_flushed_by_other_calls(rig: Rig, call: Callable[[Rig], object]) -> None:
    with Printed() as printed:
        run(rig, 1)
        call(rig)
        assert printed.lines() == 0
        rig.call("cuCtxSynchronize")
        assert printed.lines() == 1


def test_the_oldest_text_is_lost_line_by_line(rig: Rig) -> None:
    rig.call("cuCtxSetLimit", PRINTF_LIMIT, 35)
    with Printed() as printed:
        run(rig, 10)  # of 8 bytes each
        rig.call("cuCtxSynchronize")
        assert (printed.lines(), printed.first()) == (4, b"hello 6")


def test_the_buffers_size_is_fixed_by_the_first_kernel_that_prints(rig: Rig) -> None:
    rig.call("cuCtxSetLimit", PRINTF_LIMIT, 1 << 20)
    with Printed():
        run(rig, 1)
        assert rig.code("cuCtxSetLimit", PRINTF_LIMIT, 1 << 21) == INVALID_VALUE


def failed(rig: Rig) -> int:
    """A stream in which a kernel's assertion has failed, according to a query."""
    stream = rig.stream()
    rig.launch(rig.kernel("fails"), stream=stream)
    while rig.code("cuStreamQuery", stream) != ASSERT:
        pass
    return stream


@pytest.mark.parametrize("name", ["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"])
def test_an_assertions_text_is_flushed_once_by_a_synchronising_call(rig: Rig, name: str) -> None:
    """An earlier query that returned the error does not suppress the text (assumed)."""
    event = rig.event()
    with Printed(2) as printed:
        stream = failed(rig)
        of = {"cuStreamSynchronize": [stream], "cuEventSynchronize": [event], "cuCtxSynchronize": []}[name]
        assert printed.lines() == 0
        assert [rig.code(name, *of) for _ in range(2)] == [ASSERT] * 2
        assert printed.lines() == 1
        assert printed.first().startswith(b"source.cu:20: void fails()")


@pytest.mark.parametrize("name", ["cuStreamQuery", "cuStreamDestroy_v2"])
def test_an_assertions_text_is_not_flushed_by_other_calls(rig: Rig, name: str) -> None:
    with Printed(2) as printed:
        stream = failed(rig)
        assert rig.code(name, stream) == ASSERT
        assert printed.lines() == 0
