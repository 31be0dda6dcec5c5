"""UNIX sockets: listening sockets, bound here or inherited (by number, from systemd), and receiving of descriptors."""

from __future__ import annotations

import array
import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from vhost_backend.errors import ConfigError, HostError

FIRST_ACTIVATED_FD: Final = 3  # SD_LISTEN_FDS_START
BACKLOG: Final = 4
CONTROL: Final = "@control"
"""Name of the socket, among those that systemd passed, at which the control API listens over TLS. No VM has such a name."""
_LOCAL: Final = (socket.AF_UNIX,)
_FD_BYTES: Final = array.array("i").itemsize


@contextlib.contextmanager
def bound(path: Path, mode: int = 0o660) -> Iterator[socket.socket]:
    """Binds a socket that listens at `path` with permissions `mode`, and unlinks it at the end.

    A stale socket file is replaced.

    :raise HostError: another program listens there, or the socket cannot be bound.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            _remove_stale(path)
            os.fchmod(listener.fileno(), mode)  # the file gets this mode from its first moment, less the umask
            listener.bind(os.fsencode(path))
            path.chmod(mode)
            listener.listen(BACKLOG)
        except FileNotFoundError:
            raise HostError(f"cannot listen at {path}: there is no folder {path.parent}", "make it") from None
        except OSError as error:
            raise HostError(f"cannot listen at {path}: {error.strerror}") from None
        with _unlinked(path):
            yield listener


@contextlib.contextmanager
def left(path: Path, fd: int) -> Iterator[socket.socket]:
    """Takes over the socket `fd`, at which an earlier process has listened at `path`, and unlinks it at the end."""
    with socket.socket(fileno=fd) as listener, _unlinked(path):
        yield listener


@contextlib.contextmanager
def _unlinked(path: Path) -> Iterator[None]:
    """Unlinks a socket file at the end, unless a successor's has taken its place."""
    inode = path.stat().st_ino if path.exists() else None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


def _remove_stale(path: Path) -> None:
    """Unlinks a socket file at which no program listens; other files stay."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a program whose backlog is full listens, too
        with contextlib.suppress(BlockingIOError):
            try:
                probe.connect(os.fsencode(path))
            except ConnectionRefusedError:
                path.unlink()
                return
        raise HostError(f"cannot listen at {path}: another program listens there", "stop it, or choose another path")


def inherited(fd: int, families: Sequence[socket.AddressFamily] = _LOCAL) -> socket.socket:
    """Takes over the stream socket with number `fd`, listening or connected, of one of `families`.

    :raise ConfigError: `fd` is no such socket.
    """
    wanted = "a UNIX stream socket" if families == _LOCAL else "a TCP socket"
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise ConfigError([f"fd {fd}: {error.strerror}; allowed: the number of {wanted}"]) from None
    if sock.family not in families or sock.type != socket.SOCK_STREAM:
        sock.detach()
        raise ConfigError([f"fd {fd} is a socket of another kind; allowed: {wanted}"])
    sock.set_inheritable(False)
    return sock


def is_listening(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def activated(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, socket.socket]:
    """Takes over the sockets that systemd passed [sd_listen_fds(3)], by VM: named by LISTEN_FDNAMES, else in order.

    Names count if one of them is that of a VM, or `CONTROL`; sockets of others wait for VMs that come later.

    :raise ConfigError: LISTEN_FDS is not a number, there are more sockets than VMs, or one is of another kind.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return {}
    number = environment.get("LISTEN_FDS", "0")
    if not (number.isascii() and number.isdecimal()):
        raise ConfigError([f"LISTEN_FDS is {number!r}; allowed: a number of sockets"])
    count = int(number)
    vms = environment.get("LISTEN_FDNAMES", "").split(":")
    if len(vms) != count or not set(vms) & {CONTROL, *names}:
        vms = list(names[:count])
    if len(set(vms)) != count:
        raise ConfigError(
            [f"LISTEN_FDS is {count}; allowed: at most one socket for each VM ({', '.join(names) or 'none'})"]
        )
    families = {CONTROL: (socket.AF_INET, socket.AF_INET6)}
    return {name: inherited(FIRST_ACTIVATED_FD + i, families.get(name, _LOCAL)) for i, name in enumerate(vms)}


def receive_with_fds(sock: socket.socket, size: int, max_fds: int) -> tuple[bytes, tuple[int, ...], int]:
    """Receives up to `size` bytes, the descriptors that came with them (``SCM_RIGHTS``), and ``msg_flags``.

    The caller owns the descriptors, which are close-on-exec from the first moment: ``socket.recv_fds`` of Python 3.11
    ignores its flags, and with them MSG_CMSG_CLOEXEC.

    :raise OSError: as ``recvmsg``.
    """
    data, control, flags, _ = sock.recvmsg(size, socket.CMSG_LEN(max_fds * _FD_BYTES), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, part in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(part[: len(part) - len(part) % _FD_BYTES])
    return data, tuple(fds), flags
