"""Loading and unloading of programs, held back until the engine is ready for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vhost_backend.engines.base import Engine
from vhost_backend.errors import DriverError
from vhost_backend.worker.codec import close_fds
from vhost_backend.worker.plane import ColdRequest, DataPlane

SETTLE_MS: Final = 1
"""How long to do other things before asking an engine again that was not ready."""


@dataclass(frozen=True, slots=True)
class _Change:
    request: ColdRequest
    act: Callable[[], None]
    fds: Sequence[int]


class Changes:
    """In order of arrival. Whoever waits for an engine here goes on serving the daemon meanwhile."""

    def __init__(self, engine: Engine, plane: DataPlane) -> None:
        self._engine = engine
        self._plane = plane
        self._held: deque[_Change] = deque()

    def add(self, request: ColdRequest, act: Callable[[], None], fds: Sequence[int] = ()) -> None:
        """Has `act` complete `request` once the engine is ready; takes `fds` over. `settle` must follow."""
        self._held.append(_Change(request, act, fds))

    def settle(self) -> bool:
        """Does what can be done now. False: something is left, call again after `SETTLE_MS`."""
        if not self._held:
            return True
        if not self._engine.pause():
            return False
        try:
            while self._held:
                self._do(self._held.popleft())
        finally:
            self._engine.resume()
        return True

    def close(self) -> None:
        """Forgets what is held; its requests are not completed."""
        if self._held:
            self._engine.resume()
        while self._held:
            close_fds(self._held.popleft().fds)

    def _do(self, change: _Change) -> None:
        try:
            change.act()
        except DriverError as error:
            self._plane.complete(change.request.token, error.status, text=str(error))
        finally:
            close_fds(change.fds)
