"""MARKS requests: a guest's marks, checked and put on the host's clock."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from vhost_backend.errors import DriverError
from vhost_backend.worker_protocol.marks import Mark, Marks
from virtio_proto import schema
from virtio_proto.schema import LIMITS, MarkKind, PayloadKind, Status

MAX_AGE_NS: Final = 3600 * 10**9
"""Longest time before its request at which a mark may have begun; one that says more is put there."""
_FORMS: Final = {PayloadKind.UNSIGNED: "<Q", PayloadKind.SIGNED: "<q", PayloadKind.FLOAT: "<d"}


def parse_marks(body: Any, raw: bytes, host_ns: int | None = None) -> Marks:
    """Parses the bytes behind a MARKS body. `host_ns`: the host's time, if not now.

    :raise DriverError: they are not what the body announces.
    """
    now_ns = time.time_ns() if host_ns is None else host_ns
    marks = tuple(_marks(raw, body.now_ns, now_ns))
    if len(marks) != body.num_marks:
        raise DriverError(Status.BAD_REQUEST, f"{len(marks)} marks; num_marks is {body.num_marks}")
    return Marks(body.process, _text("name", body.name.rstrip(b"\0")), body.dropped, marks)


def check_body(body: Any) -> None:
    """:raise DriverError: more marks, or bytes, than a request may have."""
    for name, limit in (("num_marks", "MAX_MARKS"), ("marks_len", "MAX_MARKS_BYTES")):
        if body[name] > LIMITS[limit]:
            raise DriverError(Status.INVALID_ARGUMENT, f"{name} is {body[name]}; allowed: 0 to {LIMITS[limit]}")


def _marks(raw: bytes, guest_ns: int, host_ns: int) -> Iterator[Mark]:
    at = 0
    while at < len(raw):
        if len(raw) - at < schema.MARK.size_bytes:
            raise DriverError(Status.BAD_REQUEST, f"{len(raw) - at} bytes behind the last mark")
        head = schema.MARK.construct.parse(raw[at : at + schema.MARK.size_bytes])
        at += schema.MARK.size_bytes
        texts = []
        for name, limit in (
            ("text", "MAX_MARK_TEXT"),
            ("domain", "MAX_MARK_NAME"),
            ("category", "MAX_MARK_NAME"),
            ("thread", "MAX_MARK_NAME"),
        ):
            length = head[f"{name}_len"]
            if length > min(LIMITS[limit], len(raw) - at):
                raise DriverError(Status.BAD_REQUEST, f"a mark's {name} of {length} bytes; allowed: {LIMITS[limit]}")
            texts.append(_text(name, raw[at : at + length]))
            at += length
        yield _mark(head, texts, guest_ns, host_ns)


def _mark(head: Any, texts: list[str], guest_ns: int, host_ns: int) -> Mark:
    if head.kind not in tuple(MarkKind) or head.payload_kind not in tuple(PayloadKind) or head.reserved != 0:
        raise DriverError(
            Status.BAD_REQUEST,
            f"a mark of kind {head.kind}, payload_kind {head.payload_kind}, reserved {head.reserved:#x}; allowed: "
            f"0 to {max(MarkKind)}, 0 to {max(PayloadKind)}, 0",
        )
    begin, end = (min(max(guest_ns - time_ns, 0), MAX_AGE_NS) for time_ns in (head.begin_ns, head.end_ns))
    text, domain, category, thread = texts
    return Mark(
        host_ns - begin,
        0 if head.kind == MarkKind.INSTANT else max(0, begin - end),
        head.kind,
        head.thread,
        head.category,
        head.colour,
        _payload(head.payload_kind, head.payload),
        text,
        domain,
        category,
        thread,
    )


def _payload(kind: int, bits: int) -> int | float | None:
    """The number of a mark; None if it has none, or one that is not finite."""
    form = _FORMS.get(PayloadKind(kind))
    if form is None:
        return None
    (number,) = struct.unpack(form, struct.pack("<Q", bits))
    return number if isinstance(number, int) or math.isfinite(number) else None


def _text(name: str, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise DriverError(Status.BAD_REQUEST, f"a mark's {name} is not UTF-8") from None
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in text):
        raise DriverError(Status.BAD_REQUEST, f"a mark's {name} has control characters")
    return text
