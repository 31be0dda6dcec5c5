"""Users of VMs: each VM's sandboxed processes have a uid and gid that no other process of the host has.

The kernel keeps several accounts for each user rather than for each process (descriptors in flight, pending signals,
processes, locked memory, keys). VMs that shared a user could exhaust them for each other.
"""

from __future__ import annotations

import errno
import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.errors import HostError

MAX_ID: Final = (1 << 32) - 2
_TRIES: Final = 1024
_NAME: Final = "\0vgc-user-%d"
"""Abstract UNIX socket that a daemon binds while a user is one of its VMs'."""


@dataclass(frozen=True, slots=True)
class UserRange:
    """Range of ids, each of which is a uid and a gid, without a use elsewhere on the host."""

    first: int
    count: int

    def __str__(self) -> str:
        return f"{self.first}-{self.first + self.count - 1}"


DEFAULT_RANGE: Final = UserRange(1879048192, 1 << 28)
"""Ids that systemd's list of uids and gids leaves unused, and that no distribution gives to anything."""


class User:
    """A user that this process has claimed on this host (in this network namespace), until `close` or its end."""

    def __init__(self, number: int, claim: socket.socket) -> None:
        self.number = number
        self._claim = claim

    def close(self) -> None:
        self._claim.close()


def claim(owner: uuid.UUID, among: UserRange = DEFAULT_RANGE) -> User:
    """Claims a user that no daemon has claimed; `owner` nearly always gets the same one again.

    :raise HostError: none of `among` is free.
    """
    for number in _candidates(owner, among):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.bind(_NAME % number)
        except OSError as error:
            sock.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise HostError(f"no user for a VM: {error.strerror}") from error
        return User(number, sock)
    raise HostError(f"all users of {among} are taken by other VMs", "give 'users' a larger range in the configuration")


def _candidates(owner: uuid.UUID, among: UserRange) -> Iterator[int]:
    start = owner.int % among.count
    for step in range(min(among.count, _TRIES)):
        yield among.first + (start + step) % among.count


def problem_with(among: UserRange) -> str:
    """Reason why this process cannot run others as the users of `among`; "" if it can."""
    if os.geteuid() != 0:
        return "vgcd does not run as root"
    for kind in ("uid", "gid"):
        if not _covers(_mapped(Path(f"/proc/self/{kind}_map").read_text()), among):
            return f"the {kind}s {among} do not exist in this user namespace"
    return ""


def _mapped(text: str) -> list[tuple[int, int]]:
    """Ranges of ids in a ``uid_map``: first id and number of ids, sorted."""
    rows = (line.split() for line in text.splitlines())
    return sorted((int(first), int(count)) for first, _outside, count in rows)


def _covers(mapped: Iterable[tuple[int, int]], among: UserRange) -> bool:
    """True if every id of `among` is mapped."""
    following = among.first
    for first, count in mapped:
        if first <= following < first + count:
            following = first + count
    return following >= among.first + among.count
