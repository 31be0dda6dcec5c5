"""An event bus for tests: an exception of a handler reaches the publisher of the event, and fails the test."""

from __future__ import annotations

from vhost_backend.control.event_bus import Event, EventBus


class StrictEventBus(EventBus):
    """Delivers as `EventBus` does, but catches nothing."""

    def publish(self, event: Event) -> None:
        for handler in self._handlers.get(type(event), ()):
            handler(event)
