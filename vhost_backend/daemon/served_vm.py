"""VM that the daemon serves: its socket and what it holds of the host, from its admission until it has left."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace
from pathlib import Path

from vhost_backend import sockets
from vhost_backend.config.daemon import VmConfig
from vhost_backend.daemon.vm import Vm
from vhost_backend.log import get_logger
from vhost_backend.quarters import NOWHERE


class Entrance:
    """Socket at which a VM's frontends arrive. Close it."""

    def __init__(self, sock: socket.socket | contextlib.AbstractContextManager[socket.socket]) -> None:
        """:raise HostError: a socket cannot be bound."""
        self._stack = contextlib.ExitStack()
        self.socket: socket.socket = self._stack.enter_context(sock)
        self.is_connected = False
        """True if the socket is a frontend's connection, which it ends with."""

    def close(self) -> None:
        self._stack.close()


class ServedVm:
    """A VM, its entrance and its lease of the host.

    A VM that is to leave admits no frontend any more. It has left when its last frontend has.
    """

    def __init__(self, vm: Vm, entrance: Entrance, lease: contextlib.ExitStack) -> None:
        """`lease` is closed when the VM has left."""
        self.vm = vm
        self.is_leaving = False
        self.has_ended = False
        """True if nobody is served any more."""
        self.successor: VmConfig | None = None
        """Configuration with which the VM is to be served after it has left."""
        self._entrance: Entrance | None = entrance
        self._lease = lease
        self._log = get_logger(vm=vm.config.name)
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_served_as(self) -> VmConfig | None:
        """Configuration that counts from the next frontend on, without quarters; None: none, as the VM leaves."""
        return self.successor if self.is_leaving else replace(self.vm.config, quarters=NOWHERE)

    async def run(self) -> None:
        """Serves the VM's frontends until it has left; of a connected socket, the one frontend."""
        if self._entrance is None:
            return
        sock = self._entrance.socket
        async with asyncio.TaskGroup() as tasks:
            if sockets.is_listening(sock):
                sock.setblocking(False)
                self._accepting = tasks.create_task(self._accept(sock, tasks))
            else:
                self._entrance.is_connected = True
                self._connect(tasks, sock)
        self.has_ended = True

    async def _accept(self, sock: socket.socket, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_leaving:
            try:
                connection, _ = await loop.sock_accept(sock)
            except OSError as error:  # too many open files, for example, which may pass
                self._log.error("accept_failed", error=str(error))
                await asyncio.sleep(1)
                continue
            self._connect(tasks, connection)

    def _connect(self, tasks: asyncio.TaskGroup, connection: socket.socket) -> None:
        task = tasks.create_task(self.vm.serve(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

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
        if self._accepting is not None:
            self._accepting.cancel()
        if successor is None or entrance is not None:
            self._close_entrance()
            self._entrance = entrance
        self.successor = successor
        if now:
            self.cut_off()

    def cut_off(self) -> None:
        """Ends the frontend."""
        for task in self._connections:
            task.cancel()

    def take_entrance(self) -> Entrance | None:
        """The entrance at which the successor's frontends wait, which the caller owns now; None: it is closed."""
        entrance, self._entrance = self._entrance, None
        return None if entrance is None or entrance.is_connected else entrance

    def close(self) -> None:
        """Ends the VM's workers, and gives back what it holds of the host."""
        self.vm.close()
        self._close_entrance()
        self._lease.close()

    def _close_entrance(self) -> None:
        if self._entrance is not None and not (self._entrance.is_connected and self._connections):
            self._entrance.close()  # the session closes its own socket
        self._entrance = None
