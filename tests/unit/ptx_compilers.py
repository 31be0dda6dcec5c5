"""PTX modules of CUDA sources, as compilers emit them: NVRTC, nvcc and clang."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_compile_rig import toolkit
from vhost_backend.engines.cuda.compiler.nvrtc import Nvrtc
from vhost_backend.engines.cuda.toolkits import Toolkit, installed

CLANG: Final = shutil.which("clang-19")
_CLANG_PRELUDE: Final = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __forceinline__ inline __attribute__((always_inline))
struct __Place { unsigned x, y; };
#define __PLACE(name) (__Place{(unsigned)__nvvm_read_ptx_sreg_##name##_x(), (unsigned)__nvvm_read_ptx_sreg_##name##_y()})
#define threadIdx __PLACE(tid)
#define blockIdx __PLACE(ctaid)
#define blockDim __PLACE(ntid)
#define gridDim __PLACE(nctaid)
#define __syncthreads() __nvvm_bar_sync(0)
#define __shfl_xor_sync(mask, value, lanes) __nvvm_shfl_sync_bfly_f32(mask, value, lanes, 31)
static __device__ unsigned atomicAdd(unsigned *sum, unsigned value) {
    return __nvvm_atom_add_gen_i((int *)sum, value);
}
"""
"""Names of cuda_runtime.h that sources use; the header itself comes with toolkits only."""


@functools.cache
def _kit() -> Toolkit | None:
    return next((kit for kit in installed() if kit.nvrtc is not None), None)


def _nvrtc() -> Path | None:
    kit = _kit()
    return None if kit is None else kit.nvrtc


def nvrtc_ptx(source: str, *options: str) -> str:
    """The module that NVRTC makes of a source."""
    library = _nvrtc()
    assert library is not None
    text, _ = Nvrtc(str(library)).ptx(source.encode(), "source.cu", ["-arch=compute_80", *options], [])
    return text.rstrip(b"\0").decode()


def nvrtc_headers() -> list[str]:
    """Options with which NVRTC finds CUDA's headers, `mma.h` for example."""
    kit = _kit()
    assert kit is not None
    return [f"-I{folder}" for folder in kit.include_dirs]


def nvcc(folder: Path, *words: str) -> None:
    """Runs nvcc, which does not run with preloaded sanitizers."""
    kit = toolkit()
    assert kit is not None
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [str(kit.nvcc), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr


def nvcc_ptx(source: str, *options: str) -> str:
    """The module that nvcc makes of a source."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "source.cu").write_text(source)
        nvcc(Path(folder), "-ptx", "-arch=sm_80", *options, "-o", "module.ptx", "source.cu")
        return Path(folder, "module.ptx").read_text()


def clang_ptx(source: str, *options: str) -> str:
    """The module that clang makes of a source, without CUDA's headers."""
    assert CLANG is not None
    command = [CLANG, "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib"]
    command += ["-Wno-unknown-cuda-version", "-O2", "-S", "-o", "-", *options, "-"]
    done = subprocess.run(
        command, input=_CLANG_PRELUDE + source, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _has_headers() -> bool:
    kit = _kit()
    return kit is not None and kit.has("mma.h") and kit.has("cuda_fp16.h")


needs_headers: Final = pytest.mark.skipif(not _has_headers(), reason="needs NVRTC with CUDA's headers")
needs_nvrtc: Final = pytest.mark.skipif(_nvrtc() is None, reason="needs NVRTC")
needs_clang: Final = pytest.mark.skipif(CLANG is None, reason="needs clang-19")
