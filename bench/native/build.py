"""Builds the C hot loops (a cffi extension) and the C++ baseline kernels (a shared library).

``python -m bench.native.build``; :func:`ensure` builds only products that are older than their sources.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cffi

from virtio_proto import build_vring, codegen

HERE = Path(__file__).resolve().parent
LOOPS = tuple(HERE / name for name in ("queue.c", "bare.c", "gpu.c"))
HEADERS = tuple(HERE / name for name in ("vgcb.h", "gpu.h", "clock.h"))
KERNELS = HERE / "kernels.cpp"
LIBRARY = HERE / "libbaseline.so"
EXTENSION = HERE / f"_loops{sysconfig.get_config_var('EXT_SUFFIX')}"
CXX_FLAGS = (
    *("-O3", "-march=native", "-fno-math-errno", "-std=c++17", "-Wall", "-Wextra", "-Werror"),
    # clang 19 warns of the features that it names itself on processors with AVX10; other compilers do not know the warning
    *("-Wno-unknown-warning-option", "-Wno-invalid-feature-combination"),
)

KERNEL_DECLARATIONS = """
void base_saxpy(uint64_t n, float a, const float *x, float *y, unsigned threads);
void base_matmul(uint64_t n, const float *a, const float *b, float *c, unsigned threads);
void base_reduce(uint64_t n, const float *x, float *sum, unsigned threads);
void base_nbody(uint64_t n, const float *body, float *out, unsigned threads);
void base_histogram(uint64_t n, const uint8_t *data, uint32_t *bins, unsigned threads);
"""


def ffibuilder() -> cffi.FFI:
    """Describes the extension ``bench.native._loops``: the hot loops, with the driver's side of a virtqueue and the
    native side of the CUDA rows.
    """
    ffi = cffi.FFI()
    ffi.cdef(codegen.cdef())
    ffi.cdef(codegen.declarations(build_vring.INCLUDE_DIR / "vgc_vring.h"))
    ffi.cdef(codegen.declarations(HERE / "vgcb.h"))
    ffi.cdef(codegen.declarations(HERE / "gpu.h"))
    ffi.set_source(
        "bench.native._loops",
        '#include "vgcb.h"\n#include "gpu.h"',
        sources=[str(path) for path in (*LOOPS, *build_vring.SOURCES)],
        include_dirs=[str(HERE), str(build_vring.INCLUDE_DIR)],
        extra_compile_args=build_vring.cflags(),
        extra_link_args=build_vring.ldflags(),
    )
    return ffi


def compiler() -> str:
    """Finds the C++ compiler of the baseline kernels: clang 19, which the CPU engine also uses, else the system's.

    :raise RuntimeError: there is no C++ compiler.
    """
    names = ("clang++-19", "clang++", "g++")
    for name in names:
        if found := shutil.which(name):
            return found
    raise RuntimeError(f"no C++ compiler for the baseline kernels; install one of {', '.join(names)}")


def _build_library() -> None:
    fresh = LIBRARY.with_suffix(".new")
    command = [compiler(), *CXX_FLAGS, "-shared", "-fPIC", "-pthread", "-o", str(fresh), str(KERNELS)]
    subprocess.run(command, check=True)
    fresh.rename(LIBRARY)


def _is_stale(product: Path, sources: Iterable[Path]) -> bool:
    return not product.exists() or any(s.stat().st_mtime > product.stat().st_mtime for s in sources)


def ensure() -> None:
    """Builds products that are missing or older than their sources; concurrent processes wait for the first."""
    with _alone():
        _build_stale()


@contextmanager
def _alone() -> Iterator[None]:
    """Holds this folder's lock."""
    folder = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _build_stale() -> None:
    ring_headers = build_vring.INCLUDE_DIR.glob("*.h")
    if _is_stale(EXTENSION, (*LOOPS, *HEADERS, *build_vring.SOURCES, *ring_headers)):
        build_vring.compile_beside(ffibuilder(), HERE)
    if _is_stale(LIBRARY, (KERNELS,)):
        _build_library()


def main() -> None:
    ensure()


if __name__ == "__main__":
    main()
