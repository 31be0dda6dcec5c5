"""Link to a daemon, over its UNIX socket or TLS; answers have the types of the control centre's."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from control_center import address
from control_center import daemon_link as daemons
from control_center.address import Credentials
from control_center.cli.link import Link, Object, Target, Wanted
from control_center.cli.problems import NobodyThereError, RefusalError, UsageError
from control_center.errors import RefusedError, UnreachableError
from control_center.rows import Lexicon, rows
from virtio_proto.control.api import RecordsPush
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.hosts import Load, Topology
from virtio_proto.control.verbs.session import Subscribe, Unsubscribe

_LOAD_S: Final = 1.0
_MAX_QUEUED: Final = 4096
"""Most messages that wait for the reader; further ones are dropped and counted."""


@contextlib.asynccontextmanager
async def daemon_link(target: Target) -> AsyncIterator[Link]:
    """Connects to the daemon that `target` names; closes the connection at the end of the block.

    :raise UsageError: the address is malformed.
    :raise RefusalError: the daemon refuses the credentials.
    :raise NobodyThereError: the daemon does not answer.
    """
    try:
        where = address.parse(target.daemon or "")
    except ValueError as error:
        raise UsageError(str(error)) from None
    paths = (None if text is None else Path(text) for text in (target.ca, target.certificate, target.key))
    side = DaemonSide(str(where))
    with _translated():
        asked_ns = time.time_ns()
        connection = await daemons.connect(where, Credentials(target.token, *paths), side.take)
    side.connection = connection
    side.clock_skew_ns = daemons.skew_ns(connection.hello["time_ns"], asked_ns, time.time_ns())
    try:
        yield side
    finally:
        await connection.close()


@contextlib.contextmanager
def _translated() -> Any:
    """Turns errors of the connection into errors of the command line."""
    try:
        yield
    except UnreachableError as error:
        raise NobodyThereError(error.text) from None
    except RefusedError as error:
        raise RefusalError(error.text, error.kind) from None


class DaemonSide:
    """Implements `Link` over one connection to a daemon. Instances are named ``host/number``, as in a centre."""

    connection: daemons.Connection
    clock_skew_ns: int

    def __init__(self, where: str) -> None:
        self.address = where
        self._queue: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(_MAX_QUEUED)
        self._left_out = 0

    @property
    def recordings(self) -> None:
        """None: a daemon keeps no recordings."""
        return

    @property
    def host(self) -> str:
        return self.connection.hello["host"]

    async def ask(self, request: Request, host: str | None = None) -> Any:
        """:raise RefusalError: `host` is not the daemon's."""
        if host not in (None, self.host):
            raise RefusalError(f"no host {host:.80}; there is: {self.host}", "unknown")
        answer = await self._answer(request)
        if request.verb is Topology:
            return [self._host(answer)]
        return request.verb.merged.of({self.host: answer}, [])

    async def _answer(self, request: Request) -> Any:
        with _translated():
            return await self.connection.ask(request)

    def _host(self, topology: Object) -> Object:
        """The daemon's host as a control centre lists it, with the fields of its ``hello``."""
        hello = self.connection.hello
        about = {"url": self.address, "state": "up", "reason": "", "since_ns": hello["time_ns"], "labels": {}}
        about["told_ns"] = time.time_ns()
        about["clock_skew_ns"] = self.clock_skew_ns
        greeted = {"daemon": hello["daemon"], "role": hello["role"]}
        return {"host": self.host, **about, **greeted, "gpus": topology["gpus"], "vms": topology["vms"]}

    async def snapshots(self) -> list[Object]:
        raise _centre_only("a list of snapshots")

    async def snapshot_of(self, number: str) -> Object:
        raise _centre_only(f"snapshot {number}")

    # ---- streams ---------------------------------------------------------------------------------

    def _number(self, instance: str) -> int:
        host, _, number = instance.rpartition("/")
        if host not in ("", self.host) or not number.isdecimal():
            raise UsageError(f"instance {instance!r}; allowed: {self.host}/NUMBER")
        return int(number)

    def take(self, push: Mapping[str, Any]) -> None:
        """Queues a push of the daemon."""
        try:
            self._queue.put_nowait(push)
        except asyncio.QueueFull:
            self._left_out += 1

    async def stream(self, wanted: Wanted) -> AsyncIterator[Object]:
        numbers = [self._number(instance) for instance in wanted.instances]
        await self._answer(Subscribe.Request(records=numbers, events=wanted.events))
        texts: dict[str, Lexicon] = {}
        loads = asyncio.create_task(self._push_load()) if wanted.load else None
        try:
            while True:
                for message in self._messages(await self._next(loads), texts):
                    yield message
        finally:
            if loads is not None:
                loads.cancel()
            with contextlib.suppress(RefusalError, NobodyThereError):
                await self._answer(Unsubscribe.Request(records=numbers, events=wanted.events))

    async def _push_load(self) -> None:
        while True:
            self.take({"push": "load", **await self.ask(Load.Request())})
            await asyncio.sleep(_LOAD_S)

    async def _next(self, loads: asyncio.Task[None] | None) -> Mapping[str, Any]:
        """Waits for the next push. `loads`: task that polls the load; its error is raised."""
        getting = asyncio.ensure_future(self._queue.get())
        closed = self.connection.closed
        ends = {closed} if loads is None else {closed, loads}
        await asyncio.wait({getting, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        if loads is not None and loads.done():
            loads.result()
        raise NobodyThereError(await closed)

    def _messages(self, push: Mapping[str, Any], texts: dict[str, Lexicon]) -> list[Object]:
        found: list[Object] = []
        if self._left_out:
            detail = {"pushes": self._left_out}
            self._left_out = 0
            found.append({"type": "event", "time_ns": 0, "host": self.host, "event": "left_out", "detail": detail})
        kind = push["push"]
        if kind == "records":
            return found + self._records(cast("RecordsPush", push), texts)
        rest = {key: value for key, value in push.items() if key != "push"}
        return [*found, {"type": kind, **rest, **({} if kind == "load" else {"host": self.host})}]

    def _records(self, push: RecordsPush, texts: dict[str, Lexicon]) -> list[Object]:
        lexicon = texts.setdefault(push["vm"], Lexicon())
        lexicon.learn(push["dictionary"])
        instance = f"{self.host}/{push['instance']}"
        return [{"type": "record", "instance": instance, **row} for row in rows(self.host, push, lexicon)]


def _centre_only(what: str) -> UsageError:
    return UsageError(f"only a control centre has {what}; allowed: with --centre URL")
