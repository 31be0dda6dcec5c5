"""A hostile client of the daemon's control API, of any role, on a control system over fake VMs.

An input is the body of a frame, or a list in MessagePack of the frames that come one after another; the role changes with
the first frame's number. The daemon refuses a body as no frame, or carries out its request: with an answer of the verb's
shape, or a refusal of a declared kind with a text. Either fits a frame.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import msgpack
import structlog

from tests.fakes.control_vm import FakeControlledVm
from tests.unit.registry_rig import ManualClock, Rig
from vhost_backend.control.api.access import Peer
from vhost_backend.control.api.commands import Caller
from vhost_backend.control.api.refusal import RefusedError
from virtio_proto.control import frames
from virtio_proto.control.api import ERROR_KINDS, ROLES
from virtio_proto.control.shapes import checked
from virtio_proto.control.verbs import VERBS

IS_MESSAGEPACK: Final = True
TURNS: Final = 500
"""Turns of the event loop after which a request counts as one that waits for something."""
MAX_FRAMES: Final = 8
_LOOP: Final = asyncio.new_event_loop()
_SEEDS: Final[tuple[dict[str, Any], ...]] = (
    {"do": "open", "with": {"selector": "vm=web1,fn=log", "level": "debug", "sample": 2}},
    {"do": "open", "with": {"selector": "fn=console,pe=0-1"}},
    {"do": "close", "with": {"instance": 1}},
    {"do": "set", "with": {"instance": 1, "level": "warning", "sample": 3}},
    {"do": "send", "with": {"instance": 1, "vm": "web1", "pe": 0, "data": b"text", "eof": True}},
    {"do": "subscribe", "with": {"instances": [1], "events": True}},
    {"do": "threshold", "with": {"name": "temperature", "low": 1.0, "high": 2.0, "selector": "vm=web1"}},
    {"do": "set_policies", "with": {"policies": [{"kinds": ["hung"], "selector": "vm=*", "action": "alert"}]}},
    {"do": "set_limits", "with": {"vm": "web1", "pes": 2, "memory": 1 << 30}},
    {"do": "migrate", "with": {"vm": "web1", "to": "pe=0-1"}},
    {"do": "confine", "with": {"vm": "web1", "pes": [0, 1]}},
    {"do": "stage_firmware", "with": {"image": b"VGCFW" + bytes(64)}},
    {"do": "activate_firmware", "with": {"version": "1.0.1", "selector": "vm=web1"}},
    {"do": "add_vm", "with": {"vm": "web3", "settings": {"socket": "/run/x", "quota": {"pes": 1}}}},
    {"do": "ls", "with": {"selector": "vm=web1", "totals": True}},
)


class Listener:
    """Client that takes every push, each of which must fit a frame."""

    def push(self, frame: frames.Frame) -> bool:
        frames.encode(frame)
        return True

    def sees(self, _vm: str | None) -> bool:
        return True


def seeds() -> list[bytes]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    plain: list[dict[str, Any]] = [{"do": name, "with": {}} for name in VERBS]
    several = [{"id": 5, "do": "open", "with": {"selector": "fn=log"}}, {"id": 6, **_SEEDS[2]}]
    alone = [{"id": 5, **fields} for fields in (*plain, *_SEEDS)]
    return [msgpack.packb(value) for value in (*alone, several)]


def run(data: bytes) -> str:
    return _LOOP.run_until_complete(_serve(_bodies(data)))


def _bodies(data: bytes) -> list[bytes]:
    try:
        value = msgpack.unpackb(data)
        return [msgpack.packb(item) for item in value[:MAX_FRAMES]] if isinstance(value, list) else [data]
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return [data]


async def _serve(bodies: list[bytes]) -> str:
    vms = (FakeControlledVm("web1", 4), FakeControlledVm("web2", 2))
    rig = Rig(Path("/nonexistent"), vms, ManualClock())
    listener = Listener()
    rig.system.hub.subscribe(listener, set(), events=True)
    answers = [await _one(rig, listener, body) for body in bodies]
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    return "\n".join(answers)


async def _one(rig: Rig, listener: Listener, body: bytes) -> str:
    try:
        frame = frames.decode(body)
    except frames.FrameError as error:
        return _said(error)
    number = frame.get("id")
    role = ROLES[-1 - number % len(ROLES)] if isinstance(number, int) and number % 4 == 0 else ROLES[-1]
    caller = Caller(Peer("fuzzer", role), 1, listener)
    task = asyncio.ensure_future(rig.system.commands.do(caller, frame.get("do"), frame.get("with")))
    for _ in range(TURNS):
        if task.done():
            return _checked(str(frame.get("do")), task)
        await asyncio.wait([task], timeout=0)
    task.cancel()
    return "waits"


def _checked(name: str, task: asyncio.Task[Any]) -> str:
    try:
        answer = task.result()
    except RefusedError as error:
        frames.encode({"id": 1, "error": {"kind": error.kind, "text": str(error)}})
        return f"{name if name in VERBS else ''} {_kind_of(error)}: {_said(error)}"
    sent = frames.decode(frames.encode({"id": 1, "ok": answer})[4:])["ok"]
    checked(sent, VERBS[name].Answer, f"{name}: ")
    return f"{name} {sorted(sent) if isinstance(sent, dict) else type(sent).__name__}"


def _said(error: Exception) -> str:
    text = str(error)
    assert text
    return text


def _kind_of(error: RefusedError) -> str:
    assert error.kind in ERROR_KINDS
    return error.kind
