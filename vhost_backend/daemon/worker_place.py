"""Place of a worker among the host's processors: it stays on those of its VM, also when the VM gets others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from vhost_backend.cores import lists, slices, threads
from vhost_backend.cores.pins import Pins
from vhost_backend.cores.pool import Place
from vhost_backend.cores.serving import Serving
from vhost_backend.daemon.bounds import elements_of
from vhost_backend.log import Logger
from vhost_backend.worker_protocol.link import WorkerLink


class WorkerPlace:
    """Keeps one worker, that is ready and whose guest code has not run, on the processors of `place`, until it is closed."""

    def __init__(self, link: WorkerLink, worker: int, place: Place, logger: Logger, *, has_elements: bool) -> None:
        """`worker`: its process. `has_elements`: threads of it run the VM's processing elements."""
        self._link = link
        self._worker: Final = worker
        self._place = place
        self._log = logger
        self._watched = contextlib.ExitStack()
        self._pins: Pins | None = None
        self._serving: Serving | None = None
        self._servers: frozenset[int] = frozenset()
        """Threads that serve the elements; those that are started later may be guest code's."""
        self.elements: Final = _threads(elements_of, worker) if has_elements else frozenset()
        """Threads that run processing elements."""
        self._try(self._shorten)
        if self.elements and place.own is not None:
            self._try(partial(threads.place, worker, self.elements, place.own, place.others))
        else:
            self._move()  # what it was started from may have run on others
        if self.elements:
            self._servers = _threads(partial(threads.named, beginning=""), worker) - self.elements
            self._pins = Pins(worker, self.elements, lambda: place.elements)
            self._serving = Serving(worker, self._servers, lambda: place.own or place.lent, lambda: place.others)
        self._watched.enter_context(place.pool.watched(self._move))

    def look(self) -> None:
        """Looks, again and again, whether the elements are busy, for each of which there may be a processor then, and whether the
        threads that serve them wait for others.
        """
        if self._pins is not None:
            self._try(self._pins.look)
        if self._serving is not None:
            self._try(self._serving.look)
        if self._servers:
            self._try(self._put_back)

    def _put_back(self) -> None:
        """Puts threads where they may be, and gives those that were started later usual slices: guest code may have started them in
        a serving thread, with that one's processors and slices.
        """
        threads.keep(self._worker, self._servers, self._place.others, self._place.elements)
        for thread in threads.named(self._worker, "") - self._servers - self.elements:
            with contextlib.suppress(OSError):  # it has just ended, or this host does not allow it
                slices.set_slice(self._worker, thread, slices.USUAL_NS)

    def close(self) -> None:
        """Moves nothing any more; a second call does nothing."""
        self._watched.close()

    def _move(self) -> None:
        if self._pins is not None:
            self._try(self._pins.take_out)
        place = self._place
        if place.lent and self.elements:
            self._try(partial(threads.place, self._worker, self.elements, place.lent, place.others))
        else:
            self._try(partial(threads.move, self._worker, place.own or frozenset(), place.others))
        if self._serving is not None:
            self._try(self._serving.moved)

    def _shorten(self) -> None:
        """Has the threads that serve the elements begin at once when there is something to do."""
        try:
            slices.set_slices(self._worker, slices.SHORT_NS, self.elements)
        except threads.RestlessError:
            raise
        except OSError:
            pass  # it has just ended, or this host does not allow it: requests wait longer where others have work

    def _try(self, move: Callable[[], None]) -> None:
        try:
            move()
        except (FileNotFoundError, ProcessLookupError):
            pass  # the worker has just ended
        except threads.RestlessError:
            self._link.condemn("starts threads faster than they can be moved to the processors of its VM")
        except OSError as error:
            cores = lists.shown(self._place.others)
            self._log.warning("worker_not_moved", pid=self._worker, cores=cores, why=str(error))


def _threads(find: Callable[[int], frozenset[int]], worker: int) -> frozenset[int]:
    """Threads of a worker that `find` finds; none if it has just ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return find(worker)
    return frozenset()
