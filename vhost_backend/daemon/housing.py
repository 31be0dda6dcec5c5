"""Housing of VMs: each gets its quarters from the host, a user and a control group, when the daemon starts."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from vhost_backend import log, users
from vhost_backend.cgroups import host as cgroups
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.errors import HostError
from vhost_backend.quarters import NOWHERE
from vhost_backend.sandbox import spawn

_NO_CGROUPS: Final = "limits hold for each process, not for a VM, and count the memory that it has mapped; nothing bounds the processors that it keeps busy"


def house(config: DaemonConfig, lease: contextlib.ExitStack) -> DaemonConfig:
    """Gives each VM the quarters that the configuration and the host allow; `lease` gives them back.

    :raise HostError: the configuration demands what the host does not have.
    """
    housed = with_cgroups(with_users(config, lease), lease)
    for vm in housed.vms:
        if vm.quarters != NOWHERE:
            group = None if vm.quarters.cgroup is None else str(vm.quarters.cgroup)
            log.get_logger(vm=vm.name).info("housed", user=vm.quarters.user, group=group)
    return housed


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
    else:
        lines.append(f"each VM gets a control group (version {home.group.version})")
        home.close()
    return lines


def with_users(config: DaemonConfig, claims: contextlib.ExitStack) -> DaemonConfig:
    """Gives each VM a user of its own, which `claims` gives back.

    :raise HostError: the configuration names users, and this process cannot run others as them, or none is free.
    """
    try:
        among = spawn.users_of_workers(config.users)
    except HostError as error:
        if config.users is not None:
            hint = "; ".join(filter(None, (error.hint, "or leave 'users' out of the configuration")))
            raise HostError(f"users {config.users} cannot be had: {error.text}", hint) from error
        log.get_logger().warning("users_shared", means="all VMs' sandboxed processes have one user", why=str(error))
        return config

    def claimed(vm: VmConfig) -> VmConfig:
        user = users.claim(vm.uuid, among)
        claims.callback(user.close)
        return replace(vm, quarters=replace(vm.quarters, user=user.number))

    return replace(config, vms=tuple(map(claimed, config.vms)))


def with_cgroups(config: DaemonConfig, made: contextlib.ExitStack) -> DaemonConfig:
    """Gives each VM a control group of its own, which `made` removes.

    :raise HostError: the configuration requires control groups, and this host does not let us have them.
    """
    if config.cgroups == "off":
        return config
    try:
        home = cgroups.find()
    except HostError as error:
        if config.cgroups == "required":
            raise
        log.get_logger().warning("cgroups_missing", means=_NO_CGROUPS, why=str(error))
        return config
    made.callback(home.close)
    log.get_logger().info("cgroups", group=str(home))

    def housed(vm: VmConfig) -> VmConfig:
        return replace(vm, quarters=replace(vm.quarters, cgroup=home.group.child(f"vm-{vm.name}")))

    try:
        return replace(config, vms=tuple(map(housed, config.vms)))
    except OSError as error:
        raise HostError(f"cannot make the VMs' control groups: {error}") from error
