"""Native side: the C functions of ``bench/native/gpu.c`` as a class. One thread opens, uses and closes it."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bench.cuda.gpu import Gpu
from bench.driver import nanoseconds
from bench.native.loops import ffi, lib
from bench.results import SkipRow
from vhost_backend.engines.cuda.driver import ENVIRONMENT

Bytes = npt.NDArray[np.uint8]


class NativeError(Exception):
    """The driver refused a call; the text names the call and the error."""


class Program:
    """Operations prepared for :class:`NativeGpu`, one after the other in a stream; owns their arguments."""

    def __init__(self) -> None:
        self._fields: list[dict[str, Any]] = []
        self._kept: list[Any] = []

    def copy_in(self, device: int, host: Bytes) -> Self:
        return self._copy(lib.VGCB_GPU_COPY_IN, device, host)

    def copy_out(self, device: int, host: Bytes) -> Self:
        return self._copy(lib.VGCB_GPU_COPY_OUT, device, host)

    def _copy(self, kind: int, device: int, host: Bytes) -> Self:
        pointer = ffi.cast("void *", host.ctypes.data)
        self._kept.append(host)
        self._fields.append({"kind": kind, "device": device, "host": pointer, "size": host.nbytes})
        return self

    def launch(self, function: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[bytes] = ()) -> Self:
        values = [ffi.new("char[]", value) for value in arguments]
        params = ffi.new("void *[]", values)
        self._kept += [values, params]
        self._fields.append(
            {
                "kind": lib.VGCB_GPU_LAUNCH,
                "function": function,
                "grid": [*grid, 1, 1][:3],
                "block": [*block, 1, 1][:3],
                "params": params,
            }
        )
        return self

    def native(self) -> Any:
        """Makes a ``struct vgcb_gpu_op[]``, valid during the life of this object."""
        return ffi.new("struct vgcb_gpu_op[]", self._fields)


class NativeGpu:
    """GPU, used through its driver in the environment that workers have.

    :raise SkipRow: the driver or the GPU cannot be used.
    """

    def __init__(self, gpu: Gpu) -> None:
        os.environ.update(ENVIRONMENT)  # the driver reads it when it starts
        why = ffi.new("char[]", lib.VGCB_GPU_WHY)
        self._gpu = lib.vgcb_gpu_open(gpu.library.encode(), gpu.uuid.encode(), why)
        if self._gpu == ffi.NULL:
            raise SkipRow(f"the native side cannot open the GPU: {ffi.string(why).decode(errors='replace')}")
        self._rows = ExitStack()
        self._kept = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees everything. Arrays in the host's memory must not be used any more."""
        try:
            self.free_all()
            self._kept.close()
        finally:
            lib.vgcb_gpu_close(self._gpu)

    def free_all(self) -> None:
        """Frees all memory and unloads all programs, at the end of a row."""
        self._rows.close()

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keeps memory and programs that are made in the block until :meth:`close`."""
        of_row, self._rows = self._rows, ExitStack()
        try:
            yield
        finally:
            self._kept.callback(self._rows.close)
            self._rows = of_row

    def _free_with(self, function: Any, handle: Any) -> None:
        """Registers a call of `function` with `handle` for the end of the row."""
        self._rows.callback(lambda: self._check(function(self._gpu, handle)))

    def _check(self, code: int) -> None:
        if code != 0:
            raise NativeError(ffi.string(lib.vgcb_gpu_error(self._gpu)).decode(errors="replace"))

    def function(self, image: bytes, name: str) -> Any:
        """Loads a compiled image, until :meth:`free_all`; returns one of its kernels."""
        module, function = ffi.new("void **"), ffi.new("void **")
        self._check(lib.vgcb_gpu_load(self._gpu, ffi.from_buffer(image), module))
        self._free_with(lib.vgcb_gpu_unload, module[0])
        self._check(lib.vgcb_gpu_function(self._gpu, module[0], name.encode(), function))
        return function[0]

    def load_ms(self, image: bytes) -> float:
        """Measures one cuModuleLoadData; unloads the module afterwards, unmeasured."""
        module = ffi.new("void **")
        start = time.perf_counter()
        self._check(lib.vgcb_gpu_load(self._gpu, ffi.from_buffer(image), module))
        elapsed = time.perf_counter() - start
        self._check(lib.vgcb_gpu_unload(self._gpu, module[0]))
        return elapsed * 1e3

    def alloc(self, size: int) -> int:
        address = ffi.new("uint64_t *")
        self._check(lib.vgcb_gpu_alloc(self._gpu, size, address))
        self._free_with(lib.vgcb_gpu_free, int(address[0]))
        return int(address[0])

    def pinned(self, size: int) -> Bytes:
        """Allocates page-locked memory from the driver."""
        host = ffi.new("void **")
        self._check(lib.vgcb_gpu_pinned(self._gpu, size, host))
        self._free_with(lib.vgcb_gpu_free_pinned, host[0])
        return np.frombuffer(ffi.buffer(host[0], size), np.uint8)

    def registered(self, size: int) -> Bytes:
        """Allocates a memfd registered with the driver, as a worker registers a VM's region, in pages of 4 KiB."""
        fd = os.memfd_create("vgc-bench-registered", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            host = np.frombuffer(mmap.mmap(fd, size), np.uint8)  # unmapped when the array is collected
        finally:
            os.close(fd)
        pointer = ffi.cast("void *", host.ctypes.data)
        self._check(lib.vgcb_gpu_register(self._gpu, pointer, size))
        self._rows.callback(lambda: self._unregister(host))
        return host

    def _unregister(self, host: Bytes) -> None:
        self._check(lib.vgcb_gpu_unregister(self._gpu, ffi.cast("void *", host.ctypes.data)))

    def round_trips(self, program: Program, count: int = 1) -> npt.NDArray[np.uint64]:
        """Measures `count` runs of the program (ns), waiting for each."""
        ops = program.native()
        times, pointer = nanoseconds(count)
        self._check(lib.vgcb_gpu_round_trips(self._gpu, ops, len(ops), count, pointer))
        return times

    def per_second(self, program: Program, count: int) -> float:
        """Measures runs of the program per second, issuing `count` of them without waiting in between."""
        ops = program.native()
        elapsed = ffi.new("uint64_t *")
        self._check(lib.vgcb_gpu_pipelined(self._gpu, ops, len(ops), count, elapsed))
        return count * 1e9 / float(elapsed[0])
