"""Calls of built-in functions on the CUDA engine, whose kernels run on the software GPU in the fake driver's memory."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.fakes import cuda_cubin
from tests.fakes.cuda_driver import FakeDriver, Outside
from tests.unit import builtins_rig, cpu_rig
from tests.unit.cuda_builtins_rig import Side
from tests.unit.cuda_rig import CUDA_LIMITS, MIB, NO_LIBRARIES, CHalf, Libraries, fake_driver, plane
from tests.unit.plane_rig import Rig
from vhost_backend._dataplane import ffi, lib
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol.protocol import HostProgram, Program
from virtio_proto.schema import Opcode, Status

ONE: Final = {"grid": [1, 1, 1], "block": [1, 1, 1]}
LIMITS: Final = replace(CUDA_LIMITS, memory_bytes=64 * MIB)


@dataclass
class Bench:
    """A running data plane with the engine in it, and a context. The modules come when the test says so."""

    rig: Rig
    driver: FakeDriver
    side: Side
    context: int = field(init=False)

    def __post_init__(self) -> None:
        self.context = self.rig.context()
        self._loaded: set[str] = set()
        self.ids = {str(ffi.string(kernel.name), "ascii"): number for number, kernel in self.rig.plane.builtins()}

    def image(self, module: str) -> bytes:
        """An image for the fake driver with the module's kernels."""
        kernels = {name: (found.param_bytes,) for name, found in self.side.kernels(module).items()}
        image = cuda_cubin.cubin([cuda_cubin.Kernel(name, sizes) for name, sizes in kernels.items()])
        assert isinstance(self.rig.engine, CHalf)
        self.rig.engine.images[image] = kernels
        return image

    def asked(self) -> HostProgram:
        """The worker's next request to the daemon for a module."""
        if not self.rig.said:
            self.rig.serve_cold()
        message = self.rig.said.pop(0)
        assert isinstance(message, HostProgram)
        return message

    def answer(self, asked: HostProgram, *, ok: bool = True, log: str = "") -> None:
        """Plays the daemon."""
        fds = (memfd.sealed("image", self.image(asked.name)),) if ok else ()
        self.rig.server.on_program(Program(0, asked.request, ok, log, len(log), False), fds)
        self.rig.settle()

    def launch(self, name: str, params: bytes, *, stream: int = 0, context: int = 0) -> Any:
        """Submits a launch without waiting for it."""
        body = {"function": self.ids[name], "param_len": len(params), **ONE}
        within = context or self.context
        return self.rig.driver.submit(Opcode.LAUNCH, body, params, writable_len=1024, context=within, stream=stream)

    def reply(self, pending: Any) -> tuple[Status, str]:
        reply = self.rig.driver.wait(pending)
        return reply.status, reply.text

    def put(self, content: bytes) -> int:
        address = self.rig.alloc(self.context, max(len(content), 1))
        if content:
            body = {"dst": address, "size": len(content)}
            self.rig.ok(Opcode.COPY_IN, body, context=self.context, payload_in=content)
        return address

    def get(self, address: int, size: int) -> bytes:
        reply = self.rig.ok(Opcode.COPY_OUT, {"src": address, "size": size}, context=self.context, writable_len=size)
        return reply.payload

    def run(self, builtin: Any, block: Any, _pes: int = 3, _seed: int = 0) -> None:
        """A checked call of `builtins_rig`, with copies of its arrays in device memory."""
        raw = ffi.buffer(ffi.cast("uint8_t *", int(builtins_rig.ffi.cast("uintptr_t", block))), builtin.param_bytes)
        params, places = bytearray(raw), []
        for address, size, number in builtins_rig.check(builtin, block):
            there = self.put(ctypes.string_at(address, size))
            places.append((address, there, size, builtin.params[number].use))
            offset = builtin.params[number].offset
            shift = struct.unpack_from("<Q", params, offset)[0] - address
            struct.pack_into("<Q", params, offset, there + shift)
        pending = self.launch(builtins_rig.text(builtin.name), bytes(params))
        if self.needs(builtin):
            self.answer(self.asked())
        status, text = self.reply(pending)
        for address, there, size, use in places:
            if use != builtins_rig.USE_IN and size:
                ctypes.memmove(address, self.get(there, size), size)
            self.rig.ok(Opcode.FREE, {"address": there}, context=self.context)
        if status is Status.INVALID_ARGUMENT:
            raise builtins_rig.FailedError(text.partition(": ")[2])
        assert status is Status.OK, text

    def needs(self, builtin: Any) -> bool:
        """True if this is the first call of a function of its module."""
        module = builtins_rig.text(builtin.name).partition(".")[0]
        is_new = module not in self._loaded and module not in ("cublas", "cudnn", "cufft")  # these have no kernels
        self._loaded.add(module)
        return is_new


@contextmanager
def bench(
    memory_bytes: int = LIMITS.memory_bytes, *, outside: bool = True, libraries: Libraries = NO_LIBRARIES
) -> Iterator[Bench]:
    """`outside`: kernels run on the software GPU; otherwise those that the fake driver has are C functions."""
    lock = threading.Lock()
    limits = replace(LIMITS, memory_bytes=memory_bytes)
    with cpu_rig.rig(2) as engine:
        side = Side(engine)

        def run(launch: Outside) -> None:
            with lock:
                side.launch_kernel(launch.kernel, launch.blocks, launch.threads, launch.shared_bytes, launch.params)

        with fake_driver() as driver:
            driver.run_outside(run if outside else None)
            try:
                with plane(driver, limits, lib.VGC_CUDA_MEMORY, libraries=libraries) as rig:
                    try:
                        yield Bench(rig, driver, side)
                    finally:
                        driver.go_on()
            finally:
                driver.run_outside(None)


def params_of(name: str, **values: float) -> bytes:
    """Parameter block of a call of a function."""
    builtin = builtins_rig.named(name)
    return bytes(builtins_rig.ffi.buffer(builtins_rig.pack(builtin, values)))[: builtin.param_bytes]
