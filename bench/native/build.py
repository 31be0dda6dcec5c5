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
KERNELS = tuple(HERE / name for name in ("kernels.cpp", "programs.cpp", "transformer.cpp"))
KERNEL_HEADERS = (HERE / "team.h",)
LIBRARY = HERE / "libbaseline.so"
EXTENSION = HERE / f"_loops{sysconfig.get_config_var('EXT_SUFFIX')}"
CXX_FLAGS = (
    *("-O3", "-march=native", "-fno-math-errno", "-std=c++20", "-Wall", "-Wextra", "-Werror"),
    # clang 19 warns of the features that it names itself on processors with AVX10; other compilers do not know the warning
    *("-Wno-unknown-warning-option", "-Wno-invalid-feature-combination"),
)

KERNEL_DECLARATIONS = """
void base_saxpy(uint64_t n, float a, const float *x, float *y, unsigned threads);
void base_matmul(uint64_t n, const float *a, const float *b, float *c, unsigned threads);
void base_reduce(uint64_t n, const float *x, float *sum, unsigned threads);
void base_nbody(uint64_t n, const float *body, float *out, unsigned threads);
void base_histogram(uint64_t n, const uint8_t *data, uint32_t *bins, unsigned threads);
void base_bfs(uint32_t nodes, const uint32_t *starts, const uint32_t *targets, int32_t *distance, unsigned threads);
void base_nw(const int32_t *similarity, int32_t *score, int32_t width, int32_t penalty, unsigned threads);
void base_gaussian(int32_t n, float *a, float *b, unsigned threads);
void base_lud(float *a, int32_t n, unsigned threads);
void base_hotspot(int32_t n, const float *power, float *cells, float *other, int32_t steps, unsigned threads);
void base_lavamd(int32_t side, float alpha, const float *particles, float *forces, unsigned threads);
void base_radix_sort(uint32_t n, uint32_t *keys, unsigned threads);
void base_scan(uint32_t n, const uint32_t *in, uint32_t *out, unsigned threads);
void base_transpose(int32_t n, const float *in, float *out, unsigned threads);
void base_spmv(uint32_t rows, const uint32_t *starts, const uint32_t *columns, const float *values, const float *x,
               float *y, unsigned threads);
void base_transformer_block(const float *in, const float *gain, const float *to_qkv, const float *to_out,
                            const float *to_hidden, const float *from_hidden, float *normal, float *qkv, float *attended,
                            float *middle, float *hidden, float *out, unsigned threads);
void base_transformer_block_bf16(const uint16_t *in, const uint16_t *gain, const uint16_t *to_qkv,
                                 const uint16_t *to_out, const uint16_t *to_hidden, const uint16_t *from_hidden,
                                 uint16_t *normal, uint16_t *qkv, uint16_t *attended, uint16_t *middle, uint16_t *hidden,
                                 uint16_t *out, unsigned threads);
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
    command = [compiler(), *CXX_FLAGS, "-shared", "-fPIC", "-pthread", "-o", str(fresh), *map(str, KERNELS)]
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
    if _is_stale(LIBRARY, (*KERNELS, *KERNEL_HEADERS)):
        _build_library()


def main() -> None:
    ensure()


if __name__ == "__main__":
    main()
