"""Entrances of VMs: sockets that were handed over, at which an earlier daemon has listened, or that are bound anew."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from vhost_backend import sockets
from vhost_backend.config.daemon import VmConfig
from vhost_backend.daemon.served_vm import Entrance, ServedVm
from vhost_backend.errors import ConfigError
from vhost_backend.keeper.client import Drop, Keeper, Kept, Put


def _real(path: Path) -> str:
    """Name of a file that is the same for all paths to it."""
    return os.path.realpath(path)


class Entrances:
    """Makes entrances. Those that it takes from others are used once."""

    def __init__(self, handed_over: Mapping[str, socket.socket], keeper: Keeper | None, kept: dict[str, Kept]) -> None:
        """`handed_over`: sockets by VM. `kept`: entries of an earlier daemon, out of which its sockets are taken."""
        self._handed_over = dict(handed_over)
        self._keeper = keeper
        self._kept = kept

    def of(self, config: VmConfig) -> Entrance:
        """Entrance of a VM.

        :raise ConfigError: the VM has no socket.
        :raise HostError: a socket cannot be bound.
        """
        sock = self._handed_over.pop(config.name, None)
        if sock is not None:
            return Entrance(sock)
        if config.socket is None:
            text = f"vms.{config.name}.socket is empty; allowed: an absolute path, or a socket in LISTEN_FDS"
            raise ConfigError([text])
        return self._at(config.socket)

    async def of_change(
        self,
        vms: Iterable[VmConfig],
        wanted: Mapping[str, VmConfig],
        served: Mapping[str, ServedVm],
        undo: contextlib.ExitStack,
    ) -> tuple[dict[str, Entrance | None], dict[str, ServedVm]]:
        """Entrances of VMs, None where a VM keeps the one that it has, and the VMs that others take theirs from.

        `wanted`: all VMs after the change; `served`: all before it.

        :raise ConfigError: a VM has no socket, or one that another VM keeps.
        :raise HostError: a socket cannot be bound.
        """
        holders = {_real(path): item for item in served.values() if (path := item.path) is not None}
        entrances: dict[str, Entrance | None] = {}
        givers: dict[str, ServedVm] = {}
        for vm in vms:
            own = served.get(vm.name)
            holder = None if vm.socket is None else holders.get(_real(vm.socket))
            if own is not None and own.has_entrance_at(vm.socket):
                entrances[vm.name] = None
            elif holder is None:
                entrances[vm.name] = entrance = self.of(vm)
                undo.callback(entrance.close)
                await asyncio.sleep(0)
            elif (other := _user_of(holder, wanted, givers)) is not None:
                text = f"a path that vms.{other} does not use"
                raise ConfigError([f"vms.{vm.name}.socket is {str(vm.socket)!r}; allowed: {text}"])
            else:
                givers[vm.name] = holder
        return entrances, givers

    def _at(self, path: Path) -> Entrance:
        """Entrance at a path: the socket at which an earlier daemon has listened, or a new one.

        :raise HostError: a socket cannot be bound.
        """
        if self._keeper is None:
            return Entrance(sockets.bound(path))
        key = f"listen{path}"
        left = self._kept.pop(key, None)
        listener = sockets.bound(path) if left is None or left.fd is None else sockets.left(path, left.fd.release())
        keeper = self._keeper

        @contextlib.contextmanager
        def kept() -> Iterator[socket.socket]:
            with listener as sock:
                keeper.commit([Put(key, fd=sock)])
                try:
                    yield sock
                finally:
                    keeper.commit([Drop(key)])

        return Entrance(kept())


def _user_of(holder: ServedVm, wanted: Mapping[str, VmConfig], givers: Mapping[str, ServedVm]) -> str | None:
    """VM that keeps the entrance that `holder` has, or takes it; None: it is free."""
    same = wanted.get(holder.vm.config.name)
    if same is not None and holder.has_entrance_at(same.socket):
        return same.name
    return next((name for name, giver in givers.items() if giver is holder), None)
