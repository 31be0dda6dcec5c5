"""The rig of the CPU engine's tests, on a GPU: the same test bodies, the whole stack below them.

Arrays are numpy arrays in this process; every launch takes them all to the device before and back after.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

import guest_driver as vgc
from guest_driver._lib import check, ffi, lib
from tests.unit.cpu_rig import Shape
from virtio_proto.schema import LIMITS

SOURCE: Final = Path(__file__).resolve().parents[1] / "unit" / "cpu_features.cu"
NOT_FOR_GPUS: Final = ("x86_assembly", "illegal", "divide")
"""Kernels of the source that are x86 assembly."""

PRELUDE: Final = """#include <assert.h>
#include <stdio.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
static __device__ unsigned long long __globaltimer()
{
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}
"""
"""Names that the CPU engine's headers always have; CUDA has them in further headers, or not at all."""

Array = np.ndarray[Any, Any]


def features() -> str:
    """The source ``cpu_features.cu``, changed so that NVIDIA's compilers take it."""
    text = SOURCE.read_text()
    for kernel in NOT_FOR_GPUS:
        text = re.sub(
            rf"^EXPORT {kernel}\(.*?\}}\n(?=\n|EXPORT|__device__|//)", "", text, flags=re.DOTALL | re.MULTILINE
        )
    return f"{PRELUDE}#line 1\n{text}"


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """Facts about a kernel that tests ask for."""

    name: str
    params: tuple[tuple[int, int], ...]
    param_bytes: int
    shared_bytes: int
    max_threads: int


class GpuRig:
    """Stands in for `tests.unit.cpu_rig.Rig`."""

    def __init__(self, dev: vgc.Device, output: io.StringIO, source: str) -> None:
        self._dev, self._output = dev, output
        self._program = dev.compile(source)
        self._arrays: list[tuple[Array, vgc.DeviceArray]] = []
        self._variables: dict[str, tuple[Array, int]] = {}
        self.engine = SimpleNamespace(num_pes=dev.info().processing_elements)
        self.functions: dict[str, FunctionFacts] = {}
        for short_name in self._program:
            function = self._program[short_name]
            facts = FunctionFacts(
                function.linker_name,
                tuple((param.offset, param.size) for param in function.params),
                function.param_bytes,
                function.shared_bytes,
                function.max_threads,
            )
            self.functions[short_name] = self.functions[facts.name] = facts

    def array(self, shape: Shape, dtype: Any, values: Any = 0) -> Array:
        made = np.zeros(shape, dtype)
        made[...] = values
        self._arrays.append((made, self._dev.empty(made.shape, made.dtype)))
        return made

    def variable(self, name: str) -> Array:
        if name not in self._variables:
            found = self._program.variable(name)
            self._variables[name] = (np.zeros(found.size_bytes, np.uint8), found.address)
            self._copy_out(*self._variables[name])
        return self._variables[name][0]

    def launch(self, name: str, grid: Shape, block: Shape, *args: Any, shared: int = 0) -> None:
        """Runs a kernel to its end; raises the exceptions of the guest's library."""
        for here, there in self._arrays:
            there.set(here)
        self._variables_in()
        values = [self._address(argument) for argument in args]
        self._program[name].launch(grid, block, *values, shared_bytes=shared)
        for here, there in self._arrays:
            there.get(here)
        self._variables_out()

    def take_output(self, room: int = LIMITS["MAX_OUTPUT_BYTES"], context: int = 1) -> tuple[str, int, int]:
        """Output of kernels since the last call. The guest's library takes all output, without counts per context."""
        assert room >= LIMITS["MAX_OUTPUT_BYTES"]
        printed = self._output.getvalue() if context == 1 else ""
        if context == 1:
            self._output.seek(0)
            self._output.truncate()
        return printed, 0, 0

    def forget(self) -> None:
        """Frees the arrays and programs that a test made."""
        for _, there in self._arrays:
            there.free()
        self._arrays.clear()

    def _address(self, argument: Any) -> Any:
        if not isinstance(argument, np.ndarray):
            return argument
        for here, there in self._arrays:
            if np.shares_memory(here, argument):
                return there.address + argument.ctypes.data - here.ctypes.data
        raise LookupError("an array that the rig has not made")

    def _variables_in(self) -> None:
        for data, address in self._variables.values():
            check(lib.vgc_copy_in(self._pointer, address, ffi.from_buffer(data), data.nbytes, 0, ffi.NULL))

    def _variables_out(self) -> None:
        for data, address in self._variables.values():
            self._copy_out(data, address)

    def _copy_out(self, data: Array, address: int) -> None:
        check(lib.vgc_copy_out(self._pointer, ffi.from_buffer(data), address, data.nbytes, 0, ffi.NULL))

    @property
    def _pointer(self) -> Any:
        return self._dev._handle.pointer
