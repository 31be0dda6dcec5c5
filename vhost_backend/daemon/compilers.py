"""The compile service as the daemon uses it: one for all VMs, with every engine's way to compile."""

from __future__ import annotations

import os
from pathlib import Path

from vhost_backend.compiler.cache import DiskCache
from vhost_backend.compiler.job import CompileJob, Target
from vhost_backend.compiler.service import CompileService
from vhost_backend.config import DaemonConfig, SandboxMode
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import DriverError, EngineError
from vhost_backend.log import get_logger
from virtio_proto.schema import ProgramKind, Status


def default_cache() -> Path:
    """Where compiled programs are kept if the configuration does not say."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vgcd"


def describe(target: Target, kind: ProgramKind, source: bytes, options: tuple[str, ...]) -> CompileJob:
    """How the engine of `target` compiles `source`.

    :raise DriverError: it does not; the text goes to the guest.
    """
    try:
        return engine_class(target.engine).compile_job(kind.name, source, options, dict(target.settings))
    except (ValueError, EngineError) as error:
        raise DriverError(Status.COMPILE_FAILED, str(error)) from error


def compile_service(config: DaemonConfig) -> CompileService:
    """The service for all VMs of `config`; as strict as the strictest of them.

    :raise HostError: the cache cannot be used.
    """
    strict = any(vm.sandbox == "strict" for vm in config.vms)
    disk = DiskCache(config.cache or default_cache())
    mode: SandboxMode = "strict" if strict else "best-effort"
    return CompileService(describe, disk, mode=mode, log=get_logger())
