"""Authentication of requests: by token, by client certificate, or by connecting to a server on the loopback.

Without tokens and client certificates, everybody who reaches the server may do everything; a server that listens on
more than the loopback needs one of the two (`control_center.config`). Other web sites must not act through a visitor's
browser: requests that change something, and streams, are accepted only from pages of this server (their Origin), and
without tokens only under a name of this machine (their Host).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from control_center.address import is_local
from control_center.errors import ConfigError, RefusedError, UnauthenticatedError
from control_center.scope import Caller, Scope
from virtio_proto.control.api import Role
from virtio_proto.control.tokens import TokenError, TokenFile

log = structlog.get_logger()
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
SUBPROTOCOL: Final = "vgc"
"""WebSocket subprotocol of the stream. A browser cannot set headers for a WebSocket: it offers this and ``token.SECRET``."""
_TOKEN_PROTOCOL: Final = "token."  # noqa: S105  a prefix, not a secret


class Tokens:
    """Tokens of the control centre's file."""

    def __init__(self, path: Path) -> None:
        self._file = TokenFile(path, with_hosts=True)

    def load(self) -> None:
        """:raise ConfigError: the file cannot be read or parsed."""
        try:
            self._file.load()
        except TokenError as error:
            raise ConfigError(error.problems) from None

    def caller(self, secret: str, now_ns: int) -> Caller:
        """Finds the caller with this token. A changed file is read again; one with errors lets nobody in.

        :raise UnauthenticatedError: the token is unknown or has expired.
        """
        try:
            token = self._file.find(secret)
        except TokenError as error:
            log.error("tokens_unreadable", problems=error.problems)  # noqa: TRY400  the caller must not see lines of the file
            raise UnauthenticatedError("the tokens of this control centre cannot be read; see its log") from None
        if token is None:
            raise UnauthenticatedError("the token is unknown here; allowed: one of this control centre's tokens")
        if token.is_expired(now_ns):
            raise UnauthenticatedError(f"the token {token.name} has expired; allowed: a new one")
        return Caller(token.name, token.role, Scope(token.vms))


@dataclass(frozen=True, slots=True)
class Access:
    """Rules by which a request's caller is identified."""

    tokens: Tokens | None = None
    clients: Mapping[str, Role] = field(default_factory=dict)
    """Role for each common name of a client certificate."""
    now_ns: Callable[[], int] = field(default=lambda: 0)

    def caller(self, request: web.Request) -> Caller:
        """Identifies the caller of `request`.

        :raise UnauthenticatedError: the caller shows no valid token or certificate.
        :raise RefusedError: "denied": the request comes from a page of another web site.
        """
        self._check_origin(request)
        secret = _secret(request)
        if secret is not None and self.tokens is not None:
            return self.tokens.caller(secret, self.now_ns())
        subject = _subject(request)
        if subject is not None and self.clients:
            role = self.clients.get(subject)
            if role is None:
                raise UnauthenticatedError(f"the certificate of {subject!r:.80} has no role here; allowed: tls.clients")
            return Caller(subject, role)
        if self.tokens is not None or self.clients:
            raise UnauthenticatedError("a token is needed; allowed: Authorization: Bearer TOKEN")
        return Caller("local", "admin")

    def _check_origin(self, request: web.Request) -> None:
        open_to_all = self.tokens is None and not self.clients
        if open_to_all and not is_local(_name(f"//{request.host}")):
            raise RefusedError("denied", f"asked as {request.host!r:.80}; allowed without tokens: localhost")
        origin = request.headers.get("Origin")
        changes = request.method not in SAFE_METHODS or request.headers.get("Upgrade", "").lower() == "websocket"
        if changes and origin is not None and _place(origin) != request.host:
            raise RefusedError("denied", f"a page of {origin!r:.80} asks; allowed: pages of {request.host}")


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _place(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _secret(request: web.Request) -> str | None:
    header = request.headers.get("Authorization", "")
    scheme, _, secret = header.partition(" ")
    if scheme.lower() == "bearer" and secret:
        return secret.strip()
    offered = (part.strip() for part in request.headers.get("Sec-WebSocket-Protocol", "").split(","))
    return next((part.removeprefix(_TOKEN_PROTOCOL) for part in offered if part.startswith(_TOKEN_PROTOCOL)), None)


def _subject(request: web.Request) -> str | None:
    """Common name in the client's certificate, which TLS has checked."""
    certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
    names = [value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if names else None
