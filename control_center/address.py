"""Addresses of daemons, ``unix:/run/vgc/control.sock`` or ``tls://host:port``, and credentials to show there."""

from __future__ import annotations

import re
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

ALLOWED: Final = "unix:/absolute/path or tls://host:port"
_TLS: Final = re.compile(r"tls://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]{1,253}):(\d{1,5})/?")
_LOCAL: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")
SOCKETS: Final = (Path("/run/vgcd/control.sock"), Path("/run/vgc/control.sock"))
"""Where a daemon of this machine is looked for if none is named: the shipped unit's folder, and the documentation's."""
_MAX_SOCKET_PATH: Final = 107  # sun_path


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TlsAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"tls://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


Address: TypeAlias = UnixAddress | TlsAddress


def parse(text: str) -> Address:
    """Parses an address.

    :raise ValueError: the text is not an address of a daemon; the message says what is allowed.
    """
    scheme, colon, path = text.partition(":")
    if scheme == "unix" and colon and path.startswith("/") and "\0" not in path and len(path) <= _MAX_SOCKET_PATH:
        return UnixAddress(Path(path))
    match = _TLS.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(f"{text!r:.120} is not an address of a daemon; allowed: {ALLOWED}")
    return TlsAddress(match[1].strip("[]"), int(match[2]))


@dataclass(frozen=True, slots=True)
class Credentials:
    """Token and certificates to show to a daemon over TLS, and the CA that its certificate must have. A UNIX socket
    needs none of them.
    """

    token: str | None = None
    ca: Path | None = None
    """CA certificates for the daemon's certificate; None: those that the system trusts."""
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """:raise OSError: a file cannot be read, or does not hold a certificate or key."""
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


def local_socket() -> Path | None:
    """Socket of a daemon of this machine at one of the usual places; None: no daemon has one there."""
    return next((path for path in SOCKETS if _is_there(path)), None)


def _is_there(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:  # a folder that is closed to this user is said when he connects
        return isinstance(error, PermissionError)


def is_local(host: str) -> bool:
    """True if an address or a name is of the loopback."""
    return _LOCAL.fullmatch(host) is not None
