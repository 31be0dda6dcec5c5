"""VM that the daemon serves: its socket and what it holds of the host, from its admission until it has left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from vhost_backend import sockets
from vhost_backend.config.daemon import VmConfig
from vhost_backend.control.links.vm_port import ControlledVm
from vhost_backend.daemon.tasks import Tasks
from vhost_backend.daemon.vm import Vm
from vhost_backend.log import get_logger
from vhost_backend.quarters import NOWHERE

_ACCEPT_AGAIN_S: Final = 1.0
"""Pause after a connection could not be accepted, for example because too many files are open."""


class Entrance:
    """Socket at which a VM's frontends arrive. Close it."""

    def __init__(self, sock: socket.socket | contextlib.AbstractContextManager[socket.socket]) -> None:
        """:raise HostError: a socket cannot be bound."""
        self._stack = contextlib.ExitStack()
        self.socket: socket.socket = self._stack.enter_context(sock)
        self.is_connected = not sockets.is_listening(self.socket)
        """True if the socket is a frontend's connection, which it ends with."""

    @property
    def path(self) -> Path | None:
        """Path at which frontends arrive; None: the socket has none, or is a connection."""
        name = None if self.is_connected else self.socket.getsockname()
        return Path(name) if isinstance(name, str) and name else None

    def close(self) -> None:
        self._stack.close()


class ServedVm:
    """A VM, its entrance and its lease of the host.

    A VM that is to leave admits no frontend any more. It has left when its last frontend has.
    """

    def __init__(self, vm: Vm, lease: contextlib.ExitStack) -> None:
        """`lease` is closed when the VM has left."""
        self.vm = vm
        self.is_leaving = False
        self.has_ended = False
        """True if nobody is served any more."""
        self.successor: VmConfig | None = None
        """Configuration with which the VM is to be served after it has left."""
        self.problem = ""
        """Reason why the successor cannot be served yet; "" if it can, or has not been tried."""
        self.controlled: ControlledVm | None = None
        """The VM as the control system uses it; None: the daemon has no control system."""
        self.retry: asyncio.Task[None] | None = None
        """Task that admits the successor as soon as the host has room."""
        self.has_room = asyncio.Event()
        """Set when another VM has left: the successor may be tried again."""
        self._entrance: Entrance | None = None
        self._lease = lease
        self._has_lease = True
        self._log = get_logger(vm=vm.config.name)
        self._left = asyncio.Event()
        self._listens = False
        self._pause: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup
        self._connections: dict[asyncio.Task[bool], socket.socket | None] = {}
        """Tasks that serve frontends, with their connections; None: the one that an earlier daemon has served."""
        self._waiting: list[socket.socket] = []
        """Connections that nobody serves yet."""
        self._passes_on = True
        """True if the successor serves the connections that wait."""

    def open(self, entrance: Entrance, waiting: Sequence[socket.socket] = ()) -> None:
        """Has frontends arrive at `entrance`, of which those in `waiting` have done so already."""
        self._entrance = entrance
        self._waiting = list(waiting)

    @property
    def is_served_as(self) -> VmConfig | None:
        """Configuration that counts from the next frontend on, without quarters; None: none, as the VM leaves."""
        return self.successor if self.is_leaving else replace(self.vm.config, quarters=NOWHERE)

    @property
    def is_open(self) -> bool:
        """True if frontends arrive, or wait."""
        return self._entrance is not None and not self._entrance.is_connected

    @property
    def path(self) -> Path | None:
        """Path at which frontends arrive, or wait; None: nowhere, or at a socket without a path."""
        return None if self._entrance is None else self._entrance.path

    async def run(self) -> None:
        """Serves the VM's frontends until it has left; of a connected socket, the one frontend."""
        entrance = self._entrance
        if entrance is None or self.is_leaving:
            self.has_ended = True
            return
        async with Tasks(is_kept=self.vm.keep.keeper is not None) as self._tasks:
            waiting, self._waiting = self._waiting, []
            if self.vm.keep.has_frontend:
                self._attend(self.vm.serve_on())
            for connection in waiting:
                self._connect(connection)
            if entrance.is_connected:
                self._connect(entrance.socket)
            else:
                self._listen(entrance.socket)
                try:
                    await self._left.wait()
                finally:
                    self._stop_listening()
        self.has_ended = True

    # Sockets are accepted in a callback: a task that is cancelled while asyncio accepts for it loses the connection.

    def _listen(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        asyncio.get_running_loop().add_reader(sock, self._accept, sock)
        self._listens, self._pause = True, None

    def _accept(self, sock: socket.socket) -> None:
        try:
            connection, _ = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # too many open files, for example, which may pass
            self._log.error("accept_failed", error=str(error))
            self._stop_listening()
            self._pause = asyncio.get_running_loop().call_later(_ACCEPT_AGAIN_S, self._listen, sock)
            return
        connection.setblocking(False)
        self._connect(connection)

    def _stop_listening(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._listens and self._entrance is not None:
            asyncio.get_running_loop().remove_reader(self._entrance.socket)
        self._listens, self._pause = False, None

    def _connect(self, connection: socket.socket) -> None:
        self._attend(self.vm.serve(connection), connection)

    def _attend(self, serving: Coroutine[Any, Any, bool], connection: socket.socket | None = None) -> None:
        task = self._tasks.create_task(serving)
        self._connections[task] = connection
        task.add_done_callback(self._disconnect)

    def _disconnect(self, task: asyncio.Task[bool]) -> None:
        connection = self._connections.pop(task)
        if connection is None:
            return  # the keeper has it
        if task.cancelled() or task.exception() is not None or task.result():
            connection.close()  # of a task that was cancelled before its first step, too
        else:
            self._waiting.append(connection)

    def has_entrance_at(self, path: Path | None) -> bool:
        """True if frontends arrive, or wait, at the path; None: at a socket that was handed over."""
        present = self.vm.config if self.successor is None else self.successor
        return self._entrance is not None and present.socket == path

    def leave(self, successor: VmConfig | None = None, entrance: Entrance | None = None, *, now: bool = False) -> None:
        """Has the VM leave when its frontend does, or `now`.

        Frontends of a successor wait at `entrance`, or at the VM's own if that is None.
        """
        self.is_leaving = True
        self.vm.admits = False
        self._left.set()
        self._stop_listening()
        if successor is None or entrance is not None:
            self._close_entrance()
            self._entrance = entrance
            self._passes_on = False
        self.successor = successor
        if now:
            self.cut_off()

    def take_limits(self, wanted: VmConfig) -> bool:
        """Gives the VM those limits of `wanted` that can count while its guest runs; True if any has changed.

        Without a guest nothing changes: all settings count from the next one on.
        """
        return self.vm.is_connected and self.vm.change_limits(wanted)

    def cut_off(self) -> None:
        """Ends the frontend."""
        for task in self._connections:
            task.cancel()

    def take_entrance(self) -> Entrance | None:
        """The entrance at which frontends wait, which the caller owns now; None: it is closed."""
        self._stop_listening()
        entrance, self._entrance = self._entrance, None
        return None if entrance is None or entrance.is_connected else entrance

    def take_waiting(self) -> list[socket.socket]:
        """Connections that the successor is to serve, which the caller owns now."""
        waiting, self._waiting = (self._waiting, []) if self._passes_on else ([], self._waiting)
        return waiting

    def end_lease(self) -> bool:
        """Gives back what the VM holds of the host; False: it has done so before."""
        had, self._has_lease = self._has_lease, False
        self._lease.close()
        return had

    def close(self) -> None:
        """Ends the VM's workers, and gives back what it holds of the host."""
        if self.retry is not None:
            self.retry.cancel()
        self.vm.close()
        self._close_entrance()
        for connection in self._waiting:
            connection.close()
        self.end_lease()

    def _close_entrance(self) -> None:
        if self._entrance is not None and not (self._entrance.is_connected and self._connections):
            self._entrance.close()  # the session closes its own socket
        self._entrance = None
