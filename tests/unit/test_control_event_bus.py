"""The control system's event bus: subscribers, their order, and exceptions of handlers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import structlog

from vhost_backend import log
from vhost_backend.control.event_bus import Event, EventBus


@dataclass(frozen=True, slots=True)
class Lost(Event):
    vm: str


@dataclass(frozen=True, slots=True)
class LostAgain(Lost):
    times: int = 2


@dataclass(frozen=True, slots=True)
class Ready(Event):
    vm: str


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log.configure("json", "debug", stream)
    yield stream
    structlog.reset_defaults()


def test_event_reaches_the_subscribers_of_its_type_in_order_of_subscription() -> None:
    bus, heard = EventBus(log.get_logger()), list[tuple[str, Event]]()
    bus.subscribe(Lost, lambda event: heard.append(("first", event)))
    bus.subscribe(Ready, lambda event: heard.append(("other type", event)))
    bus.subscribe(Lost, lambda event: heard.append(("second", event)))
    bus.publish(Lost("web1"))
    assert heard == [("first", Lost("web1")), ("second", Lost("web1"))]


def test_subtype_of_an_event_is_an_event_of_its_own() -> None:
    bus, heard = EventBus(log.get_logger()), list[Event]()
    bus.subscribe(Lost, heard.append)
    bus.publish(LostAgain("web1"))
    assert not heard


def test_event_without_subscribers_is_dropped() -> None:
    EventBus(log.get_logger()).publish(Lost("web1"))


def test_event_that_a_handler_publishes_is_delivered_before_the_first_goes_on() -> None:
    bus, heard = EventBus(log.get_logger()), list[str]()
    bus.subscribe(Lost, lambda event: bus.publish(Ready(event.vm)))
    bus.subscribe(Lost, lambda event: heard.append(f"lost {event.vm}"))
    bus.subscribe(Ready, lambda event: heard.append(f"ready {event.vm}"))
    bus.publish(Lost("web1"))
    assert heard == ["ready web1", "lost web1"]


def test_exception_of_a_handler_is_logged_and_disturbs_nobody_else(logged: io.StringIO) -> None:
    bus, heard = EventBus(log.get_logger()), list[str]()

    def breaks(event: Lost) -> None:
        raise KeyError(event.vm)

    bus.subscribe(Lost, lambda _event: heard.append("before"))
    bus.subscribe(Lost, breaks)
    bus.subscribe(Lost, lambda _event: heard.append("after"))
    bus.publish(Lost("web1"))
    assert heard == ["before", "after"]
    (line,) = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert (line["event"], line["level"], line["event_type"]) == ("event_handler_failed", "error", "Lost")
    assert line["handler"].endswith("breaks")
    assert "KeyError: 'web1'" in line["exception"]


def test_handler_that_subscribes_does_not_get_the_event_that_is_being_delivered() -> None:
    bus, heard = EventBus(log.get_logger()), list[Event]()
    bus.subscribe(Lost, lambda _event: bus.subscribe(Lost, heard.append))
    bus.publish(Lost("web1"))
    assert not heard
    bus.publish(Lost("web2"))
    assert heard == [Lost("web2")]


def handler_that_does_not_fit(bus: EventBus) -> None:
    """Never called: mypy reports the ignored error as unused, and so fails, once it no longer sees that this is wrong."""

    def ready(event: Ready) -> None: ...

    async def later(event: Lost) -> None: ...

    bus.subscribe(Lost, ready)  # type: ignore[arg-type]
    bus.subscribe(Lost, later)  # type: ignore[arg-type]
    bus.publish("web1")  # type: ignore[arg-type]
