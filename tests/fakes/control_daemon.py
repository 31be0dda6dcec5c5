"""Simulated daemons: the control API over simulated GPUs, for tests of the control centre, its page and command line.

``python -m tests.fakes.control_daemon --hosts 3 --socket-dir D`` serves three daemons until it is interrupted and
prints their addresses. In tests ``async with FakeDaemon("h1", path) as daemon`` serves a daemon on the test's loop;
``daemon.tick()`` does a step of simulated work, and `daemon.misbehave` makes the daemon silent or its answers wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import ssl
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fakes.control_verbs import FakeHost, Fields, Refusal
from tests.fakes.control_world import Shape, World
from virtio_proto.control import frames
from virtio_proto.control.api import API_VERSION
from virtio_proto.control.verbs import VERBS

MAX_UNREAD_BYTES = 4 << 20


@dataclass(slots=True)
class Misbehaviour:
    """Ways in which a daemon misbehaves; none at first."""

    silent: bool = False
    """Requests are taken and not answered until this is off again."""
    answers: dict[str, Any] = field(default_factory=dict)
    """Lies by verb, answered instead of the truth."""
    raw: bytes | None = None
    """Bytes that are sent instead of the next answer."""


@dataclass(eq=False, slots=True)
class _Peer:
    writer: asyncio.StreamWriter
    records: set[int] = field(default_factory=set)
    events: bool = False

    def send(self, frame: frames.Frame) -> None:
        if self.writer.transport.get_write_buffer_size() <= MAX_UNREAD_BYTES and not self.writer.is_closing():
            self.writer.write(frames.encode(frame))


class FakeDaemon:
    """A simulated daemon, served while it is entered."""

    def __init__(
        self,
        host: str,
        path: Path | None = None,
        *,
        shape: Shape | None = None,
        seed: int = 1,
        clock_ns: Callable[[], int] = time.time_ns,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.world = World(host, shape or Shape(), seed, clock_ns)
        self.host = FakeHost(self.world, self._emit)
        self.path = path
        self.port = 0
        """TCP port, where the daemon listens over TLS."""
        self.token = token
        self.misbehave = Misbehaviour()
        self.asked: list[tuple[str, Fields]] = []
        """The last requests, for tests to inspect."""
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}/{seed}"))
        self._tls = tls
        self._peers: set[_Peer] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"unix:{self.path}" if self.path is not None else f"tls://localhost:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts to listen."""
        if self.path is not None:
            self._server = await asyncio.start_unix_server(self._accept, self.path)
            return
        self._server = await asyncio.start_server(self._accept, "localhost", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Acts as a daemon that dies: stops listening and cuts all connections."""
        assert self._server is not None
        self._server.close()
        for peer in set(self._peers):
            peer.writer.transport.abort()
        for task in set(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    # ---- events of the host ----------------------------------------------------------------------

    def tick(self) -> int:
        """Does one step of simulated work; returns the number of batches that were pushed."""
        pushes = self.host.tick({number for peer in self._peers for number in peer.records})
        for push in pushes:
            for peer in self._peers:
                if push["instance"] in peer.records:
                    peer.send({**push})
        return len(pushes)

    def fault(self, vm: str, pe: int | None = 0, **more: str) -> int:
        """Has a VM report a fault; returns the fault's number."""
        return self.host.fault(vm, pe, **more)

    def push(self, frame: frames.Frame) -> None:
        """Sends a frame, valid or not, to every peer."""
        for peer in self._peers:
            peer.send(frame)

    def _emit(self, event: str, vm: str | None, detail: Fields) -> None:
        time_ns = self.world.clock_ns()
        for peer in self._peers:
            if peer.events:
                peer.send({"push": "event", "time_ns": time_ns, "event": event, "vm": vm, "detail": detail})

    # ---- connections -----------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = _Peer(writer)
        try:
            while (frame := await frames.read(reader)) is not None:
                await self._serve(peer, frame)
        except (frames.FrameError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._peers.discard(peer)
            for instance in [one for one in self.host.instances.values() if one.connection is peer]:
                self.host.close(instance)
            writer.close()

    async def _serve(self, peer: _Peer, frame: frames.Frame) -> None:
        verb, fields = frame["do"], frame.get("with") or {}
        self.asked = [*self.asked[-255:], (verb, fields)]
        if self.misbehave.silent:
            return
        if self.misbehave.raw is not None:
            peer.writer.write(self.misbehave.raw)
            return
        try:
            answer = {"id": frame["id"], "ok": self._answer(peer, verb, fields)}
        except Refusal as refusal:
            answer = {"id": frame["id"], "error": {"kind": refusal.kind, "text": str(refusal)}}
        peer.writer.write(frames.encode(answer))
        await peer.writer.drain()

    def _answer(self, peer: _Peer, verb: str, fields: Fields) -> Any:
        if verb in self.misbehave.answers:
            return self.misbehave.answers[verb]
        if verb == "hello":
            return self._greet(peer, fields)
        if peer not in self._peers or verb not in VERBS:
            raise Refusal("malformed", f"{verb}; allowed: hello first, then {', '.join(VERBS)}")
        if verb in ("subscribe", "unsubscribe"):
            return self._subscribe(peer, verb, fields)
        return self.host.answer(verb, fields, peer)

    def _greet(self, peer: _Peer, fields: Fields) -> Any:
        if self.token is not None and fields.get("token") != self.token:
            raise Refusal("denied", "the token is unknown to this host; allowed: one of its tokens")
        self._peers.add(peer)
        return {
            "version": API_VERSION,
            "host": self.world.host,
            "uuid": self.uuid,
            "daemon": "0.1.0",
            "role": "admin",
            "vms": None,
            "time_ns": self.world.clock_ns(),
        }

    def _subscribe(self, peer: _Peer, verb: str, fields: Fields) -> Any:
        numbers = set(fields.get("records", ()))
        if missing := numbers - set(self.host.instances):
            raise Refusal("unknown", f"no instance {min(missing)}")
        if verb == "subscribe":
            peer.records |= numbers
            peer.events = fields.get("events", peer.events)
        else:
            peer.records -= numbers
            peer.events = peer.events and not fields.get("events", False)
        return {}


def torn_frame() -> bytes:
    """The beginning of a frame whose length is above the limit."""
    return struct.pack("<I", frames.MAX_FRAME_BYTES + 1)


# ---- command line --------------------------------------------------------------------------------


async def serve(paths: Sequence[Path], shape: Shape, seed: int, *, period_s: float, faults: bool) -> None:
    """Serves a daemon at each path until cancelled; prints their addresses, then a line ``ready``."""
    async with contextlib.AsyncExitStack() as stack:
        daemons = []
        for path in paths:
            daemon = await stack.enter_async_context(FakeDaemon(path.stem, path, shape=shape, seed=seed))
            daemons.append(daemon)
            print(daemon.url, flush=True)  # noqa: T201  read by the process that starts this one
        print("ready", flush=True)  # noqa: T201
        for step in itertools.count():  # the daemons take turns: real ones do not work in step either
            await asyncio.sleep(period_s / len(daemons))  # noqa: TID251  the pace of their work
            daemon = daemons[step % len(daemons)]
            daemon.tick()
            if faults and step % (20 * len(daemons) + 1) == 5:
                daemon.fault(min(daemon.world.vms), pe=step % shape.pes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.control_daemon", description="Simulated daemons.")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--socket-dir", type=Path, required=True, help="where the sockets are made, h1.sock ...")
    parser.add_argument("--gpus", type=int, default=2, help="per host")
    parser.add_argument("--pes", type=int, default=16, help="per GPU")
    parser.add_argument("--vms-per-gpu", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--period", type=float, default=0.5, help="seconds between batches of records")
    parser.add_argument("--faults", action="store_true", help="make faults from time to time")
    given = parser.parse_args()
    shape = Shape(given.gpus, given.pes, given.vms_per_gpu)
    given.socket_dir.mkdir(parents=True, exist_ok=True)
    paths = [given.socket_dir / f"h{number}.sock" for number in range(1, given.hosts + 1)]
    for path in paths:
        path.unlink(missing_ok=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(paths, shape, given.seed, period_s=given.period, faults=given.faults))


if __name__ == "__main__":
    main()
