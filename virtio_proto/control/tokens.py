"""Access tokens of the control API: secrets, and the file that grants rights to them.

The file has the SHA-256 of each secret and its rights, one token per line; empty lines and lines that begin with
``#`` are ignored::

    sha256:5e88... role=view vms=web1|web2 expires=2026-12-21T00:00:00Z name=ann

Without ``vms`` a token is valid for all VMs, without ``expires`` for ever. A VM is ``name``, or ``host/name`` if VMs of
several hosts have that name; a daemon knows no other hosts and takes plain names only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from virtio_proto.control.api import ROLES, Role

PREFIX: Final = "vgc_"
"""Prefix of secrets, by which people and scanners for leaked secrets recognise them."""

NS_PER_S: Final = 1_000_000_000
MAX_FILE_BYTES: Final = 1 << 20
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_VM: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,62}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}")
_KEYS: Final = ("role", "vms", "expires", "name")


class TokenError(ValueError):
    """A file of tokens is wrong; `problems` holds every problem found."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Token:
    """Token, one line of the file."""

    sha256: str
    role: Role
    vms: frozenset[str] | None
    """VMs that the token is valid for; None: all."""
    expires_ns: int | None
    """End of validity, CLOCK_REALTIME; None: valid for ever."""
    name: str

    def is_expired(self, now_ns: int) -> bool:
        return self.expires_ns is not None and self.expires_ns <= now_ns

    def line(self) -> str:
        parts = [f"sha256:{self.sha256}", f"role={self.role}"]
        if self.vms is not None:
            parts.append(f"vms={'|'.join(sorted(self.vms))}")
        if self.expires_ns is not None:
            parts.append(f"expires={datetime.fromtimestamp(self.expires_ns / NS_PER_S, UTC):%Y-%m-%dT%H:%M:%SZ}")
        return " ".join([*parts, f"name={self.name}"])


def digest(secret: str) -> str:
    """SHA-256 of a secret, in hexadecimal. Secrets have 256 random bits, so a plain hash is enough."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()  # headers may hold any bytes


def new(role: Role, vms: frozenset[str] | None, expires_ns: int | None, name: str) -> tuple[str, Token]:
    """Makes a secret; returns it and its token, which holds only the hash."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, Token(digest(secret), role, vms, expires_ns, name)


def parse(text: str, file: str, *, with_hosts: bool = True) -> tuple[Token, ...]:
    """Parses a file's text. Unless `with_hosts`, VMs are plain names.

    :raise TokenError: the text is wrong; each problem names `file` and its line.
    """
    problems: list[str] = []
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                tokens.append(_token(line, with_hosts=with_hosts))
            except ValueError as error:
                problems.append(f"{file}:{number}: {error}")
    if problems:
        raise TokenError(problems)
    return tuple(tokens)


def _token(line: str, *, with_hosts: bool) -> Token:
    """Parses a line.

    :raise ValueError: the line is wrong; the text says what is allowed.
    """
    first, *rest = line.split()
    found = _HASH.fullmatch(first)
    if found is None:
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
    return Token(
        found[1], role, _vms(values.get("vms"), with_hosts=with_hosts), _expires_ns(values.get("expires")), name
    )


def _vms(value: str | None, *, with_hosts: bool) -> frozenset[str] | None:
    if value is None:
        return None
    names = value.split("|")
    if not all(_VM.fullmatch(name) and (with_hosts or "/" not in name) for name in names):
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
    return int(moment.timestamp()) * NS_PER_S


class TokenFile:
    """File of tokens that is read again whenever it has changed."""

    def __init__(self, path: Path, *, with_hosts: bool) -> None:
        """`with_hosts`: as in `parse`."""
        self._path = path
        self._with_hosts = with_hosts
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def load(self) -> None:
        """Reads the file if it has changed.

        :raise TokenError: the file cannot be read, or is wrong.
        """
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._stamp:
                return
            if status.st_size > MAX_FILE_BYTES:
                raise TokenError([f"{self._path}: {status.st_size} bytes; allowed: {MAX_FILE_BYTES}"])
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise TokenError([f"{self._path}: cannot be read: {reason}; allowed: a readable file of tokens"]) from None
        self._tokens = parse(text, str(self._path), with_hosts=self._with_hosts)
        self._stamp = stamp

    def find(self, secret: str) -> Token | None:
        """Finds the token of a secret, expired or not, in the current content of the file.

        :raise TokenError: as `load`.
        """
        self.load()
        wanted = digest(secret)
        found = [token for token in self._tokens if hmac.compare_digest(token.sha256, wanted)]
        return found[0] if found else None
