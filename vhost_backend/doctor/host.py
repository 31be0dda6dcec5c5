"""Checks of `vgcd doctor`: what this host needs to run the daemon, and how to get what is missing."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from vhost_backend.cgroups import host as cgroups
from vhost_backend.cgroups import weights
from vhost_backend.cores import lists
from vhost_backend.doctor import control as control_doctor
from vhost_backend.doctor import gpu as gpu_doctor
from vhost_backend.doctor import remedies
from vhost_backend.doctor.finding import Finding
from vhost_backend.errors import HostError
from vhost_backend.sandbox import build, launch, spawn

QEMU: Final = "qemu-system-x86_64"
QEMU_DEVICE: Final = "vhost-user-test-device-pci"
COMPILER: Final = Path(__file__).parents[1] / "engines" / "cpu" / "compiler" / "build" / "vgc-cpucc"
MIN_SHM_BYTES: Final = 64 << 20
_MODULES: Final = {
    "construct": "construct",
    "cffi": "cffi",
    "numpy": "numpy",
    "yaml": "pyyaml",
    "structlog": "structlog",
}
_BUILT: Final = {"virtio_proto._vring": "rings", "vhost_backend._dataplane": "data plane"}
_PRECOMPILE_HINT: Final = "python -m vhost_backend.engines.cpu.precompile"
_PROBE_S: Final = 60
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  looked at, never written


def _modules() -> Iterator[Finding]:
    for module, package in _MODULES.items():
        found = importlib.util.find_spec(module) is not None
        yield Finding(f"Python module {module}", found, "found" if found else "missing", remedies.module(package))
    for module, what in _BUILT.items():
        found = importlib.util.find_spec(module) is not None
        yield Finding(f"compiled module {module}", found, what if found else "not built", remedies.part())


def _python() -> Iterator[Finding]:
    wanted = (3, 11)
    yield Finding("Python", sys.version_info >= wanted, sys.version.split()[0], "Python 3.11 or later")


def _kernel() -> Iterator[Finding]:
    calls = ("memfd_create", "pidfd_open", "eventfd")
    missing = [name for name in calls if not hasattr(os, name)]
    yield Finding("kernel", not missing, ", ".join(missing) or os.uname().release, "Linux 5.9 or later")


def _compiler() -> Iterator[Finding]:
    yield Finding("CPU engine's compiler", COMPILER.exists(), str(COMPILER), remedies.part())
    names = ("clang-19", "clang", "cc", "gcc")
    found = next((path for name in names if (path := shutil.which(name))), None)
    hint = "apt-get install clang-19 llvm-19-dev libclang-19-dev liblld-19-dev lld-19 zlib1g-dev libzstd-dev"
    yield from _headers()
    if not remedies.package():
        yield Finding("C compiler (to build with)", found is not None, found or "none", hint, optional=True)


def _headers() -> Iterator[Finding]:
    if importlib.util.find_spec("vhost_backend._dataplane") is None:
        return  # without which the engine cannot be imported
    from vhost_backend.engines.cpu import cccl, host_headers, preludes, toolchain

    name = "C and C++ headers of programs"
    try:
        folders = host_headers.host_headers(COMPILER, toolchain.LLVM_DIR).folders
    except HostError as error:
        yield Finding(name, ok=False, text=error.text, hint=error.hint)
    else:
        yield Finding(name, ok=True, text=", ".join(map(str, folders)), hint=host_headers.HINT)
    faults = [f"{one.path.stem}: {one.fault}" for one in toolchain.made_preludes() if one.fault]
    text = "; ".join(faults) or "whole, and of these headers"
    hint = f"rm -r {COMPILER.parent / preludes.FOLDER} && {remedies.part()}"
    yield Finding("precompiled headers", not faults, text, hint, optional=True)
    libraries = cccl.cccl()
    text = "none; programs for the CPU engine cannot include them"
    if libraries is not None:
        text = f"{libraries.version or 'found'}, in {libraries.folder}"
    yield Finding("CUB, Thrust and libcu++", libraries is not None, text, cccl.HINT, optional=True)
    if libraries is not None:
        made = toolchain.made_cccl_preludes(libraries)
        faults = [f"{one.path.stem}: {one.fault}" for one in made if one.fault]
        text = "; ".join(faults) or ("whole, and of these headers" if made else "none: programs compile 1.5 s later")
        yield Finding("CUB and Thrust, precompiled", bool(made) and not faults, text, _PRECOMPILE_HINT, optional=True)


def _builtins() -> Iterator[Finding]:
    if importlib.util.find_spec("vhost_backend._dataplane") is None:
        return
    from vhost_backend.engines.cpu.builtins import library

    name, own, openblas = "built-in functions", library.library(), library.openblas()
    if own is None:
        yield Finding(name, ok=False, text="not built: the engine 'cpu' has none", hint=remedies.part(), optional=True)
        return
    try:
        ctypes.CDLL(str(own))
    except OSError as error:
        yield Finding(
            name, ok=False, text=str(error), hint=f"apt-get install libhwy1, or {remedies.part()}", optional=True
        )
        return
    yield Finding(name, ok=True, text=f"for {own.parent.name}", optional=True)
    text = "none: matrices cannot be multiplied" if openblas is None else str(openblas)
    yield Finding("OpenBLAS of these", openblas is not None, text, remedies.module("scipy-openblas64"), optional=True)


def _sandbox() -> Iterator[Finding]:
    launcher = build.LAUNCHER
    yield Finding("sandbox launcher", launcher.exists(), str(launcher), remedies.part())
    if launcher.exists():
        missing = launch.missing_feature()
        text = "namespaces and seccomp work" if missing is None else str(missing)
        yield Finding("sandbox", missing is None, text, "a kernel and a container policy that allow it")


def _users() -> Iterator[Finding]:
    name = "users of workers"
    try:
        among = spawn.users_of_workers()
    except HostError as error:
        yield Finding(name, ok=False, text=f"all VMs' workers share one: {error.text}", hint=error.hint, optional=True)
    else:
        yield Finding(name, ok=True, text=f"{among}, one for each VM", optional=True)


def _cgroups() -> Iterator[Finding]:
    try:
        home = cgroups.find()
    except HostError as error:
        yield Finding("control groups", ok=False, text=error.text, hint=error.hint, optional=True)
        return
    text = (
        f"version {home.group.version}: bounds on all memory, processor time and processes of each VM and compiler; "
        "processors are shared by the VMs' weights"
    )
    home.close()
    yield Finding("control groups", ok=True, text=text, hint=cgroups.HINT, optional=True)


def _weights() -> Iterator[Finding]:
    """Says how `quota.weight` counts where VMs have no control groups."""
    unit, least = weights.sharing(), weights.least_nice()
    highest = f"{weights.highest(least)}" if least > weights.LEAST_NICE else "any"
    text = f"nice values, where there are no control groups: counted for each {unit}; highest weight: {highest}"
    yield Finding("weights of VMs", ok=True, text=text, optional=True)


def _cores() -> Iterator[Finding]:
    """Says how `quota.cores` holds, and how many there are."""
    there = os.sched_getaffinity(0)
    text = (
        f"{len(there) - 1} of {lists.shown(there)}: by the affinity of threads, which no sandboxed process can change"
    )
    hint = "a host with two processors, or fewer bounds on those of vgcd (CPUAffinity=, AllowedCPUs=)"
    yield Finding("cores of VMs' own", len(there) > 1, text, hint, optional=True)


def _qemu() -> Iterator[Finding]:
    program = shutil.which(QEMU)
    hint = (
        f"QEMU 10.2 or later, for its {QEMU_DEVICE} (Debian 13: apt-get install -t trixie-backports qemu-system-x86); in a"
        " checkout, 'python -m tools.qemu' unpacks Debian's and says where"
    )
    if program is None:
        yield Finding("QEMU", ok=False, text=f"no {QEMU} in PATH", hint=hint, optional=True)
        return
    argv = [program, "-device", f"{QEMU_DEVICE},help"]
    try:
        has = subprocess.run(argv, capture_output=True, check=False, timeout=_PROBE_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        has = False
    text = f"{program} has {QEMU_DEVICE}" if has else f"{program} has no {QEMU_DEVICE}"
    yield Finding("QEMU", has, text, hint, optional=True)


def _kvm() -> Iterator[Finding]:
    usable = os.access("/dev/kvm", os.R_OK | os.W_OK)
    text = (
        "/dev/kvm can be opened (only a boot shows whether it works)"
        if usable
        else "guests run emulated, which is slow"
    )
    yield Finding("KVM", usable, text, "a host with virtualisation, and the group kvm", optional=True)


def _shared_memory() -> Iterator[Finding]:
    try:
        status = os.statvfs(_SHARED_MEMORY)
        free = status.f_bavail * status.f_frsize
    except OSError:
        free = 0
    text = f"{free >> 20} MiB free; each VM's region takes its size"
    yield Finding(_SHARED_MEMORY, free >= MIN_SHM_BYTES, text, "mount -o remount,size=1G /dev/shm")


CHECKS: Final[tuple[Callable[[], Iterator[Finding]], ...]] = (
    _python,
    _kernel,
    _modules,
    _sandbox,
    _users,
    _cgroups,
    _weights,
    _cores,
    _compiler,
    _builtins,
    _shared_memory,
    gpu_doctor.examine,
    control_doctor.examine,
    _qemu,
    _kvm,
)


def examine() -> Iterator[Finding]:
    """Runs all checks in order; takes a second or two."""
    for check in CHECKS:
        for finding in check():
            yield replace(finding, hint=remedies.of_debian(finding.hint))
