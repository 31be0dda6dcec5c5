"""One daemon asked directly, over its UNIX socket or TLS; answers in the control centre's shapes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from control_center import address
from control_center import daemon_link as daemons
from control_center.address import Credentials
from control_center.cli.link import Link, Object, Target, Wanted
from control_center.cli.problems import NobodyThereError, RefusalError, UsageError
from control_center.errors import RefusedError, UnreachableError
from control_center.rows import Lexicon, rows
from control_center.totals import totals_of
from virtio_proto.control.api import RecordsPush
from virtio_proto.control.frames import Frame

_LOAD_S: Final = 1.0
_MAX_QUEUED: Final = 4096
"""Messages that wait for the reader; what comes beyond is counted and said."""


@contextlib.asynccontextmanager
async def daemon_link(target: Target) -> AsyncIterator[Link]:
    """A connection to the daemon that `target` names.

    :raise UsageError: its address is none.
    :raise RefusalError: it does not let us in.
    :raise NobodyThereError: it is not there.
    """
    try:
        where = address.parse(target.daemon or "")
    except ValueError as error:
        raise UsageError(str(error)) from None
    paths = (None if text is None else Path(text) for text in (target.ca, target.certificate, target.key))
    side = DaemonSide(str(where))
    with _translated():
        connection = await daemons.connect(where, Credentials(target.token, *paths), side.take)
    side.connection = connection
    try:
        yield side
    finally:
        await connection.close()


@contextlib.contextmanager
def _translated() -> Any:
    """Errors of the connection as the command line's."""
    try:
        yield
    except UnreachableError as error:
        raise NobodyThereError(error.text) from None
    except RefusedError as error:
        raise RefusalError(error.text, error.kind) from None


class DaemonSide:
    """`Link` over one connection. Instances are named ``host/number`` as everywhere."""

    connection: daemons.Connection

    def __init__(self, where: str) -> None:
        self.address = where
        self._queue: asyncio.Queue[Frame] = asyncio.Queue(_MAX_QUEUED)
        self._left_out = 0

    @property
    def recordings(self) -> None:
        """A daemon keeps none."""
        return

    @property
    def host(self) -> str:
        return self.connection.hello["host"]

    async def _ask(self, verb: str, **fields: Any) -> Any:
        given = {key: value for key, value in fields.items() if value is not None}
        with _translated():
            return await self.connection.call(verb, given)

    def _number(self, instance: str) -> int:
        host, _, number = instance.rpartition("/")
        if host not in ("", self.host) or not number.isdecimal():
            raise UsageError(f"instance {instance!r}; allowed: {self.host}/NUMBER")
        return int(number)

    def _named(self, instance: Object) -> Object:
        totals = instance.get("totals") or totals_of(instance["channels"])
        return {**instance, "totals": totals, "host": self.host, "instance": f"{self.host}/{instance['instance']}"}

    def _of_host(self, objects: Sequence[Object]) -> list[Object]:
        return [{**item, "host": self.host} for item in objects]

    # ---- looking ---------------------------------------------------------------------------------

    async def hosts(self) -> list[Object]:
        hello = self.connection.hello
        found = await self._ask("topology")
        about = {"url": self.address, "state": "up", "reason": "", "since_ns": hello["time_ns"], "labels": {}}
        return [
            {
                "host": self.host,
                **about,
                "daemon": hello["daemon"],
                "role": hello["role"],
                "time_ns": hello["time_ns"],
                "gpus": found["gpus"],
                "vms": found["vms"],
            }
        ]

    async def load(self, selector: str) -> Object:
        found = await self._ask("load", selector=selector)
        return {"time_ns": found["time_ns"], "hosts": {self.host: found}}

    async def own_cost(self) -> Object:
        return {"hosts": {self.host: await self._ask("self")}}

    async def stats(self, selector: str) -> list[Object]:
        return self._of_host((await self._ask("stat", selector=selector))["pes"])

    # ---- channels --------------------------------------------------------------------------------

    async def channels(self, selector: str) -> list[Object]:
        return [self._named(item) for item in (await self._ask("ls", selector=selector))["instances"]]

    async def open(self, request: Object) -> Object:
        return {"instances": [self._named(await self._ask("open", **request))], "failed": []}

    async def close(self, instance: str) -> None:
        await self._ask("close", instance=self._number(instance))

    async def change(self, instance: str, fields: Object) -> Object:
        return self._named(await self._ask("set", instance=self._number(instance), **fields))

    async def send(
        self, instance: str, data: bytes, *, vm: str | None = None, pe: int | None = None, eof: bool = False
    ) -> None:
        await self._ask("send", instance=self._number(instance), data=data, vm=vm, pe=pe, eof=eof or None)

    def take(self, push: Frame) -> None:
        """What the daemon pushes."""
        try:
            self._queue.put_nowait(push)
        except asyncio.QueueFull:
            self._left_out += 1

    async def stream(self, wanted: Wanted) -> AsyncIterator[Object]:
        numbers = [self._number(instance) for instance in wanted.instances]
        await self._ask("subscribe", records=numbers, events=wanted.events)
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
                await self._ask("unsubscribe", records=numbers, events=wanted.events)

    async def _push_load(self) -> None:
        while True:
            self.take({"push": "load", **await self.load("")})
            await asyncio.sleep(_LOAD_S)

    async def _next(self, loads: asyncio.Task[None] | None) -> Frame:
        """What is pushed next; `loads` asks for the load meanwhile, and what it raises is raised."""
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

    def _messages(self, push: Frame, texts: dict[str, Lexicon]) -> list[Object]:
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

    # ---- steering --------------------------------------------------------------------------------

    async def snapshot(self, selector: str, deadline_ms: int) -> Object:
        found = await self._ask("snapshot", selector=selector, deadline_ms=deadline_ms)
        return {"id": None, "hosts": {self.host: found}}

    async def snapshots(self) -> list[Object]:
        raise _centre_only("a list of snapshots")

    async def snapshot_of(self, number: str) -> Object:
        raise _centre_only(f"snapshot {number}")

    async def faults(self, selector: str, *, cleared: bool) -> list[Object]:
        found = (await self._ask("faults", selector=selector, cleared=cleared))["faults"]
        return [{**item, "host": self.host, "fault": f"{self.host}/{item['fault']}"} for item in found]

    async def clear_faults(self, selector: str, ids: Sequence[str]) -> Object:
        numbers = [self._number(number) for number in ids] or None
        return {**await self._ask("clear_faults", selector=selector, faults=numbers), "failed": []}

    async def policies(self, host: str) -> list[Object]:  # noqa: ARG002  there is one host
        return list((await self._ask("policies"))["policies"])

    async def set_policies(self, host: str, policies: Sequence[Object]) -> list[Object]:  # noqa: ARG002
        return list((await self._ask("set_policies", policies=list(policies)))["policies"])

    async def migrate(self, host: str, vm: str, gpu: str | None, pes: str | None) -> Object:
        return {"host": host, **await self._ask("migrate", vm=vm, gpu=gpu, pes=pes)}

    async def confine(self, host: str, vm: str, pes: str | None) -> Object:
        return {"host": host, **await self._ask("confine", vm=vm, pes=pes)}

    async def steer_worker(self, host: str, vm: str, action: str) -> None:  # noqa: ARG002  there is one host
        await self._ask("reset_worker" if action == "reset" else action, vm=vm)

    async def balance(self, host: str | None, *, apply: bool) -> Object:  # noqa: ARG002  there is one host
        return {"moves": self._of_host((await self._ask("balance", apply=apply))["moves"]), "failed": []}

    async def migrations(self) -> list[Object]:
        return self._of_host((await self._ask("migrations"))["migrations"])

    async def firmware(self) -> list[Object]:
        return [{"host": self.host, **await self._ask("firmware")}]

    async def stage_firmware(self, selector: str, image: bytes) -> Object:
        return {"hosts": {self.host: await self._ask("stage_firmware", selector=selector, image=image)}}

    async def activate_firmware(self, selector: str, version: str) -> Object:
        return {"hosts": {self.host: await self._ask("activate_firmware", selector=selector, version=version)}}

    async def rollback_firmware(self, selector: str) -> Object:
        return {"hosts": {self.host: await self._ask("rollback_firmware", selector=selector)}}


def _centre_only(what: str) -> UsageError:
    return UsageError(f"a daemon keeps nothing: {what} is a control centre's; allowed: with --centre URL")
