"""Logs: formats, and the limit on events that a guest causes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from vhost_backend import log


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    yield io.StringIO()
    structlog.reset_defaults()


def events(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_event_has_name_level_time_and_fields(out: io.StringIO) -> None:
    log.configure("json", "info", out)
    log.get_logger(vm="a").info("vring_started", vring=0)
    (event,) = events(out)
    assert (event["event"], event["level"], event["vm"], event["vring"]) == ("vring_started", "info", "a", 0)
    assert "timestamp" in event


def test_console_event_is_readable(out: io.StringIO) -> None:
    log.configure("console", "info", out)
    log.get_logger(vm="a").info("vring_started", vring=0)
    assert "vring_started" in out.getvalue()
    assert "vring=0" in out.getvalue()


def test_console_event_is_one_line_without_control_characters(out: io.StringIO) -> None:
    log.configure("console", "info", out)
    forged = "ok\n2026-01-01T00:00:00Z [error] forged\x1b[2J\x9b31m \u2028é"
    log.get_logger(vm="a").info("worker_log", said=forged, fields={"line": forged})
    assert len(out.getvalue().splitlines()) == 1
    assert out.getvalue().rstrip("\n").isprintable()
    assert r"\x1b[2J" in out.getvalue()
    assert "é" in out.getvalue()


def test_file_that_takes_nothing_is_no_error() -> None:
    with Path("/dev/full").open("w") as full:
        log.configure("json", "info", full)
        log.get_logger().info("lost")
        structlog.reset_defaults()
        with pytest.raises(OSError, match="No space left"):
            full.close()


def test_events_below_the_level_are_left_out(out: io.StringIO) -> None:
    log.configure("json", "warning", out)
    log.get_logger().info("unimportant")
    log.get_logger().warning("important")
    assert [event["event"] for event in events(out)] == ["important"]


def test_exception_is_logged_with_its_traceback(out: io.StringIO) -> None:
    log.configure("json", "info", out)
    try:
        dict[str, str]()["what happened"]
    except KeyError:
        log.get_logger().exception("session_failed")
    assert "KeyError: 'what happened'" in str(events(out)[0]["exception"])


class Limited:
    """A limiter with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.limiter = log.GuestLimiter(lambda: self.now)

    def log(self, vm: str = "a", event: str = "vring_broken", guest: bool = True) -> structlog.typing.EventDict | None:
        try:
            return self.limiter(None, "warning", {"vm": vm, "event": event, "guest": guest})
        except structlog.DropEvent:
            return None


def test_events_caused_by_a_guest_are_limited_and_counted() -> None:
    limited = Limited()
    assert sum(limited.log() is not None for _ in range(100)) == log.GUEST_BURST
    limited.now += 1 / log.GUEST_PER_SECOND
    seen = limited.log()
    assert seen is not None
    assert seen["suppressed"] == 100 - log.GUEST_BURST


def test_limit_counts_each_vm_and_event_separately() -> None:
    limited = Limited()
    while limited.log() is not None:
        pass
    assert limited.log(vm="b") is not None
    assert limited.log(event="frontend_dropped") is not None


def test_limiter_forgets_vms_that_have_been_quiet() -> None:
    limited = Limited()
    while limited.log(vm="loud") is not None:
        pass
    for number in range(1000):
        assert limited.log(vm=f"vm{number}") is not None
        assert limited.log(vm="loud") is None, "what it has suppressed is yet to be told"
        limited.now += 0.9 / log.GUEST_PER_SECOND / 1000
    for number in range(1000):
        limited.now += 1 / log.GUEST_PER_SECOND
        assert limited.log(vm=f"later{number}") is not None
    assert limited.limiter.watched < 100


def test_events_not_caused_by_a_guest_are_not_limited() -> None:
    limited = Limited()
    assert all(limited.log(guest=False) is not None for _ in range(100))


def test_mark_for_the_limiter_is_not_shown() -> None:
    seen = Limited().log()
    assert seen is not None
    assert "guest" not in seen


def test_a_file_that_was_closed_is_no_error(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as closed:
        log.configure("json", "info", closed)
    log.get_logger().info("lost")
    structlog.reset_defaults()
