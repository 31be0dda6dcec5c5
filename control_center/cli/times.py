"""Argument types for times: ``2026-11-21T07:30:00``, ``5m`` (ago), nanoseconds since 1970, and lengths like ``90s``."""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime
from typing import Final

_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS: Final = {"ms": 1e-3, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def length_s(text: str) -> float:
    """Argument type: a length of time in seconds, or with the unit ms, s, m, h or d."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a length of time such as 90s, 5m, 1.5h or 7d")
    return float(match[1]) * _UNITS[match[2]]


def moment_ns(text: str) -> int:
    """Argument type: a moment, in nanoseconds since 1970."""
    if text == "now":
        return time.time_ns()
    if text.isdecimal() and len(text) > 10:
        return int(text)
    if _LENGTH.fullmatch(text.removeprefix("-")):
        return time.time_ns() - int(length_s(text.removeprefix("-")) * 1e9)
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1e9)
    except ValueError:
        allowed = "2026-11-21T07:30:00, 5m for five minutes ago, now, or nanoseconds since 1970"
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: {allowed}") from None


def speed(text: str) -> float:
    """Argument type: speed of a replay as a multiple of the recorded speed; 0: as fast as possible."""
    if text == "max":
        return 0.0
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = -1.0
    if not 0.1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 0.1x to 1000x, or max")
    return value
