"""Who may do what: roles, tokens, certificates, peers.

A token is a secret that `new_token` makes and shows once; the file has its SHA-256 and what it allows, one token in a
line::

    sha256:5e88... role=view vms=web1|web2 expires=2026-12-21T00:00:00Z name=ann

``vms`` and ``expires`` may be left out: all VMs, and for ever. The file is read again when it has changed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vhost_backend.control.refusal import RefusedError
from vhost_backend.errors import ConfigError
from virtio_proto.control.api import ROLES, VERBS, Role

MARK: Final = "vgc_"
"""So that people, and programs that look for leaked secrets, recognise one."""

MAX_FILE_BYTES: Final = 1 << 20
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_VM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}")
_KEYS: Final = ("role", "vms", "expires", "name")
_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection. Only a `Peer` of the right role gets anything done."""

    name: str
    role: Role
    vms: frozenset[str] | None = None
    """Which VMs there are for it; None: all."""

    def sees(self, vm: str | None) -> bool:
        """Whether the VM exists for it. What concerns the host as a whole is for those who see all of it."""
        return self.vms is None or (vm is not None and vm in self.vms)

    def may(self, verb: str) -> None:
        """:raise RefusedError: "denied"."""
        needed = VERBS.get(verb, "admin")
        if ROLES.index(self.role) < ROLES.index(needed):
            raise RefusedError("denied", f"{verb} takes the role {needed}; {self.name} has {self.role}")


@dataclass(frozen=True, slots=True)
class Token:
    """A line of the file."""

    sha256: str
    role: Role
    vms: frozenset[str] | None
    expires_ns: int | None
    name: str

    def line(self) -> str:
        parts = [f"sha256:{self.sha256}", f"role={self.role}"]
        if self.vms is not None:
            parts.append(f"vms={'|'.join(sorted(self.vms))}")
        if self.expires_ns is not None:
            parts.append(f"expires={datetime.fromtimestamp(self.expires_ns / _NS_PER_S, UTC):%Y-%m-%dT%H:%M:%SZ}")
        return " ".join([*parts, f"name={self.name}"])


def new_token(role: Role, vms: frozenset[str] | None, expires_ns: int | None, name: str) -> tuple[str, Token]:
    """A fresh secret, and what is to be remembered of it."""
    secret = MARK + secrets.token_urlsafe(32)
    return secret, Token(_digest(secret), role, vms, expires_ns, name)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# ---- the file ------------------------------------------------------------------------------------


def parse_tokens(text: str, file: str) -> tuple[Token, ...]:
    """The tokens in a file's text; empty lines and lines that begin with # are left out.

    :raise ConfigError: with every problem found.
    """
    problems: list[str] = []
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                tokens.append(_token(line))
            except ValueError as error:
                problems.append(f"{file}:{number}: {error}")
    if problems:
        raise ConfigError(problems)
    return tuple(tokens)


def _token(line: str) -> Token:
    """:raise ValueError: the line is wrong; with what is allowed."""
    first, *rest = line.split()
    digest = _HASH.fullmatch(first)
    if digest is None:
        raise ValueError(f"the line begins with {first!r:.40}; allowed: sha256: and 64 hexadecimal digits")
    values: dict[str, str] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS or key in values:
            raise ValueError(f"{part!r:.80}; allowed: each of {', '.join(_KEYS)} once, as key=value")
        values[key] = value
    role, name = values.get("role", ""), values.get("name", "token")
    if role not in ROLES:
        raise ValueError(f"role={role!r:.40}; allowed: {', '.join(ROLES)}")
    if not _NAME.fullmatch(name):
        raise ValueError(f"name={name!r:.80}; allowed: 1 to 63 of A-Z a-z 0-9 _ . @ -")
    return Token(digest[1], role, _vms(values.get("vms")), _expires_ns(values.get("expires")), name)


def _vms(value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    names = value.split("|")
    if not all(_VM.fullmatch(name) for name in names):
        raise ValueError(f"vms={value!r:.80}; allowed: names of VMs, as a|b")
    return frozenset(names)


def _expires_ns(value: str | None) -> int | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"expires={value!r:.40}; allowed: a time such as 2026-12-21T00:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"expires={value!r:.40}; allowed: a time with its zone, such as 2026-12-21T00:00:00Z")
    return int(moment.timestamp()) * _NS_PER_S


class TokenFile:
    """The tokens that are valid now."""

    def __init__(self, path: Path | None, clock_ns: Callable[[], int]) -> None:
        self._path = path
        self._clock_ns = clock_ns
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def load(self) -> None:
        """Reads the file if it is another one than last time.

        :raise ConfigError: it cannot be read, or is wrong.
        """
        if self._path is None:
            return
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._stamp:
                return
            if status.st_size > MAX_FILE_BYTES:
                raise ConfigError([f"{self._path}: {status.st_size} bytes; allowed: {MAX_FILE_BYTES}"])
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError([f"{self._path}: cannot be read: {reason}; allowed: a readable file of tokens"]) from None
        self._tokens = parse_tokens(text, str(self._path))
        self._stamp = stamp

    def peer(self, secret: str) -> Peer:
        """Whoever has this token. The file may have changed; one that became wrong lets nobody in.

        :raise RefusedError: "denied": nobody has, or it has expired.
        """
        try:
            self.load()
        except ConfigError as error:
            raise RefusedError("denied", f"the tokens of this host cannot be read: {error}") from None
        digest = _digest(secret)
        found = [token for token in self._tokens if hmac.compare_digest(token.sha256, digest)]
        if not found:
            raise RefusedError("denied", "the token is unknown to this host; allowed: one of its tokens")
        token = found[0]
        if token.expires_ns is not None and token.expires_ns <= self._clock_ns():
            raise RefusedError("denied", f"the token {token.name} has expired; allowed: a new one (vgcd token new)")
        return Peer(token.name, token.role, token.vms)


def peer_of_certificate(subject: str, clients: Mapping[str, Role]) -> Peer:
    """Whoever has a certificate with this common name, signed by the CA for clients.

    :raise RefusedError: "denied": the configuration gives the name no role.
    """
    role = clients.get(subject)
    if role is None:
        raise RefusedError(
            "denied", f"the certificate of {subject!r:.80} has no role here; allowed: control.tls.clients"
        )
    return Peer(subject, role)
