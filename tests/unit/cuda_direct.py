"""The CUDA engine's C half without a data plane: its operations are submitted and polled from the test's thread."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fakes.cuda_driver import FakeDriver
from tests.unit.cuda_rig import IMAGE, MIB, CHalf, fake_driver
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import FunctionInfo, LoadedProgram
from vhost_backend.sandbox import memfd
from virtio_proto.schema import Status


class Direct:
    """Submits operations and collects what is finished, as the data plane does."""

    def __init__(self, driver: FakeDriver, engine: CHalf) -> None:
        self.driver, self.engine, self.handle = driver, engine, engine.handle
        self.finished: list[Any] = []
        self.programs: list[LoadedProgram] = []
        self.functions: dict[tuple[int, str], FunctionInfo] = {}
        self._kept: list[Any] = []
        self._allocations: list[int] = []

    def load(self, context: int = 1) -> LoadedProgram:
        """Loads the fake's kernels for a context; the engine must not be entered."""
        program = self.load_image(IMAGE, context)
        self.functions |= {(context, function.name): function for function in program.functions}
        return program

    def load_image(self, image: bytes, context: int = 1) -> LoadedProgram:
        fd = memfd.sealed("image", image)
        try:
            program = self.engine.load_program(fd, len(image), context)
        finally:
            os.close(fd)
        self.programs.append(program)
        self.engine.provide(program)
        return program

    def pause(self) -> bool:
        """Asks for a pause; True if it is granted."""
        with self.left():
            granted = self.engine.pause()
        self._take_finished()
        return granted

    def resume(self) -> None:
        with self.left():
            self.engine.resume()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leaves the engine while the body runs, for calls that enter it themselves."""
        lib.vgc_engine_leave(self.handle)
        try:
            yield
        finally:
            lib.vgc_engine_enter(self.handle)

    # ---- memory ----------------------------------------------------------------------------------

    def alloc(self, size: int) -> int:
        address = ffi.new("uint64_t *")
        assert self.handle.ops.alloc(self.handle, size, address) == 0
        self._allocations.append(address[0])
        return int(address[0])

    def map_region(self, memory: Any) -> int:
        """Registers the region; returns its device address, or 0 if it has none."""
        address = ffi.new("uint64_t *")
        host = ffi.NULL if memory is None else ffi.from_buffer("uint8_t[]", memory)
        size = 0 if memory is None else len(memory)
        assert self.handle.ops.map_region(self.handle, host, size, address) == 0
        return int(address[0])

    # ---- operations ------------------------------------------------------------------------------

    def submit(self, op: Any, *keep: Any, context: int = 1, stream: int = 0) -> Any:
        op.context, op.stream = context, stream
        self._kept.append((op, keep))
        if self.handle.ops.submit(self.handle, op) == lib.VGC_DONE:
            self.finished.append(op)
        return op

    def op(self, kind: int, *, context: int = 1, stream: int = 0, **fields: int) -> Any:
        op = ffi.new("struct vgc_op *", fields | {"kind": kind})
        return self.submit(op, context=context, stream=stream)

    def launch(self, name: str, params: bytes = b"", *, context: int = 1, stream: int = 0, **fields: Any) -> Any:
        block = ffi.new("uint8_t[]", params or b"\0")
        function = self.functions[context, name]
        geometry = {"grid": [1, 1, 1], "block": [1, 1, 1]} | fields
        op = ffi.new("struct vgc_op *", {"kind": lib.VGC_OPK_LAUNCH} | geometry)
        op.kernel, op.params, op.param_len = function.kernel, block, len(params)
        return self.submit(op, block, context=context, stream=stream)

    def add_one(self, address: int, count: int, **where: int) -> Any:
        return self.launch("add_one", struct.pack("<QI", address, count), **where)

    def copy(self, kind: int, address: int, memory: Any, pieces: int = 1, **where: int) -> Any:
        """A copy between device memory and a writable buffer, cut into spans of odd lengths."""
        size = len(memory)
        base = ffi.from_buffer("uint8_t[]", memory)
        ends = [size * (i + 1) // pieces for i in range(pieces)]
        spans = ffi.new("struct vgc_span[]", pieces)
        for span, start, end in zip(spans, [0, *ends], ends, strict=False):
            span.base, span.len = base + start, end - start
        op = ffi.new("struct vgc_op *", {"kind": kind, "dst": address, "src": address, "size": size})
        op.spans, op.num_spans = spans, pieces
        return self.submit(op, spans, base, memory, **where)

    def record(self, event: int, **where: int) -> Any:
        return self.op(lib.VGC_OPK_EVENT_RECORD, value=event, **where)

    def await_event(self, event: int, **where: int) -> Any:
        return self.op(lib.VGC_OPK_EVENT_WAIT, value=event, **where)

    def fill(self, address: int, size: int, value: int, unit: int = 1, **where: int) -> Any:
        return self.op(lib.VGC_OPK_FILL, dst=address, size=size, value=value, unit=unit, **where)

    def move(self, src: int, dst: int, size: int, **where: int) -> Any:
        return self.op(lib.VGC_OPK_COPY_DEVICE, src=src, dst=dst, size=size, **where)

    # ---- their end -------------------------------------------------------------------------------

    def poll(self) -> bool:
        any_done = bool(self.handle.ops.poll(self.handle))
        self._take_finished()
        return any_done

    def _take_finished(self) -> None:
        op = lib.vgc_engine_take_finished(self.handle)
        while op != ffi.NULL:
            assert op not in self.finished, "an operation was finished twice"
            self.finished.append(op)
            op = op.next

    def is_done(self, *ops: Any) -> bool:
        return all(op in self.finished for op in ops)

    def wait(self, *ops: Any, status: Status = Status.OK) -> None:
        """Polls until the operations are done; all must have ended with `status`."""
        self._finish(*ops)
        assert [Status(op.status) for op in ops] == [status] * len(ops), [text(op) for op in ops]

    def _finish(self, *ops: Any) -> None:
        def are_done() -> bool:
            if not self.is_done(*ops):
                self.poll()
            return self.is_done(*ops)

        until(are_done)

    def end(self) -> None:
        """Waits for the end of all work, and frees all memory."""
        self.driver.go_on()
        self.driver.release()
        self._finish(*(op for op, _ in self._kept))
        self.map_region(None)
        for address in self._allocations:
            assert self.handle.ops.free(self.handle, address, 1) == 0

    def read(self, address: int, size: int) -> bytes:
        """Reads device memory by a copy in stream 63."""
        memory = bytearray(size)
        self.wait(self.copy(lib.VGC_OPK_COPY_OUT, address, memory, stream=63))
        return bytes(memory)

    def take_output(self, context: int = 1, room: int = 1 << 17) -> tuple[str, int, int]:
        """Takes printed text: the text, bytes of text that remain, and bytes that were lost."""
        to, left, lost = ffi.new("char[]", room), ffi.new("uint32_t *"), ffi.new("uint64_t *")
        size = self.handle.ops.take_output(self.handle, context, to, room, left, lost)
        return bytes(ffi.buffer(to, size)).decode(), int(left[0]), int(lost[0])

    def nap_ns(self, now_ns: int) -> int:
        return int(self.handle.ops.nap_ns(self.handle, now_ns))


def text(op: Any) -> str:
    """The operation's error text."""
    return bytes(ffi.string(op.error)).decode()


@contextmanager
def direct(
    *settings: str,
    completion: int = lib.VGC_CUDA_MEMORY,
    memory_kind: int = lib.VGC_CUDA_POOL,
    output_fd: int = -1,
    contexts: int = 1,
    stuck_ns: int = 0,
) -> Iterator[Direct]:
    """A started engine that this thread has entered, with the fake's kernels loaded for contexts 1, 2..."""
    with fake_driver(*settings) as driver:
        engine = CHalf(
            driver,
            memory_bytes=64 * MIB,
            completion=completion,
            memory_kind=memory_kind,
            output_fd=output_fd,
            stuck_ns=stuck_ns,
        )
        try:
            engine.start()
            made = Direct(driver, engine)
            for context in range(1, contexts + 1):
                made.load(context)
            lib.vgc_engine_enter(engine.handle)
            try:
                yield made
            finally:
                made.end()
            lib.vgc_engine_leave(engine.handle)
            for program in made.programs:
                engine.unload_program(program)
        finally:
            engine.close()


@contextmanager
def printing(*settings: str, contexts: int = 1) -> Iterator[Direct]:
    """An engine whose kernels print into a file, as in a worker."""
    file, stdout = os.memfd_create("output"), os.dup(1)
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    os.dup2(file, 1)
    try:
        with direct(*settings, output_fd=file, contexts=contexts) as made:
            yield made
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(file)


def hello(count: int) -> str:
    """The text that the kernel `prints` prints."""
    return "".join(f"hello {i}\n" for i in range(count))


@pytest.fixture(params=["words", "events", "mapped"])
def gpu(request: pytest.FixtureRequest) -> Iterator[Direct]:
    """An engine, with each way of detecting the end of work, and with mapped memory."""
    completion = lib.VGC_CUDA_EVENT if request.param == "events" else lib.VGC_CUDA_MEMORY
    memory_kind = lib.VGC_CUDA_MAPPED if request.param == "mapped" else lib.VGC_CUDA_POOL
    with direct(completion=completion, memory_kind=memory_kind) as made:
        yield made


@pytest.fixture
def words() -> Iterator[Direct]:
    with direct() as made:
        yield made
