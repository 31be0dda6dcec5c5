"""Logging of events: structlog, as JSON lines or for a console, always on stderr.

``log = get_logger(vm="demo")`` then ``log.info("vring_started", vring=0, size=256)``. An event that a guest can
cause at will carries ``guest=True`` and is limited per VM and event name; the next event that appears counts the
suppressed ones (``suppressed=...``).
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TextIO, TypeAlias, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LogFormat: TypeAlias = Literal["console", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
Logger: TypeAlias = FilteringBoundLogger

GUEST_BURST: Final = 10
GUEST_PER_SECOND: Final = 1.0
_MAX_BUCKETS: Final = 4096
_FIRST_SWEEP: Final = 64
"""Number of buckets from which on full ones are forgotten, which new ones would equal."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float
    suppressed: int = 0


class GuestLimiter:
    """Log processor that drops events which a guest causes too often: a token bucket per VM and event."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[tuple[object, object], _Bucket] = {}
        self._sweep_at = _FIRST_SWEEP

    @property
    def watched(self) -> int:
        """Number of VMs' events that count at present."""
        return len(self._buckets)

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if not event.pop("guest", False):
            return event
        bucket = self._bucket((event.get("vm"), event.get("event")))
        if bucket.tokens < 1:
            bucket.suppressed += 1
            raise structlog.DropEvent
        bucket.tokens -= 1
        if bucket.suppressed:
            event["suppressed"], bucket.suppressed = bucket.suppressed, 0
        return event

    def _bucket(self, key: tuple[object, object]) -> _Bucket:
        now = self._clock()
        if key not in self._buckets and len(self._buckets) >= self._sweep_at:
            self._sweep(now)
        bucket = self._buckets.setdefault(key, _Bucket(GUEST_BURST, now))
        bucket.tokens = _tokens(bucket, now)
        bucket.at = now
        return bucket

    def _sweep(self, now: float) -> None:
        """Forgets buckets that are full: a VM that has left leaves none."""
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.suppressed or _tokens(bucket, now) < GUEST_BURST
        }
        if len(self._buckets) >= _MAX_BUCKETS:
            self._buckets.clear()
        self._sweep_at = min(max(_FIRST_SWEEP, 2 * len(self._buckets)), _MAX_BUCKETS)


def _tokens(bucket: _Bucket, now: float) -> float:
    """Tokens that a bucket has by now."""
    return min(GUEST_BURST, bucket.tokens + (now - bucket.at) * GUEST_PER_SECOND)


def _escape_controls(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escapes control characters for a console: a guest's text must not begin a new line or control the terminal."""
    for key, value in event.items():
        if isinstance(value, str) and key != "exception" and not value.isprintable():
            event[key] = "".join(char if char.isprintable() else repr(char)[1:-1] for char in value)
    return event


class _Lossy:
    """Stream that drops what its file does not take: a closed terminal, file or a full disk is no error of who logs."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # ValueError: the file is closed
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()


def configure(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Sets up logging of this process; to be called once, at the start."""
    out = sys.stderr if stream is None else stream
    renderers: tuple[Processor, ...] = (
        (structlog.processors.JSONRenderer(),)
        if log_format == "json"
        else (_escape_controls, structlog.dev.ConsoleRenderer(colors=out.isatty()))
    )
    structlog.configure(
        processors=[
            GuestLimiter(),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _Lossy(out))),
        cache_logger_on_first_use=False,
    )


def get_logger(**bound: object) -> Logger:
    """Returns a logger whose events all carry `bound`."""
    logger: Logger = structlog.get_logger(**bound)
    return logger
