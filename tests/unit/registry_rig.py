"""A control system over fake VMs in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.api_client import Client
from tests.fakes.control_vm import FakeControlledVm, FakeHost
from tests.fakes.daemon import FakeCompiler
from tests.fakes.strict_event_bus import StrictEventBus
from vhost_backend.config.control import ControlConfig
from vhost_backend.control.system import ControlSystem
from vhost_backend.log import get_logger
from virtio_proto.control.api import API_VERSION


class ManualClock:
    """A clock that a test sets."""

    def __init__(self, now_ns: int = 1_800_000_000_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


class Rig:
    """A running control system, and its clients."""

    def __init__(self, folder: Path, vms: tuple[FakeControlledVm, ...], clock: ManualClock, **config: Any) -> None:
        self.path = folder / "control.sock"
        self.vms = {vm.name: vm for vm in vms}
        self.clock = clock
        self.config = ControlConfig(socket=self.path, host="h1", **config)
        self.bus = StrictEventBus(get_logger())
        self.host = FakeHost()
        self.system = ControlSystem(self.config, self.bus, self.host, FakeCompiler(), log=get_logger(), clock_ns=clock)
        for vm in vms:
            self.system.admit(vm)
        self._clients: list[Client] = []

    async def client(self, token: str | None = None) -> Client:
        """Opens a connection and sends ``hello``."""
        client = await Client.connect(self.path)
        self._clients.append(client)
        fields = {"version": API_VERSION} if token is None else {"version": API_VERSION, "token": token}
        await client.ask("hello", **fields)
        return client

    async def raw(self) -> Client:
        """Opens a connection, without ``hello``."""
        client = await Client.connect(self.path)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()


@asynccontextmanager
async def rig(folder: Path, *vms: FakeControlledVm, **config: Any) -> AsyncIterator[Rig]:
    """A rig with the VMs "web1" of four elements and "web2" of two, unless others are given."""
    made = Rig(folder, vms or (FakeControlledVm("web1", 4), FakeControlledVm("web2", 2)), ManualClock(), **config)
    async with made.system.running():
        try:
            yield made
        finally:
            await made.close()
