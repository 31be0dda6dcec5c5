"""Checks of daemons' answers and pushes against their types.

A daemon may be of another version, faulty or compromised: a malformed answer becomes an error of that host and is not
passed on, and unknown fields are dropped.
"""

from __future__ import annotations

from typing import Any, Final

from control_center.errors import UnreachableError
from virtio_proto.control import shapes
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.frames import Frame, FrameError
from virtio_proto.control.shapes import ShapeError, check_plain
from virtio_proto.control.verbs.base import MAX_NAME_CHARS, Verb
from virtio_proto.control.verbs.hosts import Topology

_PUSHES: Final[dict[str, Any]] = {"records": RecordsPush, "event": EventPush}


def checked(verb: type[Verb], answer: Any) -> Any:
    """Checks a daemon's answer against the verb's `Answer`; drops unknown fields.

    :raise UnreachableError: the answer is malformed; the text names the place.
    """
    try:
        found = shapes.checked(answer, verb.Answer, verb.name)
        if verb is Topology:
            _check_names({f"VM {index}": vm["vm"] for index, vm in enumerate(found["vms"])})
            _check_names({f"GPU {index}": gpu["gpu"] for index, gpu in enumerate(found["gpus"])})
    except ShapeError as error:
        raise UnreachableError(f"the daemon's answer is wrong: {error}") from None
    return found


def _check_names(names: dict[str, str]) -> None:
    """Checks names, which go into stores, labels and lines of text.

    :raise ShapeError: a name is too long, or has characters that cannot be printed.
    """
    for where, name in names.items():
        if len(name) > MAX_NAME_CHARS or not name.isprintable():
            raise ShapeError(f"{where} is {name[:80]!r}; allowed: up to {MAX_NAME_CHARS} printable characters")


def push_of(frame: Frame) -> Any:
    """Checks a push against the type of its kind; None: the kind is unknown.

    :raise FrameError: the push is malformed.
    """
    shape = _PUSHES.get(frame["push"])
    if shape is None:
        return None
    where = f"push {frame['push']}"
    try:
        push = shapes.checked(frame, shape, where)
        if shape is EventPush:
            check_plain(push["detail"], f"{where}.detail")
        _check_names({key: push[key] for key in ("vm", "gpu", "event") if push.get(key) is not None})
    except ShapeError as error:
        raise FrameError(str(error)) from None
    return push
