"""Callers and the VMs that they may see. For a caller, a VM outside of their scope does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from control_center.errors import RefusedError
from virtio_proto.control.api import ROLES, Role
from virtio_proto.control.selector import Selector

MAX_NAMES_CHARS: Final = 256
"""Longest ``vm`` of a selector."""


@dataclass(frozen=True, slots=True)
class Scope:
    """VMs that a caller may see: each ``vm``, on any host, or ``host/vm``; None: all."""

    vms: frozenset[str] | None = None

    @property
    def is_all(self) -> bool:
        return self.vms is None

    def sees(self, host: str, vm: str | None) -> bool:
        """True if a VM is in the scope; a `vm` of None stands for what concerns a host as a whole."""
        return self.vms is None or (vm is not None and (vm in self.vms or f"{host}/{vm}" in self.vms))

    def narrow(self, selector: Selector, host: str, there: Iterable[str]) -> Selector | None:
        """Restricts `selector` to VMs of the scope among those that are `there` on the host; None if no VM is left.

        :raise RefusedError: "malformed": too many VMs are left for a selector to name them.
        """
        if self.vms is None:
            return selector
        names = [vm for vm in there if self.sees(host, vm) and selector.matches_vm(vm)]
        if not names:
            return None
        text = "|".join(names)
        if len(text) > MAX_NAMES_CHARS:
            raise RefusedError("malformed", f"{len(names)} VMs of {host} match; allowed: fewer, by a narrower vm=")
        return replace(selector, vm=text)


@dataclass(frozen=True, slots=True)
class Caller:
    """User behind a request."""

    name: str
    role: Role
    scope: Scope = field(default_factory=Scope)

    def must_be(self, role: Role) -> None:
        """:raise RefusedError: "denied": the caller's role allows less."""
        if ROLES.index(self.role) < ROLES.index(role):
            raise RefusedError("denied", f"this takes the role {role}; {self.name} has {self.role}")
