"""Who may do what: roles, tokens, certificates, peers. The file of tokens is `virtio_proto.control.tokens`'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vhost_backend.control.refusal import RefusedError
from vhost_backend.errors import ConfigError
from virtio_proto.control.api import ROLES, VERBS, Role
from virtio_proto.control.tokens import TokenError, TokenFile


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


class Tokens:
    """Who has which token of the host's file."""

    def __init__(self, path: Path | None, clock_ns: Callable[[], int]) -> None:
        """`path` None: there are none."""
        self._file = None if path is None else TokenFile(path, with_hosts=False)
        self._clock_ns = clock_ns

    def load(self) -> None:
        """Reads the file if it is another one than last time.

        :raise ConfigError: it cannot be read, or is wrong.
        """
        try:
            if self._file is not None:
                self._file.load()
        except TokenError as error:
            raise ConfigError(error.problems) from None

    def peer(self, secret: str) -> Peer:
        """Whoever has this token. The file may have changed; one that became wrong lets nobody in.

        :raise RefusedError: "denied": nobody has, or it has expired.
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
        """Whoever came in with a token may stay as long as it would let the same one in.

        :raise RefusedError: "denied".
        """
        if self.peer(secret) != peer:
            raise RefusedError("denied", f"the token {peer.name} allows something else now; allowed: to connect again")


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
