"""WebSocket connections of the stream: live, or a replay of the recording."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from control_center.access import SUBPROTOCOL
from control_center.centre import Centre
from control_center.encoding import dumps
from control_center.errors import RefusedError
from control_center.messages import error_message
from control_center.recorder.player import MAX_SPEED
from control_center.replay import Replay
from control_center.rest.route import SELECTOR, Parameter, parameters
from control_center.scope import Caller
from control_center.stream import Client

PING_S: Final = 20.0
MAX_MESSAGE_BYTES: Final = 1 << 18
MAX_CLIENTS: Final = 256
SENT_AT_ONCE: Final = 8
PARAMETERS: Final = (
    SELECTOR,
    Parameter("events", "flag", "Send events of hosts, too."),
    Parameter("load", "flag", "Send the load once a second, too."),
    Parameter(
        "replay_from_ns", "integer", "Start of a replay of the recording, which takes the place of the live stream."
    ),
    Parameter("replay_to_ns", "integer", "End of the replay; then the stream ends."),
    Parameter(
        "speed", "number", "Speed of the replay: 1 as recorded, 10 ten times as fast; 0: no waits.", 0, MAX_SPEED
    ),
)


def handler(centre: Centre) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Makes the handler of ``/api/v1/stream``."""

    async def handle(request: web.Request) -> web.StreamResponse:
        caller = centre.access.caller(request)
        query = parameters(PARAMETERS, request.query)
        replay = Replay(centre.recording(), caller, query) if "replay_from_ns" in query else None
        if len(centre.hub) >= MAX_CLIENTS:
            raise RefusedError("quota", f"{MAX_CLIENTS} streams are open; allowed: {MAX_CLIENTS}")
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), heartbeat=PING_S, max_msg_size=MAX_MESSAGE_BYTES, compress=False
        )
        if not socket.can_prepare(request).ok:
            raise RefusedError("malformed", "this is a stream; allowed: a WebSocket")
        await socket.prepare(request)
        client = _client(caller, {} if replay else query, lambda: _is_let_in(centre, request))
        with _guarded(centre, socket, client):
            await (_live(centre, socket, client) if replay is None else replay.serve(socket))
        return socket

    return handle


def _client(caller: Caller, query: dict[str, Any], is_let_in: Callable[[], bool]) -> Client:
    """Client of the live stream; with an empty query it gets nothing."""
    return Client(
        caller.scope,
        selector=query.get("selector"),
        events=bool(query.get("events")),
        load=bool(query.get("load")),
        is_let_in=is_let_in,
    )


def _is_let_in(centre: Centre, request: web.Request) -> bool:
    try:
        centre.access.caller(request)
    except RefusedError:
        return False
    return True


@contextlib.contextmanager
def _guarded(centre: Centre, socket: web.WebSocketResponse, client: Client) -> Iterator[None]:
    """Registers the client while the block runs, and closes the socket when the client's token ends."""
    centre.hub.add(client)
    ending = asyncio.create_task(_end(socket, client))
    try:
        yield
    finally:
        ending.cancel()
        centre.hub.remove(client)


async def _end(socket: web.WebSocketResponse, client: Client) -> None:
    await client.ended.wait()
    await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"the token is not valid any more")


# ---- live ----------------------------------------------------------------------------------------


async def _live(centre: Centre, socket: web.WebSocketResponse, client: Client) -> None:
    """Sends the client's messages until it hangs up, and applies the messages that it sends."""
    sending = asyncio.create_task(_send(socket, client))
    try:
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                _take(centre, client, message.data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(socket: web.WebSocketResponse, client: Client) -> None:
    with contextlib.suppress(ConnectionError):
        for count in itertools.count(1):
            await socket.send_str(await client.outbox.get())
            if count % SENT_AT_ONCE == 0:
                await asyncio.sleep(0)  # send_str() need not wait; others must get their turn


def _take(centre: Centre, client: Client, text: str) -> None:
    """Applies a client's message; an error is sent in the stream, which goes on."""
    try:
        centre.hub.subscribe(client, json.loads(text))
    except RefusedError as error:
        client.outbox.put(dumps(error_message(error.kind, error.text)))
    except (ValueError, RecursionError):
        client.outbox.put(dumps(error_message("malformed", "the message is not JSON")))
