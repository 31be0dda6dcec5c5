"""The CUDA engine's C half on the fake driver, without cuda-bindings: an engine, and access to the fake's state."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from tests.fakes import cuda_cubin
from tests.fakes.cuda_driver import STRICT, FakeDriver
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import (
    CompileJob,
    Engine,
    EngineOptions,
    FunctionInfo,
    GlobalInfo,
    LoadedProgram,
    ProgramError,
    ProgramMemoryError,
)
from vhost_backend.errors import DriverError, EngineError
from vhost_backend.worker.plane import PlaneLimits
from virtio_proto.schema import Opcode, Status

MIB: Final = 1 << 20
IMAGE: Final = cuda_cubin.all_kernels()
CUDA_LIMITS: Final = replace(LIMITS, memory_bytes=64 * MIB, queue_depth=1024)
ONE_THREAD: Final[Mapping[str, object]] = {"grid": [1, 1, 1], "block": [1, 1, 1]}


@dataclass(frozen=True, slots=True)
class Libraries:
    """Paths of NVIDIA's libraries for an engine; None: without that one."""

    cublas: Path | None = None
    cufft: Path | None = None
    required: bool = False
    cudnn: Path | None = None


NO_LIBRARIES: Final = Libraries()


def _call(driver: FakeDriver, name: str, *arguments: Any) -> None:
    error = driver.library[name](*arguments)
    if error:
        raise EngineError(f"{name}: CUDA error {error}")


class CHalf(Engine):
    """The C half with the thinnest Python around it. Its programs are `cuda_cubin.all_kernels`."""

    kind: ClassVar[str] = "cuda"

    def __init__(
        self,
        driver: FakeDriver,
        *,
        pes: int = 2,
        memory_bytes: int = 64 * MIB,
        completion: int = lib.VGC_CUDA_MEMORY,
        memory_kind: int = lib.VGC_CUDA_POOL,
        output_fd: int = -1,
        library: str = "",
        stuck_ns: int = 0,
        libraries: Libraries = NO_LIBRARIES,
    ) -> None:
        self.name, self.num_pes = "fake GPU", pes
        self.features = lib.VGC_F_CALL | lib.VGC_F_EVENTS | lib.VGC_F_REGION_ADDRESS
        self.handle = ffi.NULL
        self._driver = driver
        self.images: dict[bytes, Mapping[str, tuple[int, ...]]] = {}
        """Images with other kernels than `cuda_cubin.KERNELS`: sizes of the parameters of each."""
        self.needed_bytes = 0
        """Bytes that the next images are charged."""
        self._why = ffi.new("char[]", lib.VGC_CUDA_WHY)
        context = ctypes.c_void_p()
        _call(driver, "cuInit", 0)
        _call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._retained = True
        path = ffi.new("char[]", os.fsencode(library or driver.path))
        setup = ffi.new("struct vgc_cuda_setup *")
        setup.driver, setup.context = path, ffi.cast("void *", context.value)
        setup.num_pes, setup.max_shared_bytes, setup.memory_bytes = pes, 227 << 10, memory_bytes
        setup.completion, setup.memory_kind, setup.output_fd = completion, memory_kind, output_fd
        setup.stuck_ns = stuck_ns
        kept = [
            ffi.new("char[]", os.fsencode(path)) if path else ffi.NULL
            for path in (libraries.cublas, libraries.cufft, libraries.cudnn)
        ]
        setup.cublas, setup.cufft, setup.cudnn = kept
        setup.libraries_required = libraries.required
        self.handle = lib.vgc_cuda_engine_new(setup, self._why)
        if self.handle == ffi.NULL:
            self.close()
            raise EngineError(self._reason())

    @classmethod
    def open(cls, options: EngineOptions, pes: int, memory_bytes: int, deadline_ns: int) -> Self:  # noqa: ARG003  the data plane keeps it
        if options:
            raise EngineError("no options")
        return cls(FakeDriver(), pes=pes, memory_bytes=memory_bytes)

    def start(self) -> None:
        if lib.vgc_cuda_engine_start(self.handle, self._why) != 0:
            raise EngineError(self._reason())

    def pause(self) -> bool:
        return bool(lib.vgc_cuda_engine_pause(self.handle))

    def resume(self) -> None:
        lib.vgc_cuda_engine_resume(self.handle)

    def image_bytes(self, image_fd: int, size: int) -> int:  # noqa: ARG002
        return self.needed_bytes

    def load_program(self, image_fd: int, size: int, context: int) -> LoadedProgram:
        image = os.pread(image_fd, size, 0)
        kernels = self.images.get(image, cuda_cubin.KERNELS)
        specs, _kept = _specs(kernels)
        loaded = lib.vgc_cuda_program_load(self.handle, image, size, context, specs, len(kernels), self._why)
        if loaded == ffi.NULL:
            raise ProgramError(self._reason())
        functions = tuple(_function(loaded, index, name) for index, name in enumerate(kernels))
        return LoadedProgram(functions, (), loaded, self.needed_bytes)

    def variable(self, program: LoadedProgram, name: str) -> GlobalInfo:
        """Address and size of a program's variable. :raise ProgramError: the program has no such variable."""
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        if lib.vgc_cuda_program_global(program.private, name.encode(), address, size, self._why) != 0:
            raise ProgramError(self._reason())
        return GlobalInfo(name, address[0], size[0])

    def provide(self, program: LoadedProgram) -> None:
        if lib.vgc_cuda_program_provide(program.private, program.charged_bytes, self._why) != 0:
            raise ProgramMemoryError(self._reason())

    def unload_program(self, program: LoadedProgram) -> None:
        lib.vgc_cuda_program_unload(program.private)

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
        if self.handle != ffi.NULL:
            lib.vgc_cuda_engine_close(self.handle)
            self.handle = ffi.NULL
        if self._retained:
            self._retained = False
            _call(self._driver, "cuDevicePrimaryCtxRelease_v2", 0)

    @property
    def addresses(self) -> tuple[int, int]:
        """Range of the addresses of mapped memory: begin and size."""
        size = ffi.new("uint64_t *")
        return int(lib.vgc_cuda_engine_base(self.handle, size)), int(size[0])

    @property
    def libraries(self) -> int:
        """NVIDIA's libraries in use, bits of `VGC_CUDA_CUBLAS` and `VGC_CUDA_CUFFT`."""
        return int(lib.vgc_cuda_engine_libraries(self.handle))

    @property
    def completion(self) -> int:
        return int(lib.vgc_cuda_engine_completion(self.handle))

    @staticmethod
    def compile_job(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> CompileJob:
        raise ValueError(f"the C half does not compile {kind}: {source[:20]!r}, {options}, {settings}")

    def _reason(self) -> str:
        return str(ffi.string(self._why), errors="replace")


def _specs(kernels: Mapping[str, tuple[int, ...]]) -> tuple[Any, list[Any]]:
    specs = ffi.new("struct vgc_cuda_kernel_spec[]", len(kernels))
    kept: list[Any] = []
    for spec, (name, sizes) in zip(specs, kernels.items(), strict=True):
        kernel = cuda_cubin.Kernel(name, sizes)
        text = ffi.new("char[]", name.encode())
        entries = [{"offset": at, "size": size} for at, size in zip(kernel.offsets, sizes, strict=True)]
        params = ffi.new("struct vgc_param_entry[]", entries)
        kept += text, params
        spec.name = spec.short_name = text
        spec.param_bytes, spec.num_params, spec.params = kernel.param_bytes, len(sizes), params
        spec.prints = name == "prints"
    return specs, kept


def _function(loaded: Any, index: int, name: str) -> FunctionInfo:
    kernel = lib.vgc_cuda_program_kernel(loaded, index)
    params = tuple((kernel.params[i].offset, kernel.params[i].size) for i in range(kernel.num_params))
    return FunctionInfo(name, name, params, kernel.param_bytes, kernel.shared_bytes, kernel.max_threads, kernel)


def check_driver(driver: FakeDriver) -> None:
    """Asserts that the engine kept to the driver's rules, and left no objects behind."""
    assert not driver.misuses(), driver.misuses()
    assert not driver.alive(), driver.alive()


@contextmanager
def fake_driver(*settings: str, path: Path | None = None) -> Iterator[FakeDriver]:
    """The fake driver as in a fresh process, as strict as a GPU. At the end, its caller must have kept to the
    driver's rules and left no objects behind.
    """
    driver = FakeDriver(path)
    driver.reset()
    driver.set(*STRICT, *settings)
    try:
        yield driver
        check_driver(driver)
    finally:
        driver.reset()


class Gpu:
    """A data plane with the engine in it, and its driver."""

    def __init__(self, driver: FakeDriver, rig: Rig) -> None:
        self.driver, self.rig = driver, rig
        self.context = rig.context()
        self.functions = rig.load(self.context, IMAGE)

    def launch(self, name: str, params: bytes = b"", *, stream: int = 0, context: int = 0, **fields: Any) -> Any:
        """Submits a launch without waiting for it."""
        body = {**ONE_THREAD, "function": self.functions[name], "param_len": len(params)} | fields
        return self.rig.driver.submit(
            Opcode.LAUNCH, body, params, context=context or self.context, stream=stream, writable_len=1024
        )

    def submit(self, opcode: int, body: Any = b"", trailing: bytes = b"", *, stream: int = 0, **options: Any) -> Any:
        options = {"context": self.context} | options
        return self.rig.driver.submit(opcode, body, trailing, stream=stream, **options)

    def wait(self, pending: Any) -> Any:
        return self.rig.driver.wait(pending)


@contextmanager
def gpu(
    *settings: str,
    limits: PlaneLimits = CUDA_LIMITS,
    completion: int = lib.VGC_CUDA_MEMORY,
    inflight_fd: int = -1,
) -> Iterator[Gpu]:
    """A running data plane on the fake driver, with one context and the fake's kernels loaded."""
    with fake_driver(*settings) as driver, plane(driver, limits, completion, inflight_fd) as rig:
        made = Gpu(driver, rig)
        try:
            yield made
        finally:
            driver.go_on()
            driver.release()


@contextmanager
def plane(
    driver: FakeDriver,
    limits: PlaneLimits,
    completion: int,
    inflight_fd: int = -1,
    memory_kind: int = lib.VGC_CUDA_POOL,
    *,
    libraries: Libraries = NO_LIBRARIES,
) -> Iterator[Rig]:
    """A running data plane on an engine of its own.

    :raise EngineError: the engine does not start; all its resources are freed.
    """
    engine = CHalf(
        driver,
        memory_bytes=limits.memory_bytes,
        completion=completion,
        memory_kind=memory_kind,
        libraries=libraries,
    )
    try:
        engine.start()
    except EngineError:
        engine.close()
        raise
    with plane_rig(limits, engine=engine, inflight_fd=inflight_fd) as rig:
        yield rig
