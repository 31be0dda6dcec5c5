"""Event bus of a host's control system: parts publish typed events, other parts subscribe to the types they need.

The bus is constructed before everything else, and each part subscribes while it is constructed, so that no part holds
a reference to another part only to notify it. The events are in `vhost_backend.control.events`. Batches of records do
not go over the bus: each VM's channels have exactly one listener (`vhost_backend.control.links.channel_port.Listener`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from vhost_backend.log import Logger


class Event:
    """Base class of all events, which are frozen dataclasses."""

    __slots__ = ()


E = TypeVar("E", bound=Event)


class EventBus:
    """Delivers events synchronously, on the event loop's thread, in the order of subscription.

    An event published by a handler is delivered to all of its own subscribers before the first event goes on.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._handlers: dict[type[Event], tuple[Callable[[Any], None], ...]] = {}

    def subscribe(self, event_type: type[E], handler: Callable[[E], None]) -> None:
        """Has `handler` called with each event of exactly this type. It must not block."""
        self._handlers[event_type] = (*self._handlers.get(event_type, ()), handler)

    def publish(self, event: Event) -> None:
        """Calls the subscribers of the event's type. An exception of a handler is logged and stops no other handler."""
        for handler in self._handlers.get(type(event), ()):
            try:
                handler(event)
            except Exception:  # noqa: BLE001  a bug in one subscriber must not disturb the publisher or the others
                self._log.exception(
                    "event_handler_failed",
                    event_type=type(event).__name__,
                    handler=getattr(handler, "__qualname__", repr(handler)),
                    guest=True,
                )
