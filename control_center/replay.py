"""Streams that play the recording again: at any speed, paused and sought while they play, until their token ends.

In the patent's terms a part of the result observation module: what was received is shown as if it came now.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Final, NotRequired, TypedDict

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from control_center.encoding import dumps
from control_center.errors import RefusedError
from control_center.recorder.player import Player
from control_center.recording_port import Query, Recorder
from control_center.scope import Caller
from control_center.shapes import ShapeError, check
from virtio_proto.control.selector import Selector

log = structlog.get_logger()
MAX_TIME_NS: Final = 2**63 - 1


class Steering(TypedDict):
    """What is to be otherwise from now on; what is left out stays as it is."""

    pause: NotRequired[bool]
    seek_ns: NotRequired[int]
    speed: NotRequired[float]


class _Message(TypedDict):
    replay: Steering


class Replay:
    """One replay: what it plays, and to whom."""

    def __init__(self, recorder: Recorder, caller: Caller, query: dict[str, Any]) -> None:
        """`query` has the parameters of the stream.

        :raise RefusedError: "malformed": the speed is none.
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
        """Plays, then ends the stream normally; the client steers meanwhile, and may hang up before."""
        playing = asyncio.create_task(self._play(socket))
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT and (wrong := self._take(message.data)) is not None:
                    await socket.send_str(dumps({"type": "error", "kind": wrong.kind, "text": wrong.text}))
        finally:
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await playing

    def _take(self, text: str) -> RefusedError | None:
        """Does what a message says, or says what is wrong with it; then nothing has changed."""
        try:
            message = json.loads(text)
            check(message, _Message, "message", strict=True)
            self._steer(message["replay"])
        except ShapeError as error:
            return RefusedError("malformed", str(error))
        except (ValueError, RecursionError) as error:
            is_json = not isinstance(error, json.JSONDecodeError | RecursionError)
            return RefusedError("malformed", str(error) if is_json else "the message is not JSON")
        return None

    def _steer(self, wanted: Steering) -> None:
        """:raise ValueError: a time or a speed is none."""
        seek_ns = wanted.get("seek_ns")
        if seek_ns is not None and not 0 <= seek_ns <= MAX_TIME_NS:
            raise ValueError(f"seek_ns is {seek_ns}; allowed: 0 to {MAX_TIME_NS}")
        if "speed" in wanted:
            self._player.set_speed(wanted["speed"])
        if seek_ns is not None:
            self._player.seek(seek_ns)
        if "pause" in wanted:
            (self._player.pause if wanted["pause"] else self._player.resume)()

    async def _play(self, socket: web.WebSocketResponse) -> None:
        try:
            async with contextlib.aclosing(self._player.rows()) as rows:  # type: ignore[type-var]  # it is a generator
                async for kind, row in rows:
                    if kind in self._kinds:
                        await socket.send_str(dumps({"type": kind, **row}))
            await socket.send_str(dumps({"type": "end"}))
            await socket.close()
        except ConnectionError:
            pass
        except OSError as error:
            await socket.close(code=WSCloseCode.INTERNAL_ERROR, message=str(error).encode()[:120])
        except Exception:
            log.exception("replay_failed")
            await socket.close(code=WSCloseCode.INTERNAL_ERROR, message=b"an error in the control centre, see its log")


_OPTIONAL: Final = {"event": "events", "load": "load"}
"""Kinds of rows that a client has by asking for them, and how it asks."""
