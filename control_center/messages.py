"""Types of the stream's messages, live and in a replay; the page's types are made from them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict

from control_center.recording_port import EventRow, LoadRow, RecordRow
from virtio_proto.control.api import HostInfo


class RecordMessage(RecordRow):
    """A record of an instance that the client listens to, or of the recording."""

    type: Literal["record"]
    instance: NotRequired[str]
    """Instance as ``host/number``; absent in a replay."""


class EventMessage(EventRow):
    """An event of a host."""

    type: Literal["event"]


class LoadMessage(LoadRow):
    """Load of all hosts; in a replay, of one host."""

    type: Literal["load"]


class HostMessage(HostInfo):
    """State and topology of a host after a change."""

    type: Literal["host"]


class DroppedMessage(TypedDict):
    """Number of messages that were dropped because the client reads too slowly."""

    type: Literal["dropped"]
    count: int


class ErrorMessage(TypedDict):
    """Refusal of a client's message; the stream goes on."""

    type: Literal["error"]
    kind: str
    text: str


class EndMessage(TypedDict):
    """End of the replay."""

    type: Literal["end"]


StreamMessage: TypeAlias = (
    RecordMessage | EventMessage | LoadMessage | HostMessage | DroppedMessage | ErrorMessage | EndMessage
)


def error_message(kind: str, text: str) -> ErrorMessage:
    return {"type": "error", "kind": kind, "text": text}
