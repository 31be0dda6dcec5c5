"""The drill's clock and its pauses: how long a fault lasts is a part of it, and its table tells how long a host took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")

_LOOK_S: Final = 0.02


def now() -> float:
    """Seconds on a clock that only goes forwards."""
    return time.monotonic()  # noqa: TID251  a figure of the table


def last(seconds: float) -> None:
    """Lets a fault last."""
    threading.Event().wait(seconds)


def within(bound_s: float, condition: Callable[[], _T]) -> _T:
    """Looks until `condition` gives something true, which is returned; the last that it gave if it never does."""
    end = now() + bound_s
    while not (found := condition()) and now() < end:
        last(_LOOK_S)
    return found
