"""What this host has for the CUDA engine, and what it lacks. Nothing of it is needed: the CPU engine works without."""

from __future__ import annotations

import asyncio
import grp
import importlib.util
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.daemon.engines import CompilerCheck, compiler_problem
from vhost_backend.daemon.gpus import Gpu, Survey, survey
from vhost_backend.engines.cuda.driver import INSTALL
from vhost_backend.finding import Finding
from vhost_backend.sandbox import build, launch

_DRIVER_HINT: Final = (
    "NVIDIA's driver 550 or newer: NVIDIA's own packages, or nvidia-driver of Debian 13 (Debian 12 has 535)"
)
_NODE: Final = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm")
_ALL: Final = stat.S_IROTH | stat.S_IWOTH
_MPS_FOLDER: Final = "/tmp/nvidia-mps"  # noqa: S108  looked at, never written


@dataclass(frozen=True, slots=True)
class Places:
    """Where things lie on a host; tests have others."""

    driver: str | None = None
    """None: the system's."""
    dev: Path = Path("/dev")
    proc: Path = Path("/proc/driver/nvidia")
    mps: Path = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _MPS_FOLDER))
    compiler: CompilerCheck = compiler_problem


def examine(places: Places | None = None) -> Iterator[Finding]:
    """Looks at everything that a VM on a GPU takes; where there is no driver, at nothing further."""
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
    yield from _sandbox()
    yield from _modes(places)


def _bindings() -> Finding:
    try:
        there = importlib.util.find_spec("cuda.bindings.driver") is not None
    except ModuleNotFoundError:
        there = False
    return _optional("Python module cuda.bindings", there, "found" if there else "missing", INSTALL)


def _driver(found: Survey) -> Finding:
    if not found.driver_version:
        hint = _DRIVER_HINT if "not found" in found.problem else ""  # else the problem says what to do
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
    """Whether workers can open the device nodes: they have our user, or are nobody if we are root."""
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
    """For each kind of GPU that is here. A problem says what to do about it."""
    for arch in dict.fromkeys(gpu.arch for gpu in found.gpus):
        problem = check(arch, found.driver_version, "auto")
        name = f"CUDA compiler for {arch}"
        yield _optional(name, problem is None, problem or f"there is one for CUDA {found.driver_version}")


def _sandbox() -> Iterator[Finding]:
    """Workers on a GPU need a /proc of their own, which some containers do not give."""
    if build.LAUNCHER.exists():
        missing = launch.missing_feature(proc=True)
        text = "works" if missing is None else str(missing)
        yield _optional(
            "sandbox of GPU workers", missing is None, text, "a container policy that allows mounting /proc"
        )


def _modes(places: Places) -> Iterator[Finding]:
    """What a host's operator may have set up to divide GPUs."""
    instances = sum(1 for _ in places.proc.glob("capabilities/gpu*/mig/gi*"))
    if instances:
        yield _optional(
            "MIG", ok=True, text=f"{instances} instances; `nvidia-smi -L` lists their UUIDs, for cuda:MIG-..."
        )
    if (places.mps / "control").exists():
        text = f"a control daemon runs in {places.mps}; workers do not see it, as with it a fault of one VM ends all"
        yield _optional("MPS", ok=True, text=text)


def _optional(name: str, ok: bool, text: str, hint: str = "") -> Finding:
    return Finding(name, ok, text, hint, optional=True)
