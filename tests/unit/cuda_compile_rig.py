"""Compiles for the CUDA engine as the daemon does it: in the compile sandbox. No GPU is needed, NVIDIA's wheels are."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from vhost_backend.compiler.run import CompileLimits, run_compile
from vhost_backend.engines.cuda import cubin, kinds, toolchain
from vhost_backend.engines.cuda.toolkits import Toolkit, host_compiler, installed
from vhost_backend.sandbox import build, memfd
from virtio_proto.schema import ParamKind

DRIVER: Final = "13.5"
ARCHITECTURES: Final = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
EMPTY: Final = 'extern "C" __global__ void f() {}\n'

_MAX_IMAGE: Final = 64 << 20


class CompileError(Exception):
    """The compiler's log."""


PATIENT = CompileLimits(wall_seconds=HANGS_AFTER_S, cpu_seconds=HANGS_AFTER_S)


def compile_image(
    source: str | bytes,
    options: Sequence[str] = (),
    *,
    kind: str = "CUDA_SOURCE",
    arch: str = "sm_90",
    compiler: str = "nvrtc",
    limits: CompileLimits | None = None,
    hooks: str = "on",
) -> tuple[bytes, str]:
    """The cubin and the log.

    :raise CompileError: it does not compile.
    """
    settings = {"arch": arch, "driver": DRIVER, "compiler": compiler, "hooks": hooks}
    image, log = _compile(source, options, kind, settings, limits or PATIENT)
    return kinds.split(image)[0], log


def compile_whole(
    source: str | bytes,
    options: Sequence[str] = (),
    *,
    kind: str = "CUDA_SOURCE",
    compiler: str = "auto",
    hooks: str = "off",
    binaries: str = "on",
) -> tuple[bytes, kinds.Declared]:
    """The cubin, and what its trailer says, as the engine reads both.

    :raise CompileError: it does not compile.
    """
    settings = {"arch": "sm_90", "driver": DRIVER, "compiler": compiler, "hooks": hooks, "binaries": binaries}
    return kinds.split(_compile(source, options, kind, settings, PATIENT)[0])


def compiled_kinds(
    source: str | bytes, *options: str, kind: str = "CUDA_SOURCE", arch: str = "sm_90", compiler: str = "nvrtc"
) -> dict[str, tuple[ParamKind, ...]]:
    """Kinds of each kernel's parameters as the engine learns them, by the kernel's linker name."""
    settings = {"arch": arch, "driver": DRIVER, "compiler": compiler, "hooks": "on"}
    image, declared = kinds.split(_compile(source, options, kind, settings, PATIENT)[0])
    return {
        kernel.name: kinds.param_kinds(kernel.name, [size for _, size in kernel.params], declared)
        for kernel in cubin.parse(image).kernels
    }


def _compile(
    source: str | bytes, options: Sequence[str], kind: str, settings: dict[str, str], limits: CompileLimits
) -> tuple[bytes, str]:
    """Compiles in the sandbox: a cubin with its trailer, and the log."""
    raw = source.encode() if isinstance(source, str) else source
    job = toolchain.compile_job(kind, raw, tuple(options), settings)
    _build_launcher()
    outcome = asyncio.run(run_compile(job, raw, limits, "strict"))
    if outcome.image_fd is None:
        raise CompileError(outcome.log)
    try:
        return memfd.read(outcome.image_fd, _MAX_IMAGE), outcome.log
    finally:
        os.close(outcome.image_fd)


def log_of(source: str | bytes, *options: str, kind: str = "CUDA_SOURCE", compiler: str = "nvrtc") -> str:
    """The compiler's log of a source that it refuses."""
    with pytest.raises(CompileError) as caught:
        compile_image(source, options, kind=kind, compiler=compiler)
    return str(caught.value)


def parsed(source: str | bytes, *options: str, arch: str = "sm_90", compiler: str = "nvrtc") -> cubin.Cubin:
    """The cubin of a source, as the engine reads it."""
    return cubin.parse(compile_image(source, options, arch=arch, compiler=compiler)[0])


def kernels(source: str | bytes, *options: str, compiler: str = "nvrtc") -> set[str]:
    """The linker's names of a source's kernels."""
    return {kernel.name for kernel in parsed(source, *options, compiler=compiler).kernels}


def toolkit() -> Toolkit | None:
    """The toolkit that tests use to make PTX and fatbins; None if no complete one is installed."""
    return next((kit for kit in installed() if kit.nvcc and kit.ptxas and host_compiler()), None)


@functools.cache
def _build_launcher() -> None:
    build.main()


def in_the_repository(path: str) -> Path:
    """Path of a file of the repository."""
    return Path(__file__).resolve().parents[2] / path


needs_nvrtc: Final = pytest.mark.skipif(
    toolchain.missing("sm_90", DRIVER, "nvrtc") is not None,
    reason=f"needs NVRTC: {toolchain.missing('sm_90', DRIVER, 'nvrtc')}",
)
needs_nvcc: Final = pytest.mark.skipif(toolkit() is None, reason="needs nvcc, ptxas and a C++ compiler")
