"""Users of VMs: each VM's sandboxed processes have a uid and gid that no other process of the host has.

The kernel keeps several accounts for each user rather than for each process (descriptors in flight, pending signals,
processes, locked memory, keys). VMs that shared a user could exhaust them for each other.

Root has any ids, and so has a user whose process has the capabilities CAP_SETUID and CAP_SETGID, as the shipped unit gives them.
Another user has those that ``/etc/subuid`` and ``/etc/subgid`` give it [subuid(5)], and the setuid programs ``newuidmap`` and
``newgidmap`` bring them into user namespaces.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
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

MAP_TOOLS: Final = ("newuidmap", "newgidmap")
_SUBORDINATE: Final = (Path("/etc/subuid"), Path("/etc/subgid"))
_ID_CAPABILITIES: Final = 1 << 6 | 1 << 7
"""CAP_SETGID and CAP_SETUID [linux/capability.h]."""


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


def gives_any_ids() -> bool:
    """True if this process may run others under any ids: it is root's, or has the capabilities for it."""
    if os.geteuid() == 0:
        return True
    effective = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    return int(effective, 16) & _ID_CAPABILITIES == _ID_CAPABILITIES


def find_range(wanted: UserRange | None = None) -> UserRange:
    """Range of users that this process may run others as: `wanted`, or the one that this host offers.

    :raise HostError: the host offers no ids, or others than `wanted`.
    """
    if not gives_any_ids():
        return _subordinate_range(wanted)
    among = wanted or DEFAULT_RANGE
    for kind in ("uid", "gid"):
        if not _covers(_mapped(Path(f"/proc/self/{kind}_map").read_text()), among):
            raise HostError(
                f"the {kind}s {among} do not exist in this user namespace", "run vgcd outside of user namespaces"
            )
    return among


def map_tools() -> tuple[str, ...]:
    """Paths of newuidmap and newgidmap.

    :raise HostError: they are not installed.
    """
    found = tuple(path for name in MAP_TOOLS if (path := shutil.which(name)))
    if len(found) < len(MAP_TOOLS):
        raise HostError("vgcd does not run as root, and there are no newuidmap and newgidmap", "apt-get install uidmap")
    return found


def _subordinate_range(wanted: UserRange | None) -> UserRange:
    """Range among the subordinate ids of this process's user: `wanted`, or the longest.

    :raise HostError: the user has no such ids, or others than `wanted`, or newuidmap is missing.
    """
    map_tools()
    name, ranges = subordinate_ranges()
    example = wanted or DEFAULT_RANGE
    hint = f"usermod --add-subuids {example} --add-subgids {example} {name}"
    if not ranges:
        raise HostError(
            f"vgcd runs as {name}, which {' and '.join(map(str, _SUBORDINATE))} give no ids in common", hint
        )
    if wanted is None:
        return max(ranges, key=lambda one: one.count)
    if not _covers([(one.first, one.count) for one in ranges], wanted):
        raise HostError(f"vgcd runs as {name}, whose subordinate ids are {', '.join(map(str, ranges))}", hint)
    return wanted


def subordinate_ranges() -> tuple[str, list[UserRange]]:
    """Name of this process's user, and the ids that are subordinate uids and subordinate gids of it, sorted.

    :raise HostError: the user has no name.
    """
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise HostError(f"vgcd runs as uid {os.geteuid()}, which has no name", "useradd") from None
    uids, gids = (_owned(path, {name, str(os.geteuid())}) for path in _SUBORDINATE)
    common = ((max(a, c), min(b, d)) for a, b in uids for c, d in gids)
    return name, [UserRange(first, end - first) for first, end in sorted(common) if first < end]


def _owned(path: Path, owners: set[str]) -> list[tuple[int, int]]:
    """Ranges of ids that a file in the format of ``/etc/subuid`` gives to `owners`: first id and the one after the last.

    Ranges that touch are one.
    """
    text = path.read_text(errors="replace") if path.exists() else ""
    rows = re.findall(r"^([^:\n]+):(\d{1,10}):(\d{1,10})$", text, re.MULTILINE)
    owned = ((max(1, int(first)), int(first) + int(count)) for owner, first, count in rows if owner in owners)
    merged: list[tuple[int, int]] = []
    for first, end in sorted((first, min(end, MAX_ID + 1)) for first, end in owned):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged


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
