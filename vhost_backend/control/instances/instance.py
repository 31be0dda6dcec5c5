"""Function instance: one function on the processing elements of a selector, opened by a user."""

from __future__ import annotations

from dataclasses import dataclass

from vhost_backend.control.functions.base import FunctionModule
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control.selector import Selector


@dataclass(slots=True, eq=False)
class Instance:
    """Function instance. Its channels are in the tables of its VMs."""

    number: int
    module: FunctionModule
    selector: Selector
    owner: str
    terms: Terms
    vms: frozenset[str]
    """VMs that the instance covers: those that its selector matches and its user may see, with or without a worker."""
    scope: frozenset[str]
    """VMs that it covered when it was opened: who sees all of them sees the instance."""
    opened_ns: int
    connection: int | None
    """Connection with whose end the instance is closed; None: the instance is kept."""
    ttl_ns: int | None = None
    expires_ns: int | None = None
    internal: bool = False
    """True if the control system itself opened the instance, to measure loads."""

    @property
    def function(self) -> str:
        return self.module.function.name.lower()

    def renew(self, now_ns: int) -> None:
        """Starts the time to live again."""
        self.expires_ns = None if self.ttl_ns is None else now_ns + self.ttl_ns
