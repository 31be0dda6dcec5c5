"""What the tests of the control centre share: simulated daemons, a centre over them and a client, on the test's loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientWebSocketResponse
from aiohttp.test_utils import TestClient, TestServer

from control_center import address
from control_center.access import Access, Tokens
from control_center.app import make_app
from control_center.centre import Centre
from control_center.cluster import Cluster
from control_center.host import Clocks, Host, HostConfig
from control_center.recording_port import Recorder
from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_world import Shape
from virtio_proto.control import tokens
from virtio_proto.control.api import Role

SHAPE = Shape(gpus=2, pes=4, vms_per_gpu=1)
"""h1 has h1-vm0 on GPU 0 and h1-vm1 on GPU 1, of four elements each."""
START_NS = 1_800_000_000 * 10**9
API = "/api/v1"


@dataclass
class Clock:
    """A clock that stands until a test moves it."""

    seconds: float = 0.0

    def clocks(self) -> Clocks:
        return Clocks(self.real_ns, lambda: self.seconds)

    def real_ns(self) -> int:
        return START_NS + int(self.seconds * 1e9)


@dataclass
class Answer:
    status: int
    body: Any

    @property
    def text(self) -> str:
        """Of the refusal that it is."""
        assert self.status >= 400, self.body
        return str(self.body["error"]["text"])


@dataclass
class Rig:
    """A control centre with a client. Hosts are polled when a test says so."""

    daemons: list[FakeDaemon]
    centre: Centre
    client: TestClient[Any, Any]
    clock: Clock
    secret: str | None = None
    sockets: list[ClientWebSocketResponse] = field(default_factory=list)

    @property
    def daemon(self) -> FakeDaemon:
        return self.daemons[0]

    def host(self, name: str = "h1") -> Host:
        return self.centre.cluster.hosts[name]

    async def poll(self) -> None:
        """Asks every host once, as the centre does each second."""
        await asyncio.gather(*(host.poll() for host in self.centre.cluster.hosts.values()))

    async def settle(self) -> None:
        """Until all that daemons have pushed so far has been taken: answers come behind it."""
        for host in self.centre.cluster.hosts.values():
            await host.ask("self")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Lets the loop run until something holds."""
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110  what it waits for is the state of many parts
                await asyncio.sleep(0.001)

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        headers = {} if self.secret is None else {"Authorization": f"Bearer {self.secret}"}
        async with self.client.request(method, API + path, json=body, params=query, headers=headers) as response:
            return Answer(
                response.status,
                await response.json() if response.content_type.endswith("json") else await response.text(),
            )

    async def get(self, path: str, **query: Any) -> Any:
        """What is answered, which must be no refusal."""
        answer = await self.ask("GET", path, **query)
        assert answer.status == 200, answer.body
        return answer.body

    async def post(self, path: str, body: Any) -> Any:
        answer = await self.ask("POST", path, body)
        assert answer.status == 200, answer.body
        return answer.body

    @contextlib.asynccontextmanager
    async def stream(self, **query: Any) -> AsyncIterator[Stream]:
        """A stream, once the centre has it."""
        protocols = ("vgc",) if self.secret is None else ("vgc", f"token.{self.secret}")
        before = len(self.centre.hub)
        async with self.client.ws_connect(f"{API}/stream", params=query, protocols=protocols) as socket:
            if "replay_from_ns" not in query:
                await self.until(lambda: len(self.centre.hub) > before)
            yield Stream(self, socket)


@dataclass
class Stream:
    rig: Rig
    socket: ClientWebSocketResponse

    async def next(self, *kinds: str) -> Any:
        """The next message, of one of the kinds."""
        async with asyncio.timeout(20):
            while True:
                message = json.loads(await self.socket.receive_str())
                if not kinds or message["type"] in kinds:
                    return message

    async def subscribe(self, **wanted: Any) -> None:
        await self.socket.send_json({"subscribe": wanted})

    async def listens(self, instance: int, daemon: FakeDaemon | None = None) -> None:
        """Until the daemon was told to send an instance's records."""
        asked = daemon or self.rig.daemon
        await self.rig.until(lambda: ("subscribe", {"records": [instance]}) in asked.asked)


@contextlib.asynccontextmanager
async def rig_of(
    folder: Path,
    hosts: int = 1,
    *,
    access: Access | None = None,
    recorder: Recorder | None = None,
    shape: Shape = SHAPE,
    clock: Clock | None = None,
    **more: Any,
) -> AsyncIterator[Rig]:
    """A centre over so many daemons, all up."""
    clock = clock or Clock()
    async with contextlib.AsyncExitStack() as stack:
        daemons = [
            await stack.enter_async_context(
                FakeDaemon(f"h{number}", folder / f"h{number}.sock", shape=shape, clock_ns=clock.real_ns)
            )
            for number in range(1, hosts + 1)
        ]
        configs = [
            HostConfig(daemon.world.host, address.parse(daemon.url), labels={"rack": str(index % 2)})
            for index, daemon in enumerate(daemons)
        ]
        cluster = Cluster(configs, clocks=clock.clocks(), poll_s=3600)
        centre = Centre(cluster, access or Access(now_ns=clock.real_ns), recorder, **more)
        await stack.enter_async_context(cluster)
        client = await stack.enter_async_context(TestClient(TestServer(make_app(centre))))
        rig = Rig(daemons, centre, client, clock)
        await rig.until(lambda: all(host.daemon and not host.reason for host in cluster.hosts.values()))
        await rig.poll()
        yield rig


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def token_file(path: Path, *lines: tuple[Role, Sequence[str] | None, int | None, str]) -> dict[str, str]:
    """Writes tokens of (role, vms, expires_ns, name); their secrets by name."""
    made = {
        name: tokens.new(role, None if vms is None else frozenset(vms), end, name) for role, vms, end, name in lines
    }
    path.write_text("".join(token.line() + "\n" for _, token in made.values()))
    return {name: secret for name, (secret, _) in made.items()}


def access_of(path: Path, clock: Callable[[], int]) -> Access:
    return Access(Tokens(path), {}, clock)
