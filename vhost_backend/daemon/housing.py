"""Housing of VMs: each gets its quarters from the host while the daemon serves it: a user, a control group, processors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from vhost_backend import log, users
from vhost_backend.cgroups import host as cgroups
from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.host import Home
from vhost_backend.cgroups.weights import highest, least_nice, sharing
from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.cores import lists, threads
from vhost_backend.cores.pool import CorePool
from vhost_backend.daemon.bounds import vm_limits
from vhost_backend.daemon.records import HomeRecord
from vhost_backend.errors import HostError
from vhost_backend.fds import Fd
from vhost_backend.keeper.client import Change, Drop, Keeper, Kept, Put, below
from vhost_backend.keeper.record import pack, unpack
from vhost_backend.quarters import NOWHERE, Weight
from vhost_backend.sandbox import spawn
from vhost_backend.users import UserRange

_HOME: Final = "cgroups"
"""Key of the control group at the keeper."""
_HOUSED: Final = "housed"
"""Key above those of VMs whose groups are whole: one that a daemon was making, or removing, when it was killed is made anew."""
_NO_CGROUPS: Final = "limits hold for each process, not for a VM, and count the memory that it has mapped; nothing bounds the processors that it keeps busy"


@dataclass(frozen=True, slots=True)
class Housing:
    """Offer of the host to VMs."""

    among: UserRange | None = None
    """Range of users of which each VM gets one; None: all share a user."""
    home: Home | None = None
    """Group in which each VM gets one; None: the host has no control groups, or they are off."""
    cores: CorePool | None = None
    """Processors of VMs; None: VMs have none for their own."""
    left: set[str] = field(default_factory=set)
    """VMs for which an earlier daemon has made groups there, and that have not been asked for yet."""
    keeper: Keeper | None = None
    """Keeper that tells the next daemon of the groups; None: there will be none."""
    no_home: str = ""
    """Reason why the host has no control groups for VMs; "" if it has, or they are off."""

    @classmethod
    def open(cls, config: DaemonConfig, lease: contextlib.ExitStack) -> Self:
        """Finds what the configuration and the host allow; `lease` gives it back, after all VMs have left.

        :raise HostError: the configuration demands what the host does not have.
        """
        offered = cls.tried(config, lease)
        return replace(offered, home=offered.home_in(config, None, lease))

    @classmethod
    def tried(cls, config: DaemonConfig, lease: contextlib.ExitStack) -> Self:
        """Finds all that `open` does but the control group, of which it only tries whether there can be one: `go_on` follows."""
        cores = CorePool(os.sched_getaffinity(0))
        lease.enter_context(cores.watched(lambda: _keep_off_others(cores)))
        return cls(_users(config), None, cores, no_home=_missing_home(config))

    def go_on(
        self, config: DaemonConfig, keeper: Keeper, kept: MutableMapping[str, Kept], lease: contextlib.ExitStack
    ) -> Self:
        """The offer with the control group in which an earlier daemon has housed its VMs, which `lease` gives back.

        `kept`: what that daemon has left, out of which this takes the group. The next daemon finds it with the keeper.

        :raise HostError: no earlier daemon has left one, and the host lets us make none any more.
        """
        there = _left_home(kept)
        home = self.home_in(config, there, lease)
        if home is None:
            return self
        version, folders = home.place
        changes: list[Change] = [Put(_HOME, pack(HomeRecord(version, folders)))]
        changes += [Put(f"{_HOME}/{number}", fd=Fd(os.dup(fd))) for number, fd in enumerate(home.locks)]
        housed = set(below(kept, _HOUSED))
        for name in housed:
            del kept[f"{_HOUSED}/{name}"]
        if home is not there:  # those groups have gone with the other one
            changes.append(Drop(_HOUSED))
            housed.clear()
        keeper.commit(changes)
        return replace(self, home=home, left=housed, keeper=keeper)

    def home_in(self, config: DaemonConfig, there: Home | None, lease: contextlib.ExitStack) -> Home | None:
        """The group that is there, or a new one, which `lease` removes; None: the host has none, or they are off."""
        if there is None and (config.cgroups == "off" or self.no_home):
            return None
        home = there or cgroups.find()
        lease.callback(home.close)
        log.get_logger().info("cgroups", group=str(home))
        return home

    def house(self, vm: VmConfig, lease: contextlib.ExitStack) -> VmConfig:
        """Gives a VM its quarters, which `lease` gives back.

        :raise HostError: no user is free, the host makes no control group, or has not the processors.
        """
        quarters = replace(NOWHERE, weight=Weight(vm.quota.weight))
        if self.among is not None:
            user = users.claim(vm.uuid, self.among)
            lease.callback(user.close)
            quarters = replace(quarters, user=user.number)
        if self.home is not None:
            group = self._group(self.home.group, vm)
            lease.callback(self.home.group.leave, group)
            self._tell(Put(f"{_HOUSED}/{vm.name}"))
            lease.callback(self._tell, Drop(f"{_HOUSED}/{vm.name}"))
            quarters = replace(quarters, cgroup=group)
        if self.cores is not None:
            place = lease.enter_context(self.cores.place(vm.name, vm.quota.cores, vm.quota.pes))
            quarters = replace(quarters, place=place)
        if quarters != NOWHERE:
            shown = None if quarters.cgroup is None else str(quarters.cgroup)
            own = None if vm.quota.cores is None or quarters.place is None else lists.shown(quarters.place.elements)
            log.get_logger(vm=vm.name).info(
                "housed", user=quarters.user, group=shown, weight=vm.quota.weight, cores=own
            )
        return replace(vm, quarters=quarters)

    def _group(self, home: Cgroup, vm: VmConfig) -> Cgroup:
        """:raise HostError: the host makes no control group."""
        name = f"vm-{vm.name}"
        try:
            if vm.name in self.left:
                self.left.remove(vm.name)
                with contextlib.suppress(FileNotFoundError):  # somebody else has removed it, as nothing was in it
                    return home.child_again(name)
            return home.child(name, vm_limits(vm))
        except OSError as error:
            raise HostError(f"cannot make the control group of {vm.name}: {error}") from error

    def _tell(self, change: Change) -> None:
        if self.keeper is not None:
            self.keeper.commit([change])


def _keep_off_others(cores: CorePool) -> None:
    """Keeps this process, and those that it starts, off the processors that VMs have for their own."""
    try:
        threads.settle(os.getpid(), cores.shared)
    except OSError as error:
        log.get_logger().warning("daemon_not_moved", cores=lists.shown(cores.shared), why=str(error))


def describe(config: DaemonConfig) -> list[str]:
    """Lines on the quarters that VMs would get on this host, and on what it lacks of what the configuration demands."""
    lines = []
    try:
        lines.append(f"each VM gets a user of its own, of {spawn.users_of_workers(config.users)}")
    except HostError as error:
        demanded = "" if config.users is None else f"users {config.users} cannot be had, and vgcd run will not start: "
        lines.append(f"{demanded or 'all VMs share a user: '}{error}")
    for vm in config.vms:
        if vm.quota.cores is not None:
            number = "one core" if vm.quota.pes == 1 else f"{vm.quota.pes} cores"
            which = number if vm.quota.cores == "own" else f"the cores {lists.shown(vm.quota.cores)}"
            lines.append(f"{vm.name} gets {which} for its own, which vgcd and other VMs keep off")
    if config.cgroups == "off":
        return [*lines, *_nice_weights(config)]
    try:
        home = cgroups.find()
    except HostError as error:
        demanded = ", and vgcd run will not start" if config.cgroups == "required" else ""
        lines.append(f"no VM gets a control group{demanded}: {error}")
        lines += _nice_weights(config)
    else:
        lines.append(f"each VM gets a control group (version {home.group.version})")
        home.close()
    return lines


def _nice_weights(config: DaemonConfig) -> Iterator[str]:
    """Lines on what weights count for without control groups."""
    yield f"quota.weight is a nice value, which counts for each {sharing()}"
    most = highest(least_nice())
    if higher := [vm.name for vm in config.vms if vm.quota.weight > most]:
        yield f"quota.weight of {', '.join(higher)} counts as {most} for processors, the most that vgcd may give here"


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


def _missing_home(config: DaemonConfig) -> str:
    """Reason why this host has no control group for the daemon; "" if there can be one, or they are off.

    :raise HostError: the configuration requires control groups, and this host does not let us have them.
    """
    if config.cgroups == "off":
        return ""
    try:
        cgroups.find().close()
    except HostError as error:
        if config.cgroups == "required":
            raise
        log.get_logger().warning("cgroups_missing", means=_NO_CGROUPS, why=str(error))
        return error.text
    return ""


def _left_home(kept: MutableMapping[str, Kept]) -> Home | None:
    """The control group that an earlier daemon has left, taken out of `kept`; None: it has left none, or it is gone."""
    entry = kept.pop(_HOME, None)
    if entry is None:
        return None
    record = unpack(entry.blob, HomeRecord)
    fds = [kept.pop(f"{_HOME}/{name}").fd for name in sorted(below(kept, _HOME))]
    return Home.taken_over(record.version, record.folders, [fd.release() for fd in fds if fd is not None])
