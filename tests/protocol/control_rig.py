"""The real daemon with its control system, real workers on the CPU engine, and the guests of its VMs in this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import guest_driver as vgc
from tests.fakes.api_caller import ApiCaller
from tests.fakes.attached import AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.guest import open_device
from vhost_backend.config.daemon import MIB, ControlConfig, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from virtio_proto.control import tokens as token_lines


@dataclass
class Guest:
    """A VM's guest, in this process."""

    link: AttachedLink
    device: vgc.Device
    program: vgc.Program
    stream: vgc.Stream
    generation: int
    source: str

    def renew(self) -> None:
        """Resets the device and compiles anew if the worker was replaced since."""
        self.link.wait_ready()
        if (generation := self.device.info().generation) != self.generation:
            self.device.reset()
            self.program = self.device.compile(self.source)
            self.stream = self.device.stream()
            self.generation = generation


@dataclass
class Stage:
    """A daemon, its control API and its guests."""

    daemon: DaemonThread
    path: Path
    guests: dict[str, Guest]
    tokens: dict[str, str]

    def caller(self, vm: str | None = None) -> ApiCaller:
        """Connects as the daemon's own user, or as a VM's owner."""
        return ApiCaller(self.path, None if vm is None else self.tokens[vm])

    def renew(self) -> None:
        """Resets the devices of guests that lost theirs."""
        for guest in self.guests.values():
            guest.renew()

    def kill_worker(self, vm: str) -> None:
        pid = self.daemon.ask(lambda daemon: daemon.vms[vm].worker_pid)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


@contextmanager
def control_stage(folder: Path, names: Sequence[str], source: str, pes: int, **control: Any) -> Iterator[Stage]:
    """A daemon with these VMs of `pes` elements, whose guests have compiled `source`; each VM's owner has a token."""
    secrets = {vm: token_lines.new("operate", frozenset({vm}), None, f"owner-of-{vm}") for vm in names}
    (folder / "tokens").write_text("\n".join(token.line() for _, token in secrets.values()))
    quota = QuotaConfig(pes=pes, memory_bytes=64 * MIB)
    vms = tuple(
        VmConfig(vm, vm_uuid(vm), folder / vm, engine=EngineConfig("cpu"), quota=quota, num_queues=2, sandbox=SANDBOX)
        for vm in names
    )
    section = ControlConfig(socket=folder / "control", tokens=folder / "tokens", host="h1", **control)
    config = DaemonConfig(vms, cache=folder / "cache", control=section)
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon:
        guests = {vm: _guest(folder, vm, source) for vm in names}
        yield Stage(daemon, folder / "control", guests, {vm: secret for vm, (secret, _) in secrets.items()})
        for guest in guests.values():
            guest.device.close()
            guest.link.close()


def _guest(folder: Path, vm: str, source: str) -> Guest:
    link = AttachedLink(folder / vm, num_queues=2)
    link.name = vm
    link.wait_ready()
    device = open_device(link, folder / f"{vm}-state")
    return Guest(link, device, device.compile(source), device.stream(), device.info().generation, source)
