"""The stream's connections: live, or the recording played again at any speed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from control_center.access import SUBPROTOCOL
from control_center.centre import Centre
from control_center.encoding import dumps
from control_center.errors import RefusedError
from control_center.recording_port import Query, Recorder
from control_center.rest.route import SELECTOR, Parameter
from control_center.scope import Caller
from control_center.stream import Client
from virtio_proto.control.selector import Selector

PING_S: Final = 20.0
MAX_MESSAGE_BYTES: Final = 1 << 18
MAX_CLIENTS: Final = 256
SENT_AT_ONCE: Final = 8
NS_PER_S: Final = 1_000_000_000
PARAMETERS: Final = (
    SELECTOR,
    Parameter("events", "flag", "Events of hosts, too."),
    Parameter("load", "flag", "The load once a second, too."),
    Parameter("replay_from_ns", "integer", "Plays the recording from this time on, instead of what happens now."),
    Parameter("replay_to_ns", "integer", "Up to this time; then the stream ends."),
    Parameter("speed", "number", "Of the replay: 1 as it was, 10 ten times as fast; 0: as fast as possible.", 0, 1e6),
)


def handler(centre: Centre) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of ``/api/v1/stream``."""

    async def handle(request: web.Request) -> web.StreamResponse:
        caller = centre.access.caller(request)
        query = _query(request)
        replayed = "replay_from_ns" in query
        recorder = centre.recording() if replayed else None
        if len(centre.hub) >= MAX_CLIENTS:
            raise RefusedError("quota", f"{MAX_CLIENTS} streams are open; allowed: {MAX_CLIENTS}")
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), heartbeat=PING_S, max_msg_size=MAX_MESSAGE_BYTES, compress=False
        )
        if not socket.can_prepare(request).ok:
            raise RefusedError("malformed", "this is a stream; allowed: a WebSocket")
        await socket.prepare(request)
        if recorder is not None:
            await _replay(socket, recorder, caller, query)
        else:
            await _live(centre, socket, caller, query, lambda: _is_let_in(centre, request))
        return socket

    return handle


def _is_let_in(centre: Centre, request: web.Request) -> bool:
    try:
        centre.access.caller(request)
    except RefusedError:
        return False
    return True


def _query(request: web.Request) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in PARAMETERS}
    for name in request.query:
        if name not in known:
            raise RefusedError("malformed", f"parameter {name!r:.80}; allowed: {', '.join(known)}")
    return {name: known[name].parse(text) for name, text in request.query.items()}


# ---- live ----------------------------------------------------------------------------------------


async def _live(
    centre: Centre,
    socket: web.WebSocketResponse,
    caller: Caller,
    query: dict[str, Any],
    is_let_in: Callable[[], bool],
) -> None:
    """Sends what the client wants until it hangs up or its token ends, and does what its messages say."""
    client = Client(
        caller.scope,
        selector=query.get("selector"),
        events=bool(query.get("events")),
        load=bool(query.get("load")),
        is_let_in=is_let_in,
    )
    centre.hub.add(client)
    sending = asyncio.create_task(_send(socket, client))
    ending = asyncio.create_task(_end(socket, client))
    try:
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                _take(centre, client, message.data)
    finally:
        centre.hub.remove(client)
        for task in (sending, ending):
            task.cancel()
        await asyncio.gather(sending, ending, return_exceptions=True)


async def _end(socket: web.WebSocketResponse, client: Client) -> None:
    await client.ended.wait()
    await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"the token is not valid any more")


async def _send(socket: web.WebSocketResponse, client: Client) -> None:
    with contextlib.suppress(ConnectionError):
        for count in itertools.count(1):
            await socket.send_str(await client.outbox.get())
            if count % SENT_AT_ONCE == 0:
                await asyncio.sleep(0)  # sending does not wait by itself, and others want their turn


def _take(centre: Centre, client: Client, text: str) -> None:
    """Does what a message says; what is wrong with it is told in the stream, which goes on."""
    try:
        centre.hub.subscribe(client, json.loads(text))
    except RefusedError as error:
        client.outbox.put(dumps({"type": "error", "kind": error.kind, "text": error.text}))
    except (ValueError, RecursionError):
        client.outbox.put(dumps({"type": "error", "kind": "malformed", "text": "the message is not JSON"}))


# ---- replay --------------------------------------------------------------------------------------


async def _replay(socket: web.WebSocketResponse, recorder: Recorder, caller: Caller, query: dict[str, Any]) -> None:
    """Plays the recording, then ends the stream normally; the client may hang up before."""
    chosen = query.get("selector") or Selector()
    part = Query(chosen, query["replay_from_ns"], query.get("replay_to_ns"), caller.scope.vms)
    playing = asyncio.create_task(_play(socket, recorder, part, query))
    try:
        async for _message in socket:
            pass
    finally:
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing


async def _play(socket: web.WebSocketResponse, recorder: Recorder, part: Query, query: dict[str, Any]) -> None:
    speed, begun_ns = query.get("speed", 1.0), part.from_ns or 0
    clock = asyncio.get_running_loop()
    start_s = clock.time()
    try:
        async for kind, row in recorder.replay(part):
            if kind == "event" and not query.get("events"):
                continue
            if speed > 0:
                due_s = start_s + (row["time_ns"] - begun_ns) / NS_PER_S / speed
                if (wait_s := due_s - clock.time()) > 0:
                    await asyncio.sleep(wait_s)
            await socket.send_str(dumps({"type": kind, **row}))
        await socket.send_str(dumps({"type": "end"}))
        await socket.close()
    except ConnectionError:
        pass
    except OSError as error:
        await socket.close(code=1011, message=str(error).encode()[:120])
