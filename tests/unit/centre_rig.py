"""Rig of the control centre's tests: simulated daemons, a centre over them and a client, on the test's loop."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from aiohttp import ClientWebSocketResponse
from aiohttp.test_utils import TestClient, TestServer

from control_center import address
from control_center.access import Access, Tokens
from control_center.app import make_app
from control_center.centre import Centre
from control_center.cluster import Cluster
from control_center.host import Clocks, Host, HostConfig
from control_center.messages import StreamMessage
from control_center.recording_port import Recorder
from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_world import Shape
from tests.limits import ANSWERS_WITHIN_S
from tests.waiting import turns_until
from virtio_proto.control import tokens
from virtio_proto.control.api import Role
from virtio_proto.control.shapes import checked
from virtio_proto.control.verbs.hosts import Self

SHAPE = Shape(gpus=2, pes=4, vms_per_gpu=1)
"""Shape of a host: h1 has h1-vm0 on GPU 0 and h1-vm1 on GPU 1, of four elements each."""
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
        """Text of the refusal; the answer must be one."""
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
        """Polls every host once, as the centre does each second."""
        await asyncio.gather(*(host.poll() for host in self.centre.cluster.hosts.values()))

    async def settle(self) -> None:
        """Returns when the centre has taken all pushes that daemons have sent: an answer comes behind them."""
        for host in self.centre.cluster.hosts.values():
            await host.ask(Self.Request())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Runs the loop until `holds` returns true."""
        await turns_until(holds)

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        headers = {} if self.secret is None else {"Authorization": f"Bearer {self.secret}"}
        async with self.client.request(method, API + path, json=body, params=query, headers=headers) as response:
            return Answer(
                response.status,
                await response.json() if response.content_type.endswith("json") else await response.text(),
            )

    async def get(self, path: str, **query: Any) -> Any:
        """Sends a GET request and returns the answer's body; the answer must be no refusal."""
        answer = await self.ask("GET", path, **query)
        assert answer.status == 200, answer.body
        return answer.body

    async def post(self, path: str, body: Any) -> Any:
        answer = await self.ask("POST", path, body)
        assert answer.status == 200, answer.body
        return answer.body

    @contextlib.asynccontextmanager
    async def stream(self, **query: Any) -> AsyncIterator[Stream]:
        """Opens a stream; entered once the centre has it."""
        protocols = ("vgc",) if self.secret is None else ("vgc", f"token.{self.secret}")
        before = len(self.centre.hub)
        async with self.client.ws_connect(f"{API}/stream", params=query, protocols=protocols) as socket:
            if "replay_from_ns" not in query:
                await self.until(lambda: len(self.centre.hub) > before)
            yield Stream(self, socket)


SHAPES: Final = {get_args(get_type_hints(shape)["type"])[0]: shape for shape in get_args(StreamMessage)}
"""Shapes of the stream's messages, by type."""


def _with_bytes(message: dict[str, Any]) -> dict[str, Any]:
    """The message with bytes in place of the base64 that JSON needs."""
    if message["type"] != "load":
        return message
    hosts = {
        host: {**load, "pes": {vm: base64.b64decode(text) for vm, text in load["pes"].items()}}
        for host, load in message["hosts"].items()
    }
    return {**message, "hosts": hosts}


@dataclass
class Stream:
    rig: Rig
    socket: ClientWebSocketResponse

    async def next(self, *kinds: str) -> Any:
        """The next message of one of the kinds; every message on the way is checked against its shape."""
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            while True:
                message = json.loads(await self.socket.receive_str())
                checked(_with_bytes(message), SHAPES[message["type"]], message["type"])
                if not kinds or message["type"] in kinds:
                    return message

    async def subscribe(self, **wanted: Any) -> None:
        await self.socket.send_json({"subscribe": wanted})

    async def listens(self, instance: int, daemon: FakeDaemon | None = None) -> None:
        """Returns when the centre has subscribed to an instance's records at the daemon."""
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
    """A control centre over this many daemons, all up."""
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
