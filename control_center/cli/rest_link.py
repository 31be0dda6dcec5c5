"""A control centre asked over its REST API and WebSocket stream."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypedDict
from urllib.parse import quote, urlsplit

import aiohttp

from control_center.cli.link import Link, Object, Span, Target, Wanted
from control_center.cli.problems import NobodyThereError, RefusalError, UsageError
from control_center.hosts_view import HostInfo
from control_center.recording_port import EventRow, RecordRow, TimelineBin
from control_center.rest.model import (
    BalanceAnswer,
    ClearAnswer,
    CloseAnswer,
    Done,
    ErrorBody,
    FirmwareAnswer,
    HostedFault,
    HostedInstance,
    HostedMigration,
    HostedStat,
    InputAnswer,
    OpenAnswer,
    SelfAnswer,
)
from control_center.shapes import ShapeError, check
from control_center.snapshots import Snapshot, SnapshotSummary
from virtio_proto.control.api import PolicyInfo

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 60.0
_API: Final = "/api/v1"


class _HostLoad(TypedDict):
    """`LoadInfo` in JSON."""

    time_ns: int
    host: float
    gpus: dict[str, float]
    vms: dict[str, float]
    pes: dict[str, str]


class _Load(TypedDict):
    time_ns: int
    hosts: dict[str, _HostLoad]


class _Message(TypedDict):
    type: str


_MESSAGES: Final[dict[str, Any]] = {
    "record": RecordRow,
    "event": EventRow,
    "load": _Load,
    "host": HostInfo,
    "error": ErrorBody,
}
"""Shapes of the stream's messages; others are of a control centre that knows more."""


@contextlib.asynccontextmanager
async def centre_link(target: Target) -> AsyncIterator[Link]:
    """A session with the control centre that `target` names; nothing is asked yet.

    :raise UsageError: its address is none, or a certificate cannot be read.
    """
    url = (target.centre or "").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"control centre {target.centre!r}; allowed: http://host:port or https://host:port")
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
    connector = aiohttp.TCPConnector(ssl=_context(target)) if url.startswith("https:") else None
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        yield CentreLink(url, session)


def _context(target: Target) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=target.ca)
        if target.certificate:
            context.load_cert_chain(target.certificate, target.key)
    except OSError as error:
        raise UsageError(f"certificates: {error.strerror or error}") from None
    return context


class CentreLink:
    """`Link` over HTTP."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.address = url
        self._session = session

    @property
    def recordings(self) -> CentreLink:
        """The centre's own."""
        return self

    # ---- asking ----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, path: str, query: Object | None = None, body: Any = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request that was done.

        :raise RefusalError: it was not; as the centre says.
        :raise NobodyThereError: nobody answers.
        """
        wanted = {key: str(value) for key, value in (query or {}).items() if value is not None}
        try:
            async with self._session.request(method, self.address + _API + path, params=wanted, json=body) as response:
                if response.status >= 400:
                    raise await _refusal(response)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NobodyThereError(f"{self.address} does not answer: {_reason(error)}") from None

    async def _ask(self, shape: Any, method: str, path: str, query: Object | None = None, body: Any = None) -> Any:
        """What is answered.

        :raise NobodyThereError: it is not of `shape`: whoever answers is no control centre, or of another version.
        """
        async with self._answer(method, path, query, body) as response:
            try:
                found = await response.json(content_type=None)
                check(found, shape, f"the answer to {method} {path}")
            except ShapeError as error:
                raise self._no_centre(str(error)) from None
            except (ValueError, RecursionError):
                raise self._no_centre("its answer is no JSON") from None
            return found

    async def _get(self, shape: Any, path: str, **query: Any) -> Any:
        return await self._ask(shape, "GET", path, query)

    def _no_centre(self, why: str) -> NobodyThereError:
        return NobodyThereError(f"{self.address} is no control centre of this version: {why}")

    # ---- looking ---------------------------------------------------------------------------------

    async def hosts(self) -> list[Object]:
        return list(await self._get(list[HostInfo], "/hosts"))

    async def load(self, selector: str) -> Object:
        return dict(await self._get(_Load, "/load", selector=selector))

    async def own_cost(self) -> Object:
        return dict(await self._get(SelfAnswer, "/self"))

    async def stats(self, selector: str) -> list[Object]:
        return list(await self._get(list[HostedStat], "/stats", selector=selector))

    # ---- channels --------------------------------------------------------------------------------

    async def channels(self, selector: str) -> list[Object]:
        return list(await self._get(list[HostedInstance], "/channels", selector=selector))

    async def open(self, request: Object) -> Object:
        return dict(await self._ask(OpenAnswer, "POST", "/channels", body=request))

    async def close(self, instance: str) -> None:
        await self._ask(CloseAnswer, "DELETE", _instance(instance))

    async def change(self, instance: str, fields: Object) -> Object:
        return dict(await self._ask(HostedInstance, "PATCH", _instance(instance), body=fields))

    async def send(
        self, instance: str, data: bytes, *, vm: str | None = None, pe: int | None = None, eof: bool = False
    ) -> None:
        body: Object = {"base64": base64.b64encode(data).decode(), "vm": vm, "pe": pe, "eof": eof or None}
        given = {key: value for key, value in body.items() if value is not None}
        await self._ask(InputAnswer, "POST", f"{_instance(instance)}/input", body=given)

    async def stream(self, wanted: Wanted) -> AsyncIterator[Object]:
        subscribe = {"instances": list(wanted.instances), "events": wanted.events, "load": wanted.load}
        async for message in self._socket({}, {"subscribe": subscribe}):
            yield message

    async def _socket(self, query: Object, first: Object | None) -> AsyncIterator[Object]:
        """Messages of a WebSocket, until the centre closes it."""
        try:
            async with self._session.ws_connect(self.address + _API + "/stream", params=query, heartbeat=20) as socket:
                if first is not None:
                    await socket.send_str(json.dumps(first))
                async for message in socket:
                    if message.type == aiohttp.WSMsgType.TEXT:
                        yield self._message(message.data)
        except aiohttp.WSServerHandshakeError as error:
            raise RefusalError(f"the stream is refused: {error.message} ({error.status})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NobodyThereError(f"{self.address} does not answer: {_reason(error)}") from None

    def _message(self, text: str) -> Object:
        """:raise RefusalError: it says that something is refused.
        :raise NobodyThereError: no control centre says such things.
        """
        try:
            found = json.loads(text)
            check(found, _Message, "a message of the stream")
            check(found, _MESSAGES.get(found["type"], _Message), f"a message {found['type']!r:.40}")
        except (ShapeError, json.JSONDecodeError, RecursionError) as error:
            raise self._no_centre(str(error)) from None
        if found["type"] == "error":
            raise RefusalError(found["text"], found["kind"])
        return dict(found)

    # ---- steering --------------------------------------------------------------------------------

    async def snapshot(self, selector: str, deadline_ms: int) -> Object:
        return dict(
            await self._ask(Snapshot, "POST", "/snapshots", body={"selector": selector, "deadline_ms": deadline_ms})
        )

    async def snapshots(self) -> list[Object]:
        return list(await self._get(list[SnapshotSummary], "/snapshots"))

    async def snapshot_of(self, number: str) -> Object:
        return dict(await self._get(Snapshot, f"/snapshots/{quote(number, safe='')}"))

    async def faults(self, selector: str, *, cleared: bool) -> list[Object]:
        found = await self._get(list[HostedFault], "/faults", selector=selector, cleared=int(cleared))
        return [{**fault, "fault": _host_number(fault["host"], fault["fault"])} for fault in found]

    async def clear_faults(self, selector: str, ids: Sequence[str]) -> Object:
        body = {"ids": list(ids)} if ids else {"selector": selector}
        return dict(await self._ask(ClearAnswer, "POST", "/faults/clear", body=body))

    async def policies(self, host: str) -> list[Object]:
        return list(await self._get(list[PolicyInfo], f"/policies/{quote(host, safe='')}"))

    async def set_policies(self, host: str, policies: Sequence[Object]) -> list[Object]:
        path = f"/policies/{quote(host, safe='')}"
        return list(await self._ask(list[PolicyInfo], "PUT", path, body={"policies": list(policies)}))

    async def migrate(self, host: str, vm: str, gpu: str | None, pes: str | None) -> Object:
        fields = {"host": host, "vm": vm, "gpu": gpu, "pes": pes}
        given = {key: value for key, value in fields.items() if value is not None}
        return dict(await self._ask(HostedMigration, "POST", "/migrations", body=given))

    async def confine(self, host: str, vm: str, pes: str | None) -> Object:
        return dict(await self._ask(HostedMigration, "POST", "/confine", body={"host": host, "vm": vm, "pes": pes}))

    async def steer_worker(self, host: str, vm: str, action: str) -> None:
        await self._ask(Done, "POST", f"/workers/{quote(host, safe='')}/{quote(vm, safe='')}/{action}")

    async def balance(self, host: str | None, *, apply: bool) -> Object:
        body = {"apply": apply} if host is None else {"host": host, "apply": apply}
        return dict(await self._ask(BalanceAnswer, "POST", "/balance", body=body))

    async def migrations(self) -> list[Object]:
        return list(await self._get(list[HostedMigration], "/migrations"))

    async def firmware(self) -> list[Object]:
        found = (await self._get(FirmwareAnswer, "/firmware"))["hosts"]
        return [{"host": host, **about} for host, about in found.items()]

    async def stage_firmware(self, selector: str, image: bytes) -> Object:
        body = {"selector": selector, "image": base64.b64encode(image).decode()}
        return dict(await self._ask(FirmwareAnswer, "POST", "/firmware/stage", body=body))

    async def activate_firmware(self, selector: str, version: str) -> Object:
        return dict(
            await self._ask(
                FirmwareAnswer, "POST", "/firmware/activate", body={"selector": selector, "version": version}
            )
        )

    async def rollback_firmware(self, selector: str) -> Object:
        return dict(await self._ask(FirmwareAnswer, "POST", "/firmware/rollback", body={"selector": selector}))

    # ---- recordings ------------------------------------------------------------------------------

    async def recorder(self) -> Object:
        found = (await self.own_cost()).get("recorder")
        if found is None:
            raise RefusalError("this control centre records nothing")
        return dict(found)

    async def timeline(self, span: Span, bins: int) -> list[Object]:
        return list(await self._get(list[TimelineBin], "/timeline", bins=bins, **span.parameters()))

    async def export(self, span: Span, form: str) -> AsyncIterator[bytes]:
        query = {"format": form, **span.parameters()}
        async with self._answer("GET", "/export", query) as response:
            async for piece in response.content.iter_any():
                yield piece

    async def recorded(self, span: Span) -> AsyncIterator[Object]:
        query: Object = {"events": "1", "speed": "0", "replay_from_ns": str(span.from_ns or 0)}
        if span.selector:
            query["selector"] = span.selector
        if span.to_ns is not None:
            query["replay_to_ns"] = str(span.to_ns)
        async for message in self._socket(query, None):
            if message["type"] == "end":
                return
            yield message


def _instance(name: str) -> str:
    host, _, number = name.rpartition("/")
    return f"/channels/{quote(host, safe='')}/{quote(number, safe='')}"


def _host_number(host: str, number: Any) -> str:
    return str(number) if str(number).startswith(f"{host}/") else f"{host}/{number}"


async def _refusal(response: aiohttp.ClientResponse) -> RefusalError:
    try:
        error = (await response.json(content_type=None))["error"]
        return RefusalError(error["text"], error["kind"])
    except (ValueError, KeyError, TypeError):
        return RefusalError(f"{response.url} answers {response.status} {response.reason}")


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    return str(error) or (
        f"nothing came within {_ANSWER_S:g} s" if isinstance(error, asyncio.TimeoutError) else "it hung up"
    )
