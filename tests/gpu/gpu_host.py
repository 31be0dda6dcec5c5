"""The real daemon with VMs on a GPU, and their devices in this process: only QEMU is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.fakes.attached import AttachedLink
from tests.fakes.guest import REPOSITORY, open_device
from tests.limits import HANGS_AFTER_S
from tests.vm.vgcd import Vgcd, VmSettings

TIMEOUT_S: Final = HANGS_AFTER_S
DEADLINE_S: Final = 1
"""Deadline of a launch: long for a kernel of these tests, short for one that hangs."""


def vm(gpu: Gpu, name: str = "a", *, pes: int | None = None, memory: str = "256M", **extra: Any) -> VmSettings:
    """Configuration of a VM, with the whole GPU by default; `extra` replaces keys of its section."""
    section = {
        "engine": gpu.engine(),
        "sandbox": "best-effort",
        "deadline": f"{DEADLINE_S}s",
        "quota": {"pes": pes or gpu.num_pes, "memory": memory},
    }
    return VmSettings(name, extra=section | extra)


class GpuHost:
    """A running daemon; made by `gpu_host`."""

    def __init__(self, vgcd: Vgcd, stack: ExitStack) -> None:
        self.vgcd = vgcd
        self._stack = stack
        self._links: dict[str, AttachedLink] = {}

    def link(self, name: str = "a") -> AttachedLink:
        """The VM's link, connected and ready."""
        if name not in self._links:
            made = AttachedLink(self.vgcd.folder / f"{name}.sock", num_queues=4)
            self._links[name] = self._stack.enter_context(made)
            made.wait_ready()
        return self._links[name]

    def open(self, name: str = "a", output: TextIO | None = None) -> vgc.Device:
        """Opens the VM's device in this process; it is closed with the host."""
        state = self.vgcd.folder / f"state-{name}"
        return self._stack.enter_context(open_device(self.link(name), state, output=output))

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs a guest's program to its end."""
        link = self.link()
        environment = {"VGC_MEMFD": link.description, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [str(word) for word in argv],
            check=False,
            cwd=REPOSITORY,
            env=os.environ | environment | {"VGC_STATE_DIR": str(self.vgcd.folder / "state-a")},
            pass_fds=link.fds,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )


@contextmanager
def gpu_host(*vms: VmSettings) -> Iterator[GpuHost]:
    """A daemon for these VMs, as a process of its own, with compiler, walls and workers."""
    with Vgcd(*vms) as vgcd, ExitStack() as stack:
        yield GpuHost(vgcd, stack)
