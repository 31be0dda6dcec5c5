"""A control system over fake VMs in this process, and a client of its API."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes.control_vm import FakeControlledVm, FakeHost
from tests.fakes.daemon import FakeCompiler
from vhost_backend.control.system import ControlSystem
from vhost_backend.control_config import ControlConfig
from vhost_backend.log import get_logger
from virtio_proto.control import frames
from virtio_proto.control.frames import Frame

TIMEOUT_S: Final = 20.0


class ApiRefusedError(Exception):
    """The daemon answered with an error."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {text}")


class Client:
    """One connection to the control API; requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.pushes: deque[Frame] = deque()
        self._ids = itertools.count(1)

    @classmethod
    async def connect(cls, path: Path) -> Client:
        return cls(*await asyncio.open_unix_connection(path))

    async def ask(self, verb: str, **fields: Any) -> Any:
        """What the daemon answers.

        :raise ApiRefusedError: it refuses.
        """
        number = next(self._ids)
        self.send({"id": number, "do": verb, "with": fields})
        while (frame := await self.read()).get("id") != number:
            self.pushes.append(frame)
        if "error" in frame:
            raise ApiRefusedError(frame["error"]["kind"], frame["error"]["text"])
        return frame["ok"]

    def send(self, frame: Frame) -> None:
        self.writer.write(frames.encode(frame))

    async def read(self) -> Frame:
        async with asyncio.timeout(TIMEOUT_S):
            frame = await frames.read(self.reader)
        if frame is None:
            raise EOFError("the daemon hung up")
        return frame

    async def push(self, kind: str, condition: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """The next push of this kind that is so; earlier ones of others are left out."""
        while True:
            frame = self.pushes.popleft() if self.pushes else await self.read()
            if frame.get("push") == kind and condition(frame):
                return frame

    async def event(self, name: str) -> Frame:
        return await self.push("event", lambda frame: frame["event"] == name)

    async def refusal(self, verb: str, **fields: Any) -> ApiRefusedError:
        """The error that a request is answered with."""
        with pytest.raises(ApiRefusedError) as caught:
            await self.ask(verb, **fields)
        return caught.value


class ManualClock:
    """Time that passes when a test says so."""

    def __init__(self, now_ns: int = 1_800_000_000_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


class Rig:
    """A control system that runs, and its clients."""

    def __init__(self, folder: Path, vms: tuple[FakeControlledVm, ...], clock: ManualClock, **config: Any) -> None:
        self.path = folder / "control.sock"
        self.vms = {vm.name: vm for vm in vms}
        self.clock = clock
        self.config = ControlConfig(socket=self.path, host="h1", **config)
        self.system = ControlSystem(self.config, vms, FakeHost(), FakeCompiler(), get_logger(), clock_ns=clock)
        self._clients: list[Client] = []

    async def client(self, token: str | None = None) -> Client:
        """A connection that has said hello."""
        client = await Client.connect(self.path)
        self._clients.append(client)
        fields = {"version": 1} if token is None else {"version": 1, "token": token}
        await client.ask("hello", **fields)
        return client

    async def raw(self) -> Client:
        """A connection that has said nothing."""
        client = await Client.connect(self.path)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()


@asynccontextmanager
async def rig(folder: Path, *vms: FakeControlledVm, **config: Any) -> AsyncIterator[Rig]:
    """With the VMs "web1" of four elements and "web2" of two, unless others are given."""
    vms = vms or (FakeControlledVm("web1", 4), FakeControlledVm("web2", 2))
    made = Rig(folder, vms, ManualClock(), **config)
    async with made.system.running():
        try:
            yield made
        finally:
            await made.close()
