"""A real daemon with worker doubles, and frontends that connect to it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from tests.fakes.daemon import DaemonThread
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.worker import WorkerDouble, WorkerHost
from vhost_backend import log
from vhost_backend.compiler.service import Compiler
from vhost_backend.config.daemon import DaemonConfig, VmConfig, vm_uuid
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.supervisor import RestartPolicy
from virtio_proto.schema import Health

GPA, UVA, REGION_BYTES = 0x8000_0000, 0x7F00_0000_0000, 1 << 20


@pytest.fixture(autouse=True)
def logs() -> Iterator[io.StringIO]:
    """Collects the daemon's log of a test; pytest shows it when the test fails."""
    out = io.StringIO()
    log.configure("console", "debug", out)
    yield out
    structlog.reset_defaults()
    print(out.getvalue())  # noqa: T201


@pytest.fixture
def memory() -> Iterator[SharedFile]:
    """A region, in place of the ivshmem BAR."""
    fd = os.memfd_create("region", os.MFD_CLOEXEC)
    os.ftruncate(fd, REGION_BYTES)
    yield SharedFile(fd, REGION_BYTES, GPA, UVA)
    os.close(fd)


@pytest.fixture
def ring() -> Iterator[RingSetup]:
    """A well-formed ring in `memory`."""
    kick, call = (os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(2))
    yield RingSetup(0, 64, UVA, UVA + 0x1000, UVA + 0x2000, kick, call)
    os.close(kick)
    os.close(call)


@dataclass
class Stage:
    """A daemon with the VMs "a" and "b", and common actions of the tests."""

    folder: Path
    daemon: DaemonThread
    workers: WorkerHost
    opened: list[FakeFrontend]

    def connect(self, vm: str = "a") -> FakeFrontend:
        frontend = FakeFrontend.connect(self.folder / vm)
        self.opened.append(frontend)
        return frontend

    def attach(self, vm: str = "a") -> tuple[FakeFrontend, WorkerDouble]:
        """Connects a frontend that has negotiated; returns it with its worker, which is ready."""
        frontend = self.connect(vm)
        frontend.negotiate()
        worker = self.workers.next()
        worker.setup()
        frontend.wait_health(Health.READY)
        return frontend, worker


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Starts a daemon whose workers are doubles."""
    stages: list[Stage] = []

    def make(
        policy: RestartPolicy | None = None, compiler: Compiler | None = None, *, pace: Pace | None = None
    ) -> Stage:
        vms = tuple(VmConfig(name, vm_uuid(name), tmp_path / name, REGION_BYTES, num_queues=4) for name in "ab")
        workers = WorkerHost(tmp_path)
        daemon = DaemonThread(DaemonConfig(vms), workers.command, policy, compiler, pace=pace)
        daemon.__enter__()
        stages.append(Stage(tmp_path, daemon, workers, []))
        return stages[-1]

    yield make
    for stage in stages:
        for frontend in stage.opened:
            frontend.close()
        stage.daemon.__exit__(None, None, None)
        stage.workers.__exit__(None, None, None)


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage()
