"""Python half of the CUDA engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import (
    Buffer,
    CompileJob,
    Engine,
    EngineOptions,
    FunctionInfo,
    GlobalInfo,
    HostView,
    LoadedProgram,
    ProgramError,
    ProgramMemoryError,
    WorkerNeeds,
)
from vhost_backend.engines.cuda import cubin, device, host, kinds, partition, table, toolchain
from vhost_backend.engines.cuda.builtins import sources
from vhost_backend.engines.cuda.capture import Capture
from vhost_backend.engines.cuda.cubin import Cubin, CubinError, Hooks, Kernel
from vhost_backend.engines.cuda.driver import Driver, start
from vhost_backend.engines.cuda.kinds import Declared, TrailerError
from vhost_backend.engines.cuda.names import parts, short_name
from vhost_backend.engines.cuda.options import CudaOptions
from vhost_backend.engines.cuda.table import AmbiguousNameError, Named
from vhost_backend.errors import DriverError, EngineError
from vhost_backend.sandbox import memfd
from virtio_proto.schema import Status

_MIB: Final = 1 << 20
_PRINTF_BYTES: Final = _MIB
"""Size of the driver's buffer for text that kernels print; charged for each program that prints."""

_NAME_BYTES: Final = 63


class CudaEngine(Engine):
    """Engine that runs kernels on SMs of a GPU, in a context of this process."""

    kind: ClassVar[str] = "cuda"

    def __init__(self, options: CudaOptions, pes: int, memory_bytes: int) -> None:
        self.handle = ffi.NULL
        self._why = ffi.new("char[]", lib.VGC_CUDA_WHY)
        before = host.open_fds()
        self._heap_bytes = options.heap
        self._gate: tuple[Any, ...] = ()
        self.unseen_programs = 0
        """Number of programs without hooks: binaries of the guest, and sources that could not be compiled with hooks.
        """
        self._memory_bytes = memory_bytes
        driver = start(options.driver, device.visible_name(options.device))
        self._device = device.find(driver, options.device)
        self._partition = partition.take(driver, self._device, pes)
        self._stdout = Capture(1, "cuda-output")
        self._stderr = Capture(2, "cuda-errors")
        self.num_pes = self._partition.given
        self.name = _name(self._device, self.num_pes)
        self.features = lib.VGC_F_CALL | lib.VGC_F_EVENTS | lib.VGC_F_REGION_ADDRESS | lib.VGC_F_GRAPHS
        self.features |= lib.VGC_F_TEXTURES
        if options.binaries:
            self.features |= lib.VGC_F_BINARY_PROGRAMS
        try:
            _set_limits(driver, self._partition.primary, options.heap)
            self._make(driver.library, options)
        except EngineError:
            self.close()
            raise
        self._needs = host.needs(before)

    @classmethod
    def open(cls, options: EngineOptions, pes: int, memory_bytes: int, deadline_ns: int) -> Self:  # noqa: ARG003  the data plane enforces it
        return cls(CudaOptions.parse(options), pes, memory_bytes)

    @staticmethod
    def view(options: EngineOptions) -> HostView:
        return host.view(options)

    @property
    def needs(self) -> WorkerNeeds:
        return self._needs

    @property
    def control_pes(self) -> int:
        """Number of SMs of the whole device: the driver does not tell which SMs belong to a share."""
        return self._device.num_pes

    @property
    def control_rows(self) -> int:
        """Rows for SM numbers, which may have gaps [PTX ISA: %smid]; the first program reads their bound (timer.c)."""
        return min(device.rows_for(self.control_pes), int(lib.VGC_CTL_MAX_PES))

    def set_gate(self, grant: Buffer, account: Buffer, bell: int) -> None:
        pages = ffi.from_buffer(grant), ffi.from_buffer(account, require_writable=True)
        granted, told = ffi.cast("struct vgc_gate_grant *", pages[0]), ffi.cast("struct vgc_gate_account *", pages[1])
        lib.vgc_cuda_engine_set_gate(self.handle, granted, told, bell)
        self._gate = pages  # kept alive

    def renew_grant(self, fd: int) -> None:
        result = lib.vgc_cuda_engine_renew_grant(self.handle, fd)
        if result < 0:
            raise OSError(-result, f"the gate's grant: {os.strerror(-result)}")

    def start(self) -> None:
        """Starts the engine. From here on, stdout and stderr of this process are captured as output of kernels.

        :raise EngineError: the GPU does not answer, or has no memory.
        """
        self._stdout.begin()
        self._stderr.begin()
        if lib.vgc_cuda_engine_start(self.handle, self._why) != 0:
            raise EngineError(f"cuda engine: {self._reason()}")

    def pause(self) -> bool:
        return bool(lib.vgc_cuda_engine_pause(self.handle))

    def resume(self) -> None:
        lib.vgc_cuda_engine_resume(self.handle)

    def image_bytes(self, image_fd: int, size: int) -> int:
        image, _declared = _split(image_fd, size)
        return self._static_bytes(self._parse(image))

    def load_program(self, image_fd: int, size: int, context: int) -> LoadedProgram:
        image, declared = _split(image_fd, size)
        parsed = self._parse(image)
        kernels, variables = _names(parsed, declared)
        specs, _kept = _kernel_specs(parsed)
        program = lib.vgc_cuda_program_load(
            self.handle, image, len(image), context, specs, len(parsed.kernels), self._why
        )
        if program == ffi.NULL:
            raise ProgramError(self._reason())
        self._hook(program, parsed)
        functions = tuple(_function(program, parsed, named, declared) for named in kernels)
        globals_ = self._globals(program, parsed, variables)
        return LoadedProgram(functions, globals_, program, self._charge(program, parsed), parsed.constant_bytes)

    def provide(self, program: LoadedProgram) -> None:
        if lib.vgc_cuda_program_provide(program.private, program.charged_bytes, self._why) != 0:
            raise ProgramMemoryError(self._reason())

    def unload_program(self, program: LoadedProgram) -> None:
        lib.vgc_cuda_program_unload(program.private)

    @staticmethod
    def host_source(name: str) -> bytes | None:
        return sources.source(name).encode() if name in sources.MODULES else None

    def wanted_programs(self) -> Iterator[str]:
        while (name := lib.vgc_cuda_engine_wanted(self.handle)) != ffi.NULL:
            yield str(ffi.string(name), "ascii")

    def use_program(self, name: str, program: LoadedProgram) -> None:
        if lib.vgc_cuda_engine_use_module(self.handle, name.encode(), program.private, self._why) != 0:
            raise DriverError(Status.OUT_OF_MEMORY, self._reason())

    def refuse_program(self, name: str, error: DriverError) -> None:
        why = ffi.new("char[]", str(error).encode())
        lib.vgc_cuda_engine_refuse_module(self.handle, name.encode(), error.status, why)

    def close(self) -> None:
        """Ends the context, and restores stdout and stderr."""
        if self.handle != ffi.NULL:
            lib.vgc_cuda_engine_close(self.handle)
            self.handle = ffi.NULL
        if self._stdout.fd >= 0:
            self._stdout.close()
            self._stderr.close()
            self._partition.release()

    @staticmethod
    def compile_job(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> CompileJob:
        return toolchain.compile_job(kind, source, options, settings)

    def _make(self, library: str, options: CudaOptions) -> None:
        path = ffi.new("char[]", os.fsencode(library))
        setup = ffi.new("struct vgc_cuda_setup *")
        setup.driver = path
        kept = [ffi.NULL if name is None else ffi.new("char[]", os.fsencode(name)) for name in _libraries(options)]
        setup.cublas, setup.cufft, setup.cudnn = kept
        setup.libraries_required = options.libraries == "on"
        setup.context = ffi.cast("void *", self._partition.context)
        setup.primary = ffi.cast("void *", self._partition.primary)
        setup.device = int(self._partition.handle)
        setup.num_pes = self.num_pes
        setup.max_shared_bytes = self._device.max_shared_bytes
        setup.memory_bytes = self._memory_bytes
        setup.completion = getattr(lib, f"VGC_CUDA_{options.completion.upper()}")
        setup.memory_kind = getattr(lib, f"VGC_CUDA_{options.memory.upper()}")
        setup.output_fd = self._stdout.fd
        setup.errors_fd = self._stderr.fd
        self.handle = lib.vgc_cuda_engine_new(setup, self._why)
        if self.handle == ffi.NULL:
            raise EngineError(f"cuda engine: {self._reason()}")
        for name, value in self._device.properties.items():
            setattr(self.handle.properties, name, value)

    def _parse(self, image: bytes) -> Cubin:
        """Parses an image.

        :raise ProgramError: the image cannot run on this GPU.
        """
        try:
            parsed = cubin.parse(image)
        except CubinError as error:
            raise ProgramError(str(error)) from error
        if not parsed.runs_on(self._device.arch):
            raise ProgramError(
                f"the program is compiled for {parsed.arch}, and this GPU ({self._device.name}) is {self._device.arch}"
            )
        for kernel in parsed.kernels:
            if kernel.param_bytes > lib.VGC_MAX_PARAM_BYTES:
                raise ProgramError(
                    f"kernel {kernel.name:.200} has {kernel.param_bytes} bytes of parameters;"
                    f" allowed: {lib.VGC_MAX_PARAM_BYTES}"
                )
        return parsed

    def _globals(self, program: Any, parsed: Cubin, names: Sequence[Named]) -> tuple[GlobalInfo, ...]:
        """Variables that the driver has placed; it leaves out those that no kernel uses."""
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        placed = {
            index: (address[0], size[0])
            for index, variable in enumerate(parsed.variables)
            if lib.vgc_cuda_program_global(program, variable.name.encode(), address, size, self._why) == 0
        }
        return tuple(GlobalInfo(named.name, *placed[named.index]) for named in names if named.index in placed)

    def _hook(self, program: Any, parsed: Cubin) -> None:
        """Links the program to the control area. Without hooks, or if linking fails, the control system does not see
        it.
        """
        hooks = parsed.hooks
        link = hooks and self._address(program, cubin.CONTROL_LINK)
        names = hooks and self._address(program, cubin.KERNEL_NAMES)
        if not (hooks and link and names):
            self.unseen_programs += 1
            return
        texts = _readable(hooks)
        if lib.vgc_cuda_program_hook(program, link, names - hooks.names_at, texts, len(texts), self._why) != 0:
            self.unseen_programs += 1

    def _address(self, program: Any, name: str) -> int:
        """Address of a variable; 0: the driver has not placed it."""
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        found = lib.vgc_cuda_program_global(program, name.encode(), address, size, self._why) == 0
        return int(address[0]) if found else 0

    def _charge(self, program: Any, parsed: Cubin) -> int:
        """Bytes of device memory for a program: static ones, and a stack for each thread that can be resident."""
        threads = self._device.max_threads_per_pe * self.num_pes
        stacks: int = lib.vgc_cuda_program_local_bytes(program) * threads
        return self._static_bytes(parsed) + stacks

    def _static_bytes(self, parsed: Cubin) -> int:
        """Bytes for code and variables, and for heap and print buffer if the program uses them."""
        heap = self._heap_bytes if parsed.mallocs else 0
        return parsed.loaded_bytes + heap + (_PRINTF_BYTES if parsed.prints else 0)

    def _reason(self) -> str:
        return str(ffi.string(self._why), errors="replace")


def _name(gpu: device.Device, given: int) -> str:
    share = f", {given} of {gpu.num_pes} SMs"
    return gpu.name.encode()[: _NAME_BYTES - len(share)].decode(errors="ignore") + share


def _libraries(options: CudaOptions) -> tuple[str | None, str | None, str | None]:
    """Paths of cuBLAS and cuFFT, as far as they are to be used."""
    return (None, None, None) if options.libraries == "off" else (options.cublas, options.cufft, options.cudnn)


def _split(image_fd: int, size: int) -> tuple[bytes, Declared]:
    """Cubin, and what the compiler has appended to it.

    :raise ProgramError: the appended part is malformed.
    """
    try:
        return kinds.split(memfd.read(image_fd, size))
    except TrailerError as error:
        raise ProgramError(str(error)) from error


def _set_limits(driver: Driver, primary: int, heap_bytes: int) -> None:
    """Sets limits of the primary context, which are fixed once a module is loaded. Leaves no context current."""
    limits = driver.bindings.CUlimit
    driver.call("cuCtxSetCurrent", driver.bindings.CUcontext(primary))
    try:
        driver.call("cuCtxSetLimit", limits.CU_LIMIT_PRINTF_FIFO_SIZE, _PRINTF_BYTES)
        driver.call("cuCtxSetLimit", limits.CU_LIMIT_MALLOC_HEAP_SIZE, heap_bytes)
    finally:
        driver.call("cuCtxSetCurrent", driver.bindings.CUcontext(0))


def _kernel_specs(parsed: Cubin) -> tuple[Any, list[Any]]:
    """Array for the C half, and the objects that it points to."""
    specs = ffi.new("struct vgc_cuda_kernel_spec[]", max(len(parsed.kernels), 1))
    kept: list[Any] = []
    for spec, kernel in zip(specs, parsed.kernels, strict=False):
        name = ffi.new("char[]", kernel.name.encode())
        short = ffi.new("char[]", short_name(parts(kernel.name).name).encode())
        params = ffi.new("struct vgc_param_entry[]", [{"offset": at, "size": size} for at, size in kernel.params])
        kept += name, short, params
        spec.name, spec.short_name = name, short
        spec.param_bytes, spec.num_params, spec.params = kernel.param_bytes, len(kernel.params), params
        spec.prints = parsed.prints
    return specs, kept


def _readable(hooks: Hooks) -> bytes:
    """Texts of the program, with kernels' mangled names replaced by those of the source."""
    before, after = hooks.constants[: hooks.names_at], hooks.constants[hooks.names_at + hooks.names_size :]
    names = hooks.constants[len(before) : len(before) + hooks.names_size].split(b"\0")
    readable = (
        short_name(parts(name.decode(errors="replace")).name).encode()[: len(name)].ljust(len(name), b"\0")
        for name in names
    )
    return before + b"\0".join(readable) + after


def _names(parsed: Cubin, declared: Declared) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """Names of kernels and of variables.

    :raise ProgramError: two of them are the same.
    """
    try:
        return table.kernels(parsed, declared), table.variables(parsed, declared)
    except AmbiguousNameError as error:
        raise ProgramError(str(error)) from error


def _function(program: Any, parsed: Cubin, named: Named, declared: Declared) -> FunctionInfo:
    kernel: Kernel = parsed.kernels[named.index]
    loaded = lib.vgc_cuda_program_kernel(program, named.index)
    return FunctionInfo(
        name=named.name,
        short_name=named.short_name,
        params=kernel.params,
        param_bytes=kernel.param_bytes,
        shared_bytes=loaded.shared_bytes,
        max_threads=loaded.max_threads,
        kernel=loaded,
        param_kinds=kinds.param_kinds(kernel.name, [size for _, size in kernel.params], declared),
        num_registers=loaded.num_registers,
        local_bytes=loaded.local_bytes,
    )
