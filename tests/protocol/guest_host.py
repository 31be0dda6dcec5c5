"""A daemon with one VM on the CPU engine, and the guest's link to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.attached import REGION_BYTES, AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S, NO_DEADLINE_NS
from tests.waiting import until
from vhost_backend.config.daemon import (
    MIB,
    ControlConfig,
    DaemonConfig,
    EngineConfig,
    QuotaConfig,
    SandboxMode,
    VmConfig,
    vm_uuid,
)
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.engines import host_engines
from vhost_backend.daemon.process import sandboxed_worker


@dataclass
class GuestHost:
    """A daemon whose one VM has a link."""

    daemon: DaemonThread
    link: AttachedLink
    state_dir: Path

    def kill_worker(self) -> None:
        pid = self.daemon.ask(lambda daemon: next(iter(daemon.vms.values())).worker_pid)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def restart_guest(self) -> None:
        """Ends the guest, and starts a second, which has nothing of the first."""
        self.link.close()
        path = self.daemon.ask(lambda daemon: next(iter(daemon.vms.values())).config.socket)
        assert path is not None
        self.link = AttachedLink(path, region_bytes=self.link.region.size, num_queues=4)
        self.link.wait_ready()
        self.state_dir = self.state_dir.with_name(self.state_dir.name + "-next")

    def lose_worker(self) -> None:
        """Kills the worker, and waits for the next one: a process that is killed may still answer."""

        def pid() -> int | None:
            return self.daemon.ask(lambda daemon: next(iter(daemon.vms.values())).worker_pid)

        before = pid()
        self.kill_worker()
        until(lambda: pid() not in (before, None))

    def run(self, *argv: str | Path, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
        """Runs a guest's program to its end."""
        return run_on((self,), *argv, cwd=cwd)

    def python(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, *arguments)


def guest_variables(hosts: Sequence[GuestHost]) -> dict[str, str]:
    """Environment of programs of a guest that has the device of each host; they inherit the links' descriptors."""
    described = [host.link.description for host in hosts]
    if len(hosts) > 1:
        described = [text.replace("name=", f"name={i}-") for i, text in enumerate(described)]
    return {
        "VGC_MEMFD": ";".join(described),
        "VGC_STATE_DIR": str(hosts[0].state_dir),
        "PYTHONPATH": str(REPOSITORY),
    }


def run_on(hosts: Sequence[GuestHost], *argv: str | Path, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Runs a program of a guest that has the device of each host."""
    return subprocess.run(
        [str(word) for word in argv],
        check=False,
        cwd=cwd,
        env=os.environ | guest_variables(hosts),
        pass_fds=[fd for host in hosts for fd in host.link.fds],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )


@contextmanager
def guest_host(
    folder: Path,
    deadline_ns: int = NO_DEADLINE_NS,
    engine: EngineConfig | None = None,
    memory_mib: int = 64,
    control: ControlConfig | None = None,
    *,
    name: str = "a",
    programs: Path | None = None,
    pes: int = 2,
    sandbox: SandboxMode = SANDBOX,
    link_folder: Path | None = None,
    region_bytes: int = REGION_BYTES,
) -> Iterator[GuestHost]:
    """`pes` processing elements, `memory_mib` of device memory, launches of any length unless told otherwise; without a
    control system unless `control` says where its socket is. `name` is the VM's. `programs`: folder of kept programs.
    `link_folder`: folder of the link's files.
    """
    vm = VmConfig(
        name,
        vm_uuid(name),
        folder / "a",
        region_bytes,
        engine=engine or EngineConfig("cpu"),
        quota=QuotaConfig(pes=pes, memory_bytes=memory_mib * MIB),
        deadline_ns=deadline_ns,
        num_queues=4,
        sandbox=sandbox,
    )
    config = DaemonConfig((vm,), cache=folder / "cache", control=control or ControlConfig())
    engines = host_engines(has_control=False) if vm.engine.kind == "cuda" else None
    with DaemonThread(
        config, sandboxed_worker, compiler=compile_service(config), programs=programs, engines=engines
    ) as daemon:
        link = AttachedLink(folder / "a", region_bytes=region_bytes, num_queues=4, folder=link_folder)
        host = GuestHost(daemon, link, folder / "state")
        try:
            host.link.wait_ready()
            yield host
        finally:
            host.link.close()
