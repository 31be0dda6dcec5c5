"""Decoding of daemons' answers and pushes to their types.

A daemon may be of another version, faulty or compromised: a malformed answer becomes an error of that host and is not
passed on, and unknown fields are dropped.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from control_center.errors import UnreachableError
from virtio_proto.control import shapes
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.frames import FrameError
from virtio_proto.control.shapes import ShapeError, check_plain
from virtio_proto.control.verbs.base import MAX_NAME_CHARS, Verb
from virtio_proto.control.verbs.hosts import Topology

Push: TypeAlias = RecordsPush | EventPush
_PUSHES: Final[dict[str, Any]] = {"records": RecordsPush, "event": EventPush}


def decoded(verb: type[Verb], answer: bytes | msgspec.Raw) -> Any:
    """Decodes a daemon's answer to the verb's `Answer`; drops unknown fields.

    :raise UnreachableError: the answer is malformed; the text names the place.
    """
    try:
        found = shapes.decoded(answer, verb.Answer, verb.name)
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


def push_of(kind: str, body: bytes) -> Push | None:
    """Decodes a push to the type of its kind; None: the kind is unknown.

    :raise FrameError: the push is malformed.
    """
    shape = _PUSHES.get(kind)
    if shape is None:
        return None
    where = f"push {kind}"
    try:
        push: Push = shapes.decoded(body, shape, where)
        if push["push"] == "event":
            check_plain(push["detail"], f"{where}.detail")
        _check_names({key: text for key in ("vm", "gpu", "event") if isinstance(text := push.get(key), str)})
    except ShapeError as error:
        raise FrameError(str(error)) from None
    return push
