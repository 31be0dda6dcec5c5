"""Programs in a guest on a GPU write the same bytes as built by the same nvcc for this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import GpuHost, gpu_host, vm
from tests.gpu.native_programs import (
    QUICK,
    BuildError,
    built_for_guests,
    built_natively,
    guest_paths,
    programs,
    run_natively,
)
from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import CudaProgram
from vhost_backend.engines.cuda import toolkits


def case(program: CudaProgram) -> object:
    """The program as a case of a test; all but a few take too long for the first minutes on a machine."""
    marks = [] if program.name in QUICK else [pytest.mark.slow]
    return pytest.param(program, id=program.name, marks=marks)


@pytest.fixture(scope="module")
def host(real_gpu: Gpu) -> Iterator[GpuHost]:
    """A VM whose programs have no hooks, as native ones."""
    with gpu_host(vm(real_gpu, memory="4G", deadline="60s", engine=real_gpu.engine(hooks="off"))) as host:
        yield host


def run_in_guest(host: GpuHost, program: Path) -> subprocess.CompletedProcess[bytes]:
    link = host.link()
    environment = {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(program.parent / "state")}
    return subprocess.run(
        [str(program)],
        check=False,
        cwd=program.parent,
        env=os.environ | environment | {"LD_LIBRARY_PATH": guest_paths()},
        pass_fds=link.fds,
        capture_output=True,
        timeout=HANGS_AFTER_S,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("program", [case(program) for program in programs().values()])
def test_output_is_that_of_a_native_build(real_gpu: Gpu, host: GpuHost, program: CudaProgram, tmp_path: Path) -> None:
    usable = toolkits.usable(toolkits.parse_version(real_gpu.driver_version))
    nvcc, host_compiler = usable[0].nvcc if usable else None, toolkits.host_compiler()
    if nvcc is None or host_compiler is None:
        pytest.skip("no nvcc, or no C++ compiler for it")
    try:
        native = built_natively(program, tmp_path, nvcc, real_gpu.arch, host_compiler)
        guest = built_for_guests(program, tmp_path)
    except BuildError as reason:
        pytest.skip(str(reason))
    here, there = run_natively(native, nvcc), run_in_guest(host, guest)
    assert there.stdout == here.stdout, there.stderr
    assert there.returncode == here.returncode


def test_programs_to_compare_exist() -> None:
    assert set(QUICK) <= programs().keys()
