"""The native side: the C functions of ``bench/native/gpu.c`` as a class. One thread opens, uses and closes it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bench.cuda.gpu import Gpu
from bench.driver import nanoseconds
from bench.native.loops import ffi, lib
from bench.results import SkipRow

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
        """``struct vgcb_gpu_op[]``, valid as long as this object."""
        return ffi.new("struct vgcb_gpu_op[]", self._fields)


class NativeGpu:
    """The GPU through its driver. :raise SkipRow: when the driver or the GPU cannot be used."""

    def __init__(self, gpu: Gpu) -> None:
        why = ffi.new("char[]", lib.VGCB_GPU_WHY)
        self._gpu = lib.vgcb_gpu_open(gpu.library.encode(), gpu.index, why)
        if self._gpu == ffi.NULL:
            raise SkipRow(f"the native side cannot open the GPU: {ffi.string(why).decode(errors='replace')}")
        self._modules: list[Any] = []
        self._addresses: list[int] = []
        self._pinned: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees everything. Arrays of :meth:`pinned` must not be touched any more."""
        self.free_all()
        lib.vgcb_gpu_close(self._gpu)

    def free_all(self) -> None:
        """Frees the memory and unloads the programs that there are: a row's end."""
        for module in self._modules:
            self._check(lib.vgcb_gpu_unload(self._gpu, module))
        for address in self._addresses:
            self._check(lib.vgcb_gpu_free(self._gpu, address))
        for host in self._pinned:
            self._check(lib.vgcb_gpu_free_pinned(self._gpu, host))
        self._modules, self._addresses, self._pinned = [], [], []

    def _check(self, code: int) -> None:
        if code != 0:
            raise NativeError(ffi.string(lib.vgcb_gpu_error(self._gpu)).decode(errors="replace"))

    def function(self, image: bytes, name: str) -> Any:
        """A kernel of a compiled image, which stays loaded until :meth:`free_all`."""
        module, function = ffi.new("void **"), ffi.new("void **")
        self._check(lib.vgcb_gpu_load(self._gpu, ffi.from_buffer(image), module))
        self._modules.append(module[0])
        self._check(lib.vgcb_gpu_function(self._gpu, module[0], name.encode(), function))
        return function[0]

    def alloc(self, size: int) -> int:
        address = ffi.new("uint64_t *")
        self._check(lib.vgcb_gpu_alloc(self._gpu, size, address))
        self._addresses.append(int(address[0]))
        return int(address[0])

    def pinned(self, size: int) -> Bytes:
        """Page-locked memory of the host."""
        host = ffi.new("void **")
        self._check(lib.vgcb_gpu_pinned(self._gpu, size, host))
        self._pinned.append(host[0])
        return np.frombuffer(ffi.buffer(host[0], size), np.uint8)

    def round_trips(self, program: Program, count: int = 1) -> npt.NDArray[np.uint64]:
        """Times (ns) of `count` runs of the program, each waited for."""
        ops = program.native()
        times, pointer = nanoseconds(count)
        self._check(lib.vgcb_gpu_round_trips(self._gpu, ops, len(ops), count, pointer))
        return times

    def per_second(self, program: Program, count: int) -> float:
        """Runs of the program per second, `count` of them issued without waiting in between."""
        ops = program.native()
        elapsed = ffi.new("uint64_t *")
        self._check(lib.vgcb_gpu_pipelined(self._gpu, ops, len(ops), count, elapsed))
        return count * 1e9 / float(elapsed[0])
