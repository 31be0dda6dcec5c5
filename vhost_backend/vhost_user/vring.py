"""State of one vring in a session. The worker's data plane serves the ring itself."""

from __future__ import annotations

from dataclasses import dataclass

from vhost_backend.fds import Fd
from vhost_backend.vhost_user.messages import VringAddr


@dataclass(slots=True)
class Vring:
    """State of one vring [vhost-user: Ring states].

    *running* from SET_VRING_KICK to GET_VRING_BASE, or to the set-up of another ring in its place while it is disabled;
    *enabled* as the last SET_VRING_ENABLE set it, running or not.
    `call` and `err` outlive stops and resets: QEMU sets `err` only once.
    """

    index: int
    size: int = 0
    base: int = 0
    address: VringAddr | None = None
    kick: Fd | None = None
    call: Fd | None = None
    err: Fd | None = None
    enabled: bool = False
    running: bool = False
    stopped_as: tuple[int, int, VringAddr | None] | None = None
    """(size, base, address) at the last stop; a start with equal values resumes the ring."""

    def identity(self) -> tuple[int, int, VringAddr | None]:
        return self.size, self.base, self.address

    def stop(self, base: int) -> None:
        """Marks the ring as stopped; `base` is the avail index at which it can resume."""
        self.running = False
        self.base = base
        self.stopped_as = self.identity()
        self.drop("kick")

    def reset(self) -> None:
        """Restores the state of a new connection, except the call and err descriptors."""
        self.running = self.enabled = False
        self.size = self.base = 0
        self.address = None
        self.stopped_as = None
        self.drop("kick")

    def replace(self, name: str, fd: Fd | None) -> None:
        """Sets `kick`, `call` or `err`, and closes its old descriptor."""
        self.drop(name)
        setattr(self, name, fd)

    def drop(self, name: str) -> None:
        old: Fd | None = getattr(self, name)
        setattr(self, name, None)
        if old is not None:
            old.close()

    def close(self) -> None:
        for name in ("kick", "call", "err"):
            self.drop(name)
