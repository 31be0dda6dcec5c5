"""Construction of the daemon's compile service: one for all VMs, for the programs of every engine."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from vhost_backend.compiler.cache import DiskCache
from vhost_backend.compiler.job import CompileJob, Target
from vhost_backend.compiler.service import CompileService
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import DriverError, EngineError
from vhost_backend.log import get_logger
from vhost_backend.sandbox.terms import STRICT_MODES
from virtio_proto.schema import ProgramKind, Status

_COUNTS_BY_NAMESPACE: Final = (5, 14)
"""Linux that counts a user's processes in each user namespace [RLIMIT_NPROC, user_namespaces(7)]."""


def default_cache() -> Path:
    """Folder of compiled programs if the configuration names none."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vgcd"


def describe(target: Target, kind: ProgramKind, source: bytes, options: tuple[str, ...]) -> CompileJob:
    """Describes how the engine of `target` compiles `source`.

    :raise DriverError: the engine refuses the source; the text goes to the guest.
    """
    try:
        return engine_class(target.engine).compile_job(kind.name, source, options, dict(target.settings))
    except (ValueError, EngineError) as error:
        raise DriverError(Status.COMPILE_FAILED, str(error)) from error


def compile_service(config: DaemonConfig) -> CompileService:
    """Makes the service for the VMs of `config`; `admit` adds others.

    :raise HostError: the cache cannot be used.
    """
    disk = DiskCache(config.cache or default_cache())
    service = CompileService(describe, disk, mode="best-effort", log=get_logger())
    for vm in config.vms:
        admit(service, vm)
    return service


def admit(service: CompileService, vm: VmConfig) -> None:
    """Has the service compile for a VM in its quarters; its sandbox is as strict as that of the strictest VM so far.

    Kernels before 5.14 count a user's processes across user namespaces, so that a VM's worker and its compilers would be
    in the way of each other's limits: there the compilers of all VMs share a user.
    """
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    quarters = vm.quarters if release >= _COUNTS_BY_NAMESPACE else replace(vm.quarters, user=None)
    service.admit(vm.name, cache_domain(vm), quarters, "strict" if vm.sandbox in STRICT_MODES else "best-effort")


def cache_domain(vm: VmConfig) -> str:
    """Cache domain of a VM: a shared one as configured, else one that is the VM's alone."""
    return f"vm {vm.uuid}" if vm.cache_domain is None else f"shared {vm.cache_domain}"
