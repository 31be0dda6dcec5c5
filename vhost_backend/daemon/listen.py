"""Listening sockets: bound here, handed over by number, or by socket activation."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from vhost_backend.errors import ConfigError, HostError

FIRST_ACTIVATED_FD: Final = 3  # SD_LISTEN_FDS_START
BACKLOG: Final = 4


@contextlib.contextmanager
def bound(path: Path, mode: int = 0o660) -> Iterator[socket.socket]:
    """A socket listening at `path` with permissions `mode`, unlinked at the end. A stale socket file is replaced.

    :raise HostError: something listens there, or it cannot be bound.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            _remove_stale(path)
            os.fchmod(listener.fileno(), mode)  # the file's, from its first moment, but for the umask
            listener.bind(os.fsencode(path))
            path.chmod(mode)
            listener.listen(BACKLOG)
        except FileNotFoundError:
            raise HostError(f"cannot listen at {path}: there is no folder {path.parent}", "make it") from None
        except OSError as error:
            raise HostError(f"cannot listen at {path}: {error.strerror}") from None
        inode = path.stat().st_ino
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if path.stat().st_ino == inode:  # ours still, not a successor's
                    path.unlink()


def _remove_stale(path: Path) -> None:
    """Unlinks a socket that nobody listens at; anything else stays."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fsencode(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise HostError(f"cannot listen at {path}: another program does", "stop it, or use another path")


def inherited(fd: int) -> socket.socket:
    """The UNIX stream socket with number `fd`, listening or connected.

    :raise ConfigError: it is something else.
    """
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise ConfigError([f"fd {fd}: {error.strerror}; allowed: the number of an open UNIX socket"]) from None
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        sock.detach()
        raise ConfigError([f"fd {fd} is a socket of another kind; allowed: a UNIX stream socket"])
    sock.set_inheritable(False)
    return sock


def is_listening(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def activated(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, socket.socket]:
    """The sockets that systemd passed [sd_listen_fds(3)], by VM: as LISTEN_FDNAMES says, else in order.

    :raise ConfigError: their number is none, there are more than VMs, or one is not a UNIX stream socket.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return {}
    said = environment.get("LISTEN_FDS", "0")
    if not (said.isascii() and said.isdecimal()):
        raise ConfigError([f"LISTEN_FDS is {said!r}; allowed: a number of sockets"])
    count = int(said)
    given = environment.get("LISTEN_FDNAMES", "").split(":")
    if len(given) != count or not set(given) <= set(names):
        given = list(names[:count])
    if len(set(given)) != count:
        raise ConfigError([f"LISTEN_FDS is {count}; allowed: at most one socket for each of {', '.join(names)}"])
    return {name: inherited(FIRST_ACTIVATED_FD + i) for i, name in enumerate(given)}
