"""CUDA programs that are built twice: by NVIDIA's nvcc for this machine, and by mynvcc for a guest.

mynvcc needs a clang, which machines with a GPU seldom have: the kit (``make gpu-kit``) brings programs that it has built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import FOLDER, TOOLKIT, CudaProgram
from tools.gpu.programs import KIT_PROGRAMS

BITS: Final = Path(__file__).with_name("programs") / "bits.cu"
QUICK: Final = ("bits", "plane_textures", "surfaces", "mipmaps", "shared_tiles", "graph_nodes", "math_functions")
"""Programs for the first minutes on a machine; all of `programs` run with ``--all``."""

NOT_THE_SAME: Final = {
    "heap_limit": "a guest's heap is set by the host",
    "out_of_memory": "a guest has its quota",
    "whole_quota": "a guest has its quota",
    "one_device": "a guest has one device",
    "ipc_either": "its kernels have CPU versions",
    "clocks": "it prints times",
    "device_properties": "a guest is told what it may use",
    "texture_references": "NVIDIA's compilers have none since CUDA 12",
}
"""Programs whose two builds need not agree, and why."""


def programs() -> dict[str, CudaProgram]:
    """Programs that one call of a compiler builds, and that need no library."""
    found = [CudaProgram.read(path) for path in (BITS, *sorted(FOLDER.glob("*.cu")))]
    return {one.name: one for one in found if not one.steps and not one.needs and one.name not in NOT_THE_SAME}


class BuildError(Exception):
    """A program cannot be built here; the text says why."""


def built_for_guests(program: CudaProgram, folder: Path) -> Path:
    """The program for guests, of the kit or built here.

    :raise BuildError: there is neither a kit nor a clang.
    """
    brought = Path(os.environ.get(KIT_PROGRAMS, "")) / program.name
    if KIT_PROGRAMS in os.environ and brought.exists():
        made = folder / program.name
        shutil.copy(brought, made)
        made.chmod(0o755)
        return made
    if not any(shutil.which(f"clang{suffix}") for suffix in ("", *(f"-{version}" for version in range(14, 20)))):
        raise BuildError("this machine has no clang, and no kit brings the program: make gpu-kit")
    try:
        return program.build(folder / f"{program.name}.guest")
    except AssertionError as error:
        raise BuildError(str(error)) from error


def built_natively(program: CudaProgram, folder: Path, nvcc: Path, arch: str, host_compiler: Path) -> Path:
    """The program for this machine.

    :raise BuildError: nvcc refuses it.
    """
    made = folder / f"{program.name}.native"
    sources = [program.source, *(FOLDER / unit for unit in program.units)]
    command = [nvcc, f"-arch={arch}", f"-ccbin={host_compiler}", "-allow-unsupported-compiler", *program.flags]
    command += ["--extended-lambda", "--expt-relaxed-constexpr"]
    command += [f"-L{path}" for path in _libraries(nvcc)]
    done = subprocess.run(
        [*map(str, command), *map(str, sources), "-o", str(made)],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    if done.returncode != 0:
        raise BuildError(f"nvcc: {done.stdout}{done.stderr}"[:1000])
    return made


def _libraries(nvcc: Path) -> list[Path]:
    """Folders of the runtime library beside an nvcc, in a toolkit or in wheels."""
    top = nvcc.resolve().parent.parent
    return [folder for folder in (top / "lib64", top / "lib", top / "targets/x86_64-linux/lib") if folder.is_dir()]


def run_natively(program: Path, nvcc: Path) -> subprocess.CompletedProcess[bytes]:
    paths = os.pathsep.join(str(folder) for folder in _libraries(nvcc))
    return _run(program, {"LD_LIBRARY_PATH": paths})


def _run(program: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(program)],
        check=False,
        cwd=program.parent,
        env=os.environ | environment,
        capture_output=True,
        timeout=HANGS_AFTER_S,
    )


def guest_paths() -> str:
    """``LD_LIBRARY_PATH`` with which a program that was built elsewhere finds the guest's libraries of this tree."""
    libvgc = TOOLKIT.parents[2] / "libvgc" / "build"
    return os.pathsep.join((str(TOOLKIT / "lib64"), str(libvgc)))
