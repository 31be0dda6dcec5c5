"""Something that a test does all the while, in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(act: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Does something again and again in another thread while the block runs; the list gets the error that ended it, if any."""
    errors: list[BaseException] = []
    ends = threading.Event()

    def run() -> None:
        try:
            while not ends.is_set():
                act()
        except BaseException as error:  # noqa: BLE001  the test asks for it
            errors.append(error)

    thread = threading.Thread(target=run, name="repeating")
    thread.start()
    try:
        yield errors
    finally:
        ends.set()
        thread.join()
