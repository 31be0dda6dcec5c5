"""A daemon with one VM on the CPU engine, a guest in this process, and firmware images as operators make them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import guest_driver as vgc
from tests.fakes.api_caller import ApiCaller
from tests.fakes.attached import AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.guest import open_device
from tests.unit.vgcctl_rig import Ran, vgcctl
from vhost_backend import cli
from vhost_backend.config.daemon import MIB, ControlConfig, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.control.firmware import build
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker

VM: Final = "web1"
PES: Final = 3
BUILT_IN: Final = build.built_in()
SOURCE: Final = r"""
#include <vgc.h>
// *wanted: so many lines are wanted of each block, < 0: the end; made: so many each has made
extern "C" __global__ void speaks(volatile int *wanted, volatile int *made, int *out) {
    int lines = 0;
    while (vgc_poll() && *wanted >= 0)
        if (lines < *wanted) {
            printf("line %d of block %d\n", lines, blockIdx.x);
            made[blockIdx.x] = ++lines;
        }
    out[blockIdx.x] = 100 * lines + blockIdx.x;
}
extern "C" __global__ void numbers(int *out) { out[blockIdx.x] = 3 * blockIdx.x; }
extern "C" __global__ void crashes() { *(volatile int *)8 = 1; }
"""

Change = tuple[str, str]
"""A text of the control code, and its replacement in a modified copy."""
TEST: Final = "    struct vgc_ctl_unit tested = *unit;\n"
UNHEALTHY: Final[Change] = (TEST, TEST + "    return 99;\n")
"""Change for an image that fails its self test."""


@dataclass
class Factory:
    """Keys and images, made with the commands that operators use."""

    folder: Path
    made: dict[tuple[Any, ...], Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("trusted", "other"):
            (self.folder / name).mkdir()
            vgcd("firmware", "keygen", str(self.folder / name))

    @property
    def public_key(self) -> Path:
        return self.folder / "trusted" / "firmware.pub"

    def image(self, version: str = "2.0.0", *changes: Change, key: str = "trusted") -> Path:
        """Makes an image of this installation's control code, or of a copy with `changes`; returns the file."""
        path = self.folder / f"control-{len(self.made)}.vgcfw"
        if (version, changes, key) not in self.made:
            given = ["--version", version, "--key", str(self.folder / key / "firmware.key"), str(path)]
            source = ["--source", str(self._copy(changes))] if changes else []
            vgcd("firmware", "build", *source, *given)
            self.made[version, changes, key] = path
        return self.made[version, changes, key]

    def _copy(self, changes: Sequence[Change]) -> Path:
        folder = self.folder / f"source-{len(self.made)}"
        shutil.copytree(build.SOURCES, folder)
        for before, after in changes:
            (path,) = [path for path in folder.rglob("*.[hc]*") if before in path.read_text()]
            path.write_text(path.read_text().replace(before, after))
        return folder


def vgcd(*argv: str) -> None:
    """Runs a command of ``vgcd``, which must succeed."""
    assert cli.main(argv) == 0


@dataclass
class Stage:
    """The daemon, its control API, and the guest."""

    daemon: DaemonThread
    path: Path
    link: AttachedLink
    device: vgc.Device
    program: vgc.Program
    stream: vgc.Stream
    caller: ApiCaller

    def stage(self, image: Path) -> dict[str, Any]:
        return dict(self.caller.ask("stage_firmware", image=image.read_bytes(), selector=f"vm={VM}"))

    def activate(self, version: str, selector: str = f"vm={VM}") -> dict[str, Any]:
        return dict(self.caller.ask("activate_firmware", version=version, selector=selector))

    def roll_back(self) -> dict[str, Any]:
        return dict(self.caller.ask("rollback_firmware", selector=f"vm={VM}"))

    def active(self) -> list[str]:
        """Firmware version of each element, as the daemon reports it."""
        return [pe["active"] for pe in self.caller.ask("firmware")["pes"]]

    def vgcctl(self, *argv: str) -> Ran:
        return asyncio.run(vgcctl(*argv, "--daemon", f"unix:{self.path}"))

    def worker_pid(self) -> int:
        pid = self.daemon.ask(lambda daemon: daemon.vms[VM].worker_pid)
        assert pid is not None
        return pid

    def renew(self) -> None:
        """Resets the guest's device and loads its program again, once a new worker is ready."""
        self.link.wait_ready(self.device.info().generation)
        self.device.reset()
        self.program = self.device.compile(SOURCE)
        self.stream = self.device.stream()

    def kill_worker(self, signal: int) -> None:
        """Kills the worker and waits for the next one."""
        os.kill(self.worker_pid(), signal)
        self.caller.event("worker_lost")
        self.caller.event("worker_ready")

    def numbers(self, blocks: int = 16) -> None:
        """Runs a kernel in the guest and checks its results."""
        out = self.device.zeros(blocks, "int32")
        self.program["numbers"][blocks, 1](out)
        assert out.get().tolist() == [3 * block for block in range(blocks)]


@contextmanager
def daemon_with_guest(folder: Path, cache: Path, factory: Factory, **settings: Any) -> Iterator[Stage]:
    """A daemon that trusts `factory`, with a guest that has `SOURCE`; `settings`: of its `VmConfig`."""
    quota = QuotaConfig(pes=PES, memory_bytes=64 * MIB)
    engine = EngineConfig("cpu")
    vm = VmConfig(VM, vm_uuid(VM), folder / VM, engine=engine, quota=quota, num_queues=2, sandbox=SANDBOX, **settings)
    control = ControlConfig(
        socket=folder / "control", host="h1", budget_percent=100.0, firmware_keys=(factory.public_key,)
    )
    config = DaemonConfig((vm,), cache=cache, control=control)
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon:
        link = AttachedLink(folder / VM, num_queues=2)
        link.name = VM
        link.wait_ready()
        device = open_device(link, folder / "state")
        with ApiCaller(folder / "control") as caller:
            yield Stage(daemon, folder / "control", link, device, device.compile(SOURCE), device.stream(), caller)
        device.close()
        link.close()
