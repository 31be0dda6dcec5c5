"""Failures of the compiler itself are errors that name what it compiled, and show nothing of the host."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import CompileError, compile_image
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.engines.cpu.toolchain import LLVM_DIR

SOURCE = """
extern "C" __device__ unsigned odd(unsigned a, unsigned b);
extern "C" __global__ void fine(unsigned *p) { p[0] = 1; }
extern "C" __global__ void broken(unsigned *p) { p[1] = odd(p[0], 2); }
extern "C" __global__ void later(unsigned *p) { p[2] = 7; }
"""


def log_with(folder: Path, front_end: str) -> str:
    """Output of the compiler with a shell script in place of clang, which gets the same arguments."""
    clang = folder / "llvm" / "bin" / "clang++"
    clang.parent.mkdir(parents=True)
    clang.write_text(f"#!/bin/sh\n{front_end}\n")
    clang.chmod(0o755)
    (folder / "source.cu").write_text(SOURCE)
    argv = [
        str(folder / "llvm") if word == LLVM_DIR else word
        for word in CpuEngine.compile_job("CUDA_SOURCE", b"", (), {}).argv
    ]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == 1
    return done.stdout + done.stderr


def shows_nothing_of_the_host(log: str) -> bool:
    return re.search(r"0x[0-9a-f]{6}|/usr/|Stack dump", log) is None


@pytest.mark.parametrize("signal", ["SEGV", "ABRT", "BUS"])
def test_signal_is_a_defect(tmp_path: Path, signal: str) -> None:
    log = log_with(tmp_path, f"kill -{signal} $PPID")
    assert log == f"vgc-cpucc: error: a defect of the compiler: SIG{signal}\n"


def test_fatal_error_of_the_code_generator_names_the_kernel(tmp_path: Path) -> None:
    """By an instruction that processors of this kind do not have."""
    log = log_with(
        tmp_path, f'eval out=\\${{$#}}\n{LLVM_DIR}/bin/clang++ "$@" -S && sed -i s/@odd/@llvm.aarch64.crc32b/ "$out"'
    )
    assert "vgc-cpucc: error: a defect of the compiler: Cannot select: " in log
    assert "in broken (source.cu:4)" in log
    assert log.count("\n") == 1


def test_failed_assertion_is_a_defect(tmp_path: Path) -> None:
    log = log_with(tmp_path, "eval out=\\${$#}\necho '@llvm.global.annotations = global i32 0' > \"$out\"")
    assert "vgc-cpucc: error: a defect of the compiler: assertion `" in log
    assert shows_nothing_of_the_host(log)
    assert log.count("\n") == 1


def test_crash_of_clang_names_the_line() -> None:
    with pytest.raises(CompileError) as caught:
        compile_image("int x;\n#pragma clang __debug llvm_fatal_error\n")
    log = str(caught.value)
    assert "vgc-cpucc: error: a defect of the compiler: clang++ crashed at source.cu:2:2: " in log
    assert shows_nothing_of_the_host(log)
