"""Verbs of a connection to a daemon: authentication and subscriptions."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from virtio_proto.control import api
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import LOOK_S, Name, Reach, Verb

MAX_INSTANCES = 16384
"""Most instances open on a host."""
_Instances: TypeAlias = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_INSTANCES)]


class Hello(Verb):
    """Authenticates the peer. Must be the first request of a connection; UNIX sockets need no token."""

    name = "hello"
    reach = Reach.CONNECTION
    Answer = api.HelloInfo

    class Request(base.Request, kw_only=True, frozen=True):
        version: Annotated[int, Meta(ge=0, le=1 << 31)]
        token: Name | None = None


class Subscribe(Verb):
    """Subscribes the connection to records of instances, and to events."""

    name = "subscribe"
    reach = Reach.CONNECTION
    timeout_s = LOOK_S
    Answer = api.Nothing

    class Request(base.Request, kw_only=True, frozen=True):
        records: _Instances | None = None
        events: bool | None = None
        """Null: unchanged."""


class Unsubscribe(Verb):
    """Ends subscriptions to records of instances and to events; without fields, all subscriptions."""

    name = "unsubscribe"
    reach = Reach.CONNECTION
    timeout_s = LOOK_S
    Answer = api.Nothing

    class Request(base.Request, kw_only=True, frozen=True):
        records: _Instances | None = None
        events: bool | None = None
