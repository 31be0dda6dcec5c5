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
from vhost_backend.config.daemon import DaemonConfig, SandboxMode
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import DriverError, EngineError
from vhost_backend.log import get_logger
from vhost_backend.quarters import Quarters
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
    """Makes the service for all VMs of `config`; its sandbox is as strict as that of the strictest VM.

    :raise HostError: the cache cannot be used.
    """
    strict = any(vm.sandbox in STRICT_MODES for vm in config.vms)
    disk = DiskCache(config.cache or default_cache())
    mode: SandboxMode = "strict" if strict else "best-effort"
    domains, quarters = cache_domains(config), compile_quarters(config)
    return CompileService(describe, disk, mode=mode, log=get_logger(), domains=domains, quarters=quarters)


def compile_quarters(config: DaemonConfig) -> dict[str, Quarters]:
    """Quarters of each VM's compilers, by the VM's name: the VM's.

    Kernels before 5.14 count a user's processes across user namespaces, so that a VM's worker and its compilers would be
    in the way of each other's limits: there the compilers of all VMs share a user.
    """
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    own_user = release >= _COUNTS_BY_NAMESPACE
    return {vm.name: vm.quarters if own_user else replace(vm.quarters, user=None) for vm in config.vms}


def cache_domains(config: DaemonConfig) -> dict[str, str]:
    """Cache domain of each VM, by the VM's name: shared ones as configured, else one that is the VM's alone."""
    return {vm.name: f"vm {vm.uuid}" if vm.cache_domain is None else f"shared {vm.cache_domain}" for vm in config.vms}
