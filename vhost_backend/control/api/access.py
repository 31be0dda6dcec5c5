"""Authorisation of peers by role, token or certificate. `virtio_proto.control.tokens` reads the file of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.errors import ConfigError
from virtio_proto.control.api import ROLES, Role
from virtio_proto.control.tokens import TokenError, TokenFile
from virtio_proto.control.verbs.base import Verb


@dataclass(frozen=True, slots=True)
class Peer:
    """Authenticated client of a connection, with its rights."""

    name: str
    role: Role
    vms: frozenset[str] | None = None
    """VMs that the peer may see; None: all."""

    def sees(self, vm: str | None) -> bool:
        """True if the peer may see a VM, or, for None, what concerns the whole host: only peers that see all VMs may."""
        return self.vms is None or (vm is not None and vm in self.vms)

    def may(self, verb: type[Verb]) -> None:
        """:raise RefusedError: "denied": the peer's role is too low for the verb."""
        if ROLES.index(self.role) < ROLES.index(verb.role):
            raise RefusedError("denied", f"{verb.name} takes the role {verb.role}; {self.name} has {self.role}")


class Tokens:
    """Authenticates peers by the host's file of tokens."""

    def __init__(self, path: Path | None, clock_ns: Callable[[], int]) -> None:
        """`path` None: the host has no tokens."""
        self._file = None if path is None else TokenFile(path, with_hosts=False)
        self._clock_ns = clock_ns

    def load(self) -> None:
        """Reads the file if it has changed.

        :raise ConfigError: the file cannot be read, or is wrong.
        """
        try:
            if self._file is not None:
                self._file.load()
        except TokenError as error:
            raise ConfigError(error.problems) from None

    def peer(self, secret: str) -> Peer:
        """Finds the peer that a token belongs to, in the current content of the file.

        :raise RefusedError: "denied": the token is unknown or has expired, or the file has become unreadable or wrong.
        """
        try:
            token = None if self._file is None else self._file.find(secret)
        except TokenError as error:
            raise RefusedError("denied", f"the tokens of this host cannot be read: {error}") from None
        if token is None:
            raise RefusedError("denied", "the token is unknown to this host; allowed: one of its tokens")
        if token.is_expired(self._clock_ns()):
            raise RefusedError("denied", f"the token {token.name} has expired; allowed: a new one (vgcd token new)")
        return Peer(token.name, token.role, token.vms)

    def check(self, secret: str, peer: Peer) -> None:
        """Checks that a token still gives a connected peer the rights with which it connected.

        :raise RefusedError: "denied": the token is gone, has expired, or has other rights now.
        """
        if self.peer(secret) != peer:
            raise RefusedError("denied", f"the token {peer.name} has other rights now; allowed: to connect again")


def peer_of_certificate(subject: str, clients: Mapping[str, Role]) -> Peer:
    """Finds the peer of a client certificate by its common name; the TLS handshake has checked the signature.

    :raise RefusedError: "denied": the configuration gives the name no role.
    """
    role = clients.get(subject)
    if role is None:
        raise RefusedError(
            "denied", f"the certificate of {subject!r:.80} has no role here; allowed: control.tls.clients"
        )
    return Peer(subject, role)
