"""Link to a control centre, over its REST API and WebSocket stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final, NotRequired, TypedDict
from urllib.parse import quote, urlsplit

import aiohttp

from control_center.cli.link import Link, Object, Span, Target, Wanted
from control_center.cli.problems import NobodyThereError, RefusalError, UsageError
from control_center.recording_port import EventRow, RecordRow, TimelineBin
from control_center.snapshots import SnapshotSummary
from virtio_proto.control.api import Error, HostInfo
from virtio_proto.control.shapes import ShapeError, checked
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.faults import Snapshot
from virtio_proto.control.verbs.hosts import LoadAnswer, Self

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 60.0
_API: Final = "/api/v1"


class _Message(TypedDict):
    type: str


class _Record(RecordRow):
    instance: NotRequired[str]
    """Instance as ``host/number``; absent in a replay."""


_MESSAGES: Final[dict[str, Any]] = {
    "record": _Record,
    "event": EventRow,
    "load": LoadAnswer,
    "host": HostInfo,
    "error": Error,
}
"""Types of the stream's messages. Messages with other names come from newer control centres and are not checked."""


@contextlib.asynccontextmanager
async def centre_link(target: Target) -> AsyncIterator[Link]:
    """Makes a session with the control centre that `target` names; sends nothing yet.

    :raise UsageError: the address is malformed, or a certificate cannot be read.
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
    """Implements `Link` over HTTP."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.address = url
        self._session = session

    @property
    def recordings(self) -> CentreLink:
        """The centre's recordings, served over this link."""
        return self

    # ---- asking ----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, path: str, query: Object | None = None, body: Any = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request; gives the response if the request was carried out.

        :raise RefusalError: the centre refused; with its kind and text.
        :raise NobodyThereError: the centre does not answer.
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
        """Sends a request; returns the answer, checked against `shape`.

        :raise NobodyThereError: the answer is malformed: another program or another version answers.
        """
        async with self._answer(method, path, query, body) as response:
            try:
                found = checked(
                    await response.json(content_type=None), shape, f"the answer to {method} {path}", from_json=True
                )
            except ShapeError as error:
                raise self._no_centre(str(error)) from None
            except (ValueError, RecursionError):
                raise self._no_centre("its answer is not JSON") from None
            return found

    async def _get(self, shape: Any, path: str, **query: Any) -> Any:
        return await self._ask(shape, "GET", path, query)

    async def ask(self, request: Request, host: str | None = None) -> Any:
        verb = request.verb
        if verb.rest is None:
            raise UsageError(f"a control centre has no {verb.name}; allowed: with --daemon")
        path, fields = verb.in_rest(request, host)
        if verb.rest.method == "GET":
            query = {name: int(value) if isinstance(value, bool) else value for name, value in fields.items()}
            return await self._ask(verb.merged.shape, "GET", path, query)
        return await self._ask(verb.merged.shape, verb.rest.method, path, body=fields)

    def _no_centre(self, why: str) -> NobodyThereError:
        return NobodyThereError(f"{self.address} is not a control centre of this version: {why}")

    # ---- streams ---------------------------------------------------------------------------------

    async def stream(self, wanted: Wanted) -> AsyncIterator[Object]:
        subscribe = {"instances": list(wanted.instances), "events": wanted.events, "load": wanted.load}
        async for message in self._socket({}, {"subscribe": subscribe}):
            yield message

    async def _socket(self, query: Object, first: Object | None) -> AsyncIterator[Object]:
        """Yields messages of a WebSocket until the centre closes it."""
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
        """:raise RefusalError: the message is a refusal.
        :raise NobodyThereError: the message is malformed: another program or another version answers.
        """
        try:
            found = json.loads(text)
            checked(found, _Message, "a message of the stream")
            if (shape := _MESSAGES.get(found["type"])) is not None:
                found = {
                    "type": found["type"],
                    **checked(found, shape, f"a message {found['type']!r:.40}", from_json=True),
                }
        except (ShapeError, json.JSONDecodeError, RecursionError) as error:
            raise self._no_centre(str(error)) from None
        if found["type"] == "error":
            raise RefusalError(found["text"], found["kind"])
        return dict(found)

    # ---- snapshots -------------------------------------------------------------------------------

    async def snapshots(self) -> list[Object]:
        return list(await self._get(list[SnapshotSummary], "/snapshots"))

    async def snapshot_of(self, number: str) -> Object:
        return dict(await self._get(Snapshot, f"/snapshots/{quote(number, safe='')}"))

    # ---- recordings ------------------------------------------------------------------------------

    async def recorder(self) -> Object | None:
        own = await self.ask(Self.Request())
        if own["recorder"] is None and own["vms"] is None:
            raise RefusalError("this control centre records nothing")
        return None if own["recorder"] is None else dict(own["recorder"])

    async def visible(self) -> list[str] | None:
        vms: list[str] | None = (await self.ask(Self.Request()))["vms"]
        return vms

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
