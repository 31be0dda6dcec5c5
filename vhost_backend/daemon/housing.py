"""Housing of VMs: each gets its quarters from the host, a user and a control group, while the daemon serves it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Final, Self

from vhost_backend import log, users
from vhost_backend.cgroups import host as cgroups
from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.weights import sharing
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.daemon.bounds import vm_limits
from vhost_backend.errors import HostError
from vhost_backend.quarters import NOWHERE
from vhost_backend.sandbox import spawn
from vhost_backend.users import UserRange

_NO_CGROUPS: Final = "limits hold for each process, not for a VM, and count the memory that it has mapped; nothing bounds the processors that it keeps busy"


@dataclass(frozen=True, slots=True)
class Housing:
    """Offer of the host to VMs."""

    among: UserRange | None = None
    """Range of users of which each VM gets one; None: all share a user."""
    home: Cgroup | None = None
    """Group in which each VM gets one; None: the host has no control groups, or they are off."""

    @classmethod
    def open(cls, config: DaemonConfig, lease: contextlib.ExitStack) -> Self:
        """Finds what the configuration and the host allow; `lease` gives it back, after all VMs have left.

        :raise HostError: the configuration demands what the host does not have.
        """
        return cls(_users(config), _home(config, lease))

    def house(self, vm: VmConfig, lease: contextlib.ExitStack) -> VmConfig:
        """Gives a VM its quarters, which `lease` gives back.

        :raise HostError: no user is free, or the host makes no control group.
        """
        quarters = replace(NOWHERE, weight=vm.quota.weight)
        if self.among is not None:
            user = users.claim(vm.uuid, self.among)
            lease.callback(user.close)
            quarters = replace(quarters, user=user.number)
        if self.home is not None:
            try:
                group = self.home.child(f"vm-{vm.name}", vm_limits(vm))
            except OSError as error:
                raise HostError(f"cannot make the control group of {vm.name}: {error}") from error
            lease.callback(self.home.leave, group)
            quarters = replace(quarters, cgroup=group)
        if quarters != NOWHERE:
            shown = None if quarters.cgroup is None else str(quarters.cgroup)
            log.get_logger(vm=vm.name).info("housed", user=quarters.user, group=shown, weight=vm.quota.weight)
        return replace(vm, quarters=quarters)


def describe(config: DaemonConfig) -> list[str]:
    """Lines on the quarters that VMs would get on this host, and on what it lacks of what the configuration demands."""
    lines = []
    try:
        lines.append(f"each VM gets a user of its own, of {spawn.users_of_workers(config.users)}")
    except HostError as error:
        demanded = "" if config.users is None else f"users {config.users} cannot be had, and vgcd run will not start: "
        lines.append(f"{demanded or 'all VMs share a user: '}{error}")
    if config.cgroups == "off":
        return lines
    try:
        home = cgroups.find()
    except HostError as error:
        demanded = ", and vgcd run will not start" if config.cgroups == "required" else ""
        lines.append(f"no VM gets a control group{demanded}: {error}")
        lines.append(f"quota.weight is a nice value, which counts for each {sharing()}")
    else:
        lines.append(f"each VM gets a control group (version {home.group.version})")
        home.close()
    return lines


def _users(config: DaemonConfig) -> UserRange | None:
    """Range of users for VMs.

    :raise HostError: the configuration names users, and this process cannot run others as them.
    """
    try:
        return spawn.users_of_workers(config.users)
    except HostError as error:
        if config.users is not None:
            hint = "; ".join(filter(None, (error.hint, "or leave 'users' out of the configuration")))
            raise HostError(f"users {config.users} cannot be had: {error.text}", hint) from error
        log.get_logger().warning("users_shared", means="all VMs' sandboxed processes have one user", why=str(error))
        return None


def _home(config: DaemonConfig, lease: contextlib.ExitStack) -> Cgroup | None:
    """The daemon's own group, which `lease` removes.

    :raise HostError: the configuration requires control groups, and this host does not let us have them.
    """
    if config.cgroups == "off":
        return None
    try:
        home = cgroups.find()
    except HostError as error:
        if config.cgroups == "required":
            raise
        log.get_logger().warning("cgroups_missing", means=_NO_CGROUPS, why=str(error))
        return None
    lease.callback(home.close)
    log.get_logger().info("cgroups", group=str(home))
    return home.group
