"""Findings of `vgcd doctor` about the CUDA engine. All are optional: the CPU engine needs none of these."""

from __future__ import annotations

import asyncio
import grp
import importlib.metadata
import importlib.util
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.daemon.engines import CompilerCheck, compiler_problem, host_libraries, toolkit_pieces
from vhost_backend.daemon.gpus import Gpu, Survey, survey
from vhost_backend.doctor.finding import Finding
from vhost_backend.engines.cuda.driver import INSTALL
from vhost_backend.engines.cuda.libraries import Library
from vhost_backend.engines.cuda.toolkits import Piece
from vhost_backend.sandbox import build, launch

_DRIVER_HINT: Final = (
    "NVIDIA's driver 550 or newer: NVIDIA's own packages, or nvidia-driver of Debian 13 (Debian 12 has 535)"
)
_NODE: Final = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm")
_ALL: Final = stat.S_IROTH | stat.S_IWOTH
_MPS_FOLDER: Final = "/tmp/nvidia-mps"  # noqa: S108  looked at, never written


@dataclass(frozen=True, slots=True)
class Places:
    """Paths and probes on a host; tests replace them."""

    driver: str | None = None
    """Path of the driver's library; None: the system's."""
    dev: Path = Path("/dev")
    proc: Path = Path("/proc/driver/nvidia")
    mps: Path = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _MPS_FOLDER))
    compiler: CompilerCheck = compiler_problem
    toolkit: Callable[[str], tuple[Piece, ...]] = toolkit_pieces
    """Parts of the CUDA toolkit, for the driver's CUDA version."""
    libraries: Callable[[str], tuple[Library, ...]] = host_libraries
    """NVIDIA's libraries for built-in functions, for the driver's CUDA version."""


def examine(places: Places | None = None) -> Iterator[Finding]:
    """Checks everything that a VM on a GPU needs; without a driver, only the bindings and device nodes."""
    places = places or Places()
    bindings = _bindings()
    yield bindings
    found = asyncio.run(survey(places.driver)) if bindings.ok else Survey(problem="not asked without cuda.bindings")
    yield _driver(found)
    yield from _nodes(places.dev)
    if not found.driver_version:
        return
    for gpu in found.gpus:
        yield _gpu(gpu)
    yield from _compilers(found, places.compiler)
    for piece in places.toolkit(found.driver_version):
        text = piece.price if piece.where is None else str(piece.where)
        yield _optional(f"CUDA toolkit's {piece.name}", piece.where is not None, text, piece.hint)
    for library in places.libraries(found.driver_version):
        text = "not found: without it, 'libraries: auto' leaves its functions to kernels of our own"
        yield _optional(library.name, library.where is not None, str(library.where or text), library.hint)
    yield _pycuda()
    yield from _sandbox()
    yield from _modes(places)


def _bindings() -> Finding:
    try:
        there = importlib.util.find_spec("cuda.bindings.driver") is not None
    except ModuleNotFoundError:
        there = False
    return _optional("Python module cuda.bindings", there, "found" if there else "missing", INSTALL)


def _pycuda() -> Finding:
    """The package that tests on a GPU compare with, beside our own C; the engine does not use it."""
    try:
        text = f"{importlib.metadata.version('pycuda')}: tests on the GPU compare with it"
    except importlib.metadata.PackageNotFoundError:
        text = "not installed: tests on the GPU compare with programs in C alone; vgcd itself does not use it"
        return _optional("pycuda", ok=False, text=text, hint="make pycuda, in the project's folder")
    return _optional("pycuda", ok=True, text=text)


def _driver(found: Survey) -> Finding:
    if not found.driver_version:
        hint = _DRIVER_HINT if "not found" in found.problem else ""  # other problems carry their own hint
        return _optional("NVIDIA driver", ok=False, text=found.problem, hint=hint)
    where = f" ({found.driver_path})" if found.driver_path else ""
    text = f"CUDA {found.driver_version}{where}"
    if found.problem:
        return _optional("NVIDIA driver", ok=False, text=f"{text}: {found.problem}", hint="see what nvidia-smi says")
    return _optional("NVIDIA driver", ok=True, text=text)


def _gpu(gpu: Gpu) -> Finding:
    quota = f"{gpu.num_pes} processing elements"
    if gpu.min_pes < gpu.num_pes:
        quota += f" (quotas of {gpu.min_pes} and more, in steps of {gpu.pe_granularity})"
    text = f"{gpu.name}, {gpu.arch}, {quota}, {gpu.memory_bytes >> 20} MiB, {gpu.uuid}"
    return _optional(f"GPU {gpu.index}", ok=True, text=text)


def _nodes(dev: Path) -> Iterator[Finding]:
    """Checks that workers can open the device nodes: they run as our user, or as nobody if we are root."""
    nodes = [path for path in sorted(dev.glob("nvidia*")) if _NODE.fullmatch(path.name)]
    closed = [path for path in nodes if not _is_open_to_workers(path)]
    if nodes and not closed:
        yield _optional("device nodes", ok=True, text=", ".join(path.name for path in nodes))
    for path in closed:
        status = path.stat()
        group = _group_name(status.st_gid)
        text = f"{path} has mode {stat.S_IMODE(status.st_mode):o} and group {group}: workers cannot open it"
        hint = f"chmod a+rw {path}, or the driver's option NVreg_DeviceFileMode=0666"
        if os.geteuid() != 0:
            hint = f"usermod -aG {group} and a new login, or {hint}"
        yield _optional("device nodes", ok=False, text=text, hint=hint)


def _is_open_to_workers(path: Path) -> bool:
    if os.geteuid() == 0:
        return path.stat().st_mode & _ALL == _ALL
    return os.access(path, os.R_OK | os.W_OK)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _compilers(found: Survey, check: CompilerCheck) -> Iterator[Finding]:
    """Checks the compiler for each architecture among this host's GPUs. A problem's text includes the hint."""
    for arch in dict.fromkeys(gpu.arch for gpu in found.gpus):
        problem = check(arch, found.driver_version, "auto")
        name = f"CUDA compiler for {arch}"
        yield _optional(name, problem is None, problem or f"found, for CUDA {found.driver_version}")


def _sandbox() -> Iterator[Finding]:
    """Checks that workers can have their own /proc, which GPU workers need and some containers forbid."""
    if build.LAUNCHER.exists():
        missing = launch.missing_feature(proc=True)
        text = "works" if missing is None else str(missing)
        yield _optional(
            "sandbox of GPU workers", missing is None, text, "a container policy that allows mounting /proc"
        )


def _modes(places: Places) -> Iterator[Finding]:
    """Reports how the host's operator has divided GPUs, if at all."""
    instances = sum(1 for _ in places.proc.glob("capabilities/gpu*/mig/gi*"))
    if instances:
        yield _optional(
            "MIG", ok=True, text=f"{instances} instances; `nvidia-smi -L` lists their UUIDs, for cuda:MIG-..."
        )
    if (places.mps / "control").exists():
        text = f"a control daemon runs in {places.mps}; workers do not use it: a fault of one VM would end all"
        yield _optional("MPS", ok=True, text=text)


def _optional(name: str, ok: bool, text: str, hint: str = "") -> Finding:
    return Finding(name, ok, text, hint, optional=True)
