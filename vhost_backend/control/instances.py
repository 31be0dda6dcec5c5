"""Function instances: what a user has opened, with a number, on the elements that a selector chooses."""

from __future__ import annotations

from dataclasses import dataclass

from vhost_backend.control.channel_port import Terms
from vhost_backend.control.functions.base import FunctionModule
from virtio_proto.control.selector import Selector


@dataclass(slots=True, eq=False)
class Instance:
    """One function instance. Its channels are in the tables of its VMs."""

    number: int
    module: FunctionModule
    selector: Selector
    owner: str
    terms: Terms
    vms: frozenset[str]
    """Which it covers: those whose names match and whose elements its user may see; also ones without a worker yet."""
    opened_ns: int
    connection: int | None
    """Closed when this connection ends; None: it is kept."""
    ttl_ns: int | None = None
    expires_ns: int | None = None
    internal: bool = False
    """Of the control system itself: for policies, for the load."""

    @property
    def function(self) -> str:
        return self.module.function.name.lower()

    def renew(self, now_ns: int) -> None:
        """Starts its time to live again."""
        self.expires_ns = None if self.ttl_ns is None else now_ns + self.ttl_ns
