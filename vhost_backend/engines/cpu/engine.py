"""Python half of the CPU engine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import (
    Buffer,
    CodeRange,
    CompileJob,
    Engine,
    EngineOptions,
    FunctionInfo,
    GlobalInfo,
    HostView,
    LoadedProgram,
    ProgramError,
    ProgramPlace,
    WorkerNeeds,
)
from vhost_backend.engines.cpu import cccl, toolchain
from vhost_backend.engines.cpu.builtins import library
from vhost_backend.errors import EngineError

_OPTIONS: Final = frozenset({"guard_pages", "perf_maps"})
_PAGE_BYTES: Final = 4096
_BESIDE: Final = 4
"""Part of the quota that may be mapped beside allocations: their ends (memory.c), and what granules cannot give."""
_BESIDE_BYTES: Final = 16 << 20
_OPENBLAS_BYTES: Final = 33 << 20
"""Private memory of OpenBLAS for each thread that multiplies matrices; a part of it is touched."""
_REGISTERS: Final = 32
"""Registers of a thread, for programs that compute occupancy: x86-64 has 16, AVX2 another 16."""
_FUNCTION_BYTES: Final = 1024
"""Bytes that the worker keeps for a function, besides its parameters and names."""
_PARAM_BYTES: Final = 256
_VARIABLE_BYTES: Final = 512


def _processor() -> str:
    """Name of the processor, for people."""
    brand = ffi.new("char[]", lib.VGC_CPU_BRAND)
    lib.vgc_cpu_brand(brand)
    text = bytes(ffi.buffer(brand)).split(b"\0")[0]
    return text.decode(errors="replace").strip() or "unknown processor"


class CpuEngine(Engine):
    """Engine that runs blocks on threads of this process.

    Its options are `perf_maps`, which names kernels' code, and `guard_pages`, by which kernels that reach beyond an
    allocation fault; a VM's other options are for the compiler.
    """

    kind: ClassVar[str] = "cpu"

    def __init__(self, pes: int, memory_bytes: int = 0, *, names_code: bool = False, guard_pages: bool = False) -> None:
        """`memory_bytes` is the VM's quota, of which its limits inside a sandbox depend."""
        self.num_pes = pes
        self._beside_bytes = 0 if guard_pages else memory_bytes // _BESIDE + _BESIDE_BYTES
        self.names_code = names_code
        self.features = (
            lib.VGC_F_CALL | lib.VGC_F_EVENTS | lib.VGC_F_REGION_ADDRESS | lib.VGC_F_TEXTURES | lib.VGC_F_GRAPHS
        )
        self.name = f"CPU, {pes} PEs: {_processor()}"[:63]
        self._why = ffi.new("char[]", lib.VGC_CPU_WHY)
        self.handle = lib.vgc_cpu_engine_new(pes, guard_pages, self._why)
        if self.handle == ffi.NULL:
            raise EngineError(f"cpu engine: {self._reason()}")
        self.missing_builtins = self._load_builtins()

    def _load_builtins(self) -> str:
        own, openblas = library.library(), library.openblas()
        if own is None:
            return "they were not built"
        loaded = lib.vgc_cpu_builtins_load(self.handle, str(own).encode(), str(openblas or "").encode(), self._why)
        return library.NO_OPENBLAS if openblas is None else self._reason() if loaded != 0 else ""

    @classmethod
    def open(cls, options: EngineOptions, pes: int, memory_bytes: int, deadline_ns: int) -> Self:  # noqa: ARG003  the data plane enforces it
        if others := options.keys() - _OPTIONS:
            raise EngineError(
                f"the cpu engine has the options {', '.join(sorted(_OPTIONS))}, but got {', '.join(sorted(others))}"
            )
        return cls(
            pes,
            memory_bytes,
            names_code=options.get("perf_maps") is True,
            guard_pages=options.get("guard_pages") is True,
        )

    @staticmethod
    def view(options: EngineOptions) -> HostView:  # noqa: ARG004  the same for all
        return HostView(pe_memory_bytes=_OPENBLAS_BYTES)

    def start(self) -> None:
        """Starts the processing elements.

        :raise EngineError: the host has no threads or memory for them.
        """
        if lib.vgc_cpu_engine_start(self.handle, self._why) != 0:
            raise EngineError(f"cpu engine: {self._reason()}")

    @property
    def needs(self) -> WorkerNeeds:
        return WorkerNeeds(private_bytes=self._beside_bytes + self.num_pes * _OPENBLAS_BYTES)

    def image_bytes(self, image_fd: int, size: int) -> int:
        return self._measured(lib.vgc_cpu_image_bytes(image_fd, size, self._why))

    def migrated_bytes(self, image: bytes) -> int:
        return self._measured(lib.vgc_cpu_image_bytes_of(ffi.from_buffer(image), len(image), self._why))

    def _measured(self, measured: int) -> int:
        """The number itself. :raise ProgramError: it is 0: the image is broken."""
        if measured == 0:
            raise ProgramError(self._reason())
        return measured

    def load_program(self, image_fd: int, size: int, context: int) -> LoadedProgram:
        program = lib.vgc_cpu_program_load(self.handle, image_fd, size, context, self._why)
        return self._loaded(program)

    def _loaded(self, program: Any) -> LoadedProgram:
        """Describes a program that C has loaded.

        :raise ProgramError: `program` is NULL: loading failed.
        """
        if program == ffi.NULL:
            raise ProgramError(self._reason())
        functions = tuple(_function(program, index) for index in range(lib.vgc_cpu_program_num_kernels(program)))
        variables = tuple(_global(program, index) for index in range(lib.vgc_cpu_program_num_globals(program)))
        charged = int(lib.vgc_cpu_program_bytes(program)) + _table_bytes(functions, variables)
        constant_bytes = int(lib.vgc_cpu_program_constant_bytes(program))
        return LoadedProgram(functions, variables, program, charged, constant_bytes)

    def unload_program(self, program: LoadedProgram) -> None:
        lib.vgc_cpu_program_unload(program.private)

    def code_of(self, program: LoadedProgram, most: int) -> tuple[CodeRange, ...]:
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        name = ffi.new("char[]", lib.VGC_CPU_FUNCTION_NAME)
        found: list[CodeRange] = []
        for index in itertools.count():
            kind = lib.vgc_cpu_program_function(program.private, index, address, size, name)
            if not self.names_code or kind < 0 or len(found) == most:
                return tuple(found)
            if kind > 0:
                found.append(CodeRange(int(address[0]), int(size[0]), _text(name)))
        raise AssertionError  # not reached

    def program_place(self, program: LoadedProgram) -> ProgramPlace:
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        writable: list[tuple[int, int]] = []
        while lib.vgc_cpu_program_writable(program.private, len(writable), address, size):
            writable.append((int(address[0]), int(size[0])))
        return ProgramPlace(int(lib.vgc_cpu_program_base(program.private)), tuple(writable))

    def program_image(self, program: LoadedProgram) -> Buffer:
        size = ffi.new("uint64_t *")
        return memoryview(ffi.buffer(lib.vgc_cpu_program_image(program.private, size), size[0]))

    def load_program_at(self, image: bytes, context: int, base: int) -> LoadedProgram:
        view = ffi.from_buffer(image)
        return self._loaded(lib.vgc_cpu_program_load_at(self.handle, view, len(image), context, base, self._why))

    def settle_program(self, program: LoadedProgram) -> None:
        if lib.vgc_cpu_program_settle(program.private, self._why) != 0:
            raise ProgramError(self._reason())

    def load_firmware(self, image_fd: int, size: int, slot: int, version: int) -> None:
        why = ffi.new("char[]", lib.VGC_CPU_WHY)  # `_why` belongs to the main thread
        if lib.vgc_cpu_firmware_load(self.handle, image_fd, size, slot, version, why) != 0:
            raise EngineError(_text(why))

    def close(self) -> None:
        if self.handle != ffi.NULL:
            lib.vgc_cpu_engine_close(self.handle)
            self.handle = ffi.NULL

    @staticmethod
    def compile_job(
        kind: str,
        source: bytes,
        options: tuple[str, ...],
        settings: Mapping[str, str],
    ) -> CompileJob:
        if kind not in toolchain.INPUTS:
            raise ValueError(f"the cpu engine does not compile {kind}; allowed: {', '.join(toolchain.INPUTS)}")
        libraries, lockstep = settings.get("cccl", cccl.AUTO), settings.get("lockstep") == "on"
        symbols = settings.get("symbols") == "on"
        return toolchain.compile_job(options, source, libraries, lockstep=lockstep, symbols=symbols, kind=kind)

    def _reason(self) -> str:
        return _text(self._why)


def _table_bytes(functions: tuple[FunctionInfo, ...], variables: tuple[GlobalInfo, ...]) -> int:
    """Bytes, in whole pages, of what the worker itself keeps for functions and variables; names are kept several times."""
    params = sum(len(function.params) for function in functions)
    texts = sum(len(function.name) + len(function.short_name) for function in functions)
    texts += sum(len(variable.name) for variable in variables)
    tables = len(functions) * _FUNCTION_BYTES + params * _PARAM_BYTES + len(variables) * _VARIABLE_BYTES + 4 * texts
    return -(-tables // _PAGE_BYTES) * _PAGE_BYTES


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer), errors="replace")


def _function(program: Any, index: int) -> FunctionInfo:
    kernel = lib.vgc_cpu_program_kernel(program, index)
    params = tuple((kernel.params[i].offset, kernel.params[i].size) for i in range(kernel.num_params))
    return FunctionInfo(
        name=_text(kernel.name),
        short_name=_text(lib.vgc_cpu_program_short_name(program, index)),
        params=params,
        param_bytes=kernel.param_bytes,
        shared_bytes=kernel.shared_bytes,
        max_threads=kernel.max_threads,
        kernel=kernel,
        param_kinds=tuple(kernel.params[i].kind for i in range(kernel.num_params)),
        num_registers=_REGISTERS,
        local_bytes=kernel.local_bytes,
    )


def _global(program: Any, index: int) -> GlobalInfo:
    address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    name = lib.vgc_cpu_program_global(program, index, address, size)
    return GlobalInfo(_text(name), address[0], size[0])
