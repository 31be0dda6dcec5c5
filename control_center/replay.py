"""Replay of the recording over a stream, at any speed; the client pauses, seeks and changes the speed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Annotated, Any, Final

import msgspec
import structlog
from aiohttp import WSCloseCode, WSMsgType, web
from msgspec import Meta

from control_center.encoding import dumps
from control_center.errors import RefusedError
from control_center.messages import EndMessage, error_message
from control_center.recorder.player import Player
from control_center.recording_port import Query, Recorder
from control_center.scope import Caller
from virtio_proto.control.selector import Selector
from virtio_proto.control.shapes import ShapeError, check_plain, checked

log = structlog.get_logger()
MAX_TIME_NS: Final = 2**63 - 1


class Steering(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes to a running replay; fields that are left out change nothing."""

    pause: bool | None = None
    seek_ns: Annotated[int, Meta(ge=0, le=MAX_TIME_NS)] | None = None
    speed: float | None = None


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    replay: Steering


class Replay:
    """Replay of a part of the recording to one client."""

    def __init__(self, recorder: Recorder, caller: Caller, query: dict[str, Any]) -> None:
        """`query`: the parameters of the stream.

        :raise RefusedError: "malformed": the speed is not allowed.
        """
        part = Query(
            query.get("selector") or Selector(), query["replay_from_ns"], query.get("replay_to_ns"), caller.scope.vms
        )
        self._kinds = {"record"} | {kind for kind, name in _OPTIONAL.items() if query.get(name)}
        try:
            self._player = Player(recorder.replay, part, speed=query.get("speed", 1.0))
        except ValueError as error:
            raise RefusedError("malformed", str(error)) from None

    async def serve(self, socket: web.WebSocketResponse) -> None:
        """Plays to the end, then closes the stream normally; takes the client's messages meanwhile."""
        playing = asyncio.create_task(self._play(socket))
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT and (wrong := self._take(message.data)) is not None:
                    await socket.send_str(dumps(error_message(wrong.kind, wrong.text)))
        finally:
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await playing

    def _take(self, text: str) -> RefusedError | None:
        """Applies a client's message; gives the error if the message is malformed, and then has changed nothing."""
        try:
            message = json.loads(text)
            check_plain(message, "message", strict=True)
            self._steer(checked(message, _Message, "message").replay)
        except ShapeError as error:
            return RefusedError("malformed", str(error))
        except (ValueError, RecursionError) as error:
            is_json = not isinstance(error, json.JSONDecodeError | RecursionError)
            return RefusedError("malformed", str(error) if is_json else "the message is not JSON")
        return None

    def _steer(self, wanted: Steering) -> None:
        """:raise ValueError: the speed is not allowed."""
        if wanted.speed is not None:
            self._player.set_speed(wanted.speed)
        if wanted.seek_ns is not None:
            self._player.seek(wanted.seek_ns)
        if wanted.pause is not None:
            (self._player.pause if wanted.pause else self._player.resume)()

    async def _play(self, socket: web.WebSocketResponse) -> None:
        try:
            async with contextlib.aclosing(self._player.rows()) as rows:  # type: ignore[type-var]  # it is a generator
                async for kind, row in rows:
                    if kind in self._kinds:
                        await socket.send_str(dumps({"type": kind, **row}))
            end: EndMessage = {"type": "end"}
            await socket.send_str(dumps(end))
            await socket.close()
        except ConnectionError:
            pass
        except OSError as error:
            await socket.close(code=WSCloseCode.INTERNAL_ERROR, message=str(error).encode()[:120])
        except Exception:
            log.exception("replay_failed")
            await socket.close(code=WSCloseCode.INTERNAL_ERROR, message=b"an error in the control centre, see its log")


_OPTIONAL: Final = {"event": "events", "load": "load"}
"""Kinds of rows that a client gets only on request, and the query parameter that requests each."""
