"""VMs with which a daemon starts: those of its configuration, those that an earlier daemon served, those of the state file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from vhost_backend.config.daemon import DaemonConfig, VmConfig
from vhost_backend.daemon.keeping import settings_of
from vhost_backend.daemon.records import SettingsRecord
from vhost_backend.daemon.roll import AddedVm, Roll, Settings, VmStore
from vhost_backend.errors import ConfigError, VgcError
from vhost_backend.keeper.client import Keeper, Kept
from vhost_backend.keeper.record import unpack
from vhost_backend.log import get_logger


def first_vms(config: DaemonConfig, keeper: Keeper | None, kept: Mapping[str, Kept]) -> list[VmConfig]:
    """VMs of the configuration; those whose frontends an earlier daemon has served with its settings, and all others of these."""
    served = settings_of(keeper, kept)
    there = {name: unpack(blob, SettingsRecord).settings() for name, blob in served.items()}
    return [there.pop(vm.name, vm) for vm in config.vms] + list(there.values())


class StoredVms:
    """VMs that are to outlast the daemon. Those that it cannot serve are left out, and stay in the state file."""

    def __init__(self, store: VmStore | None) -> None:
        """`store`: None: VMs that are added end with the daemon."""
        self._store = store
        self._reasons: dict[str, str] = {}
        """Reasons why VMs were left out."""
        self._log = get_logger()

    @property
    def can_persist(self) -> bool:
        """True if VMs can outlast the daemon."""
        return self._store is not None

    @property
    def left_out(self) -> dict[str, str]:
        """VMs that cannot be served, each with the reason."""
        there = {} if self._store is None else self._store.left_out
        return {name: reason for name, reason in self._reasons.items() if name in there}

    def admit(
        self, roll: Roll, check: Callable[[DaemonConfig], DaemonConfig], begin: Callable[[VmConfig], None]
    ) -> Roll:
        """Has the VMs of the state file served by `begin`, those that can be; returns the roll with them.

        `check` and `begin` raise `VgcError` if a VM does not fit.
        """
        if self._store is None:
            return roll
        try:
            stored = self._store.load(hold=True)
        except ConfigError as error:
            self._log.error("added_vms_lost", problem=str(error), advice="vgcd serves the VMs of its configuration")
            return roll
        own = {vm.name for vm in roll.config().vms}
        stored = {name: settings for name, settings in stored.items() if name not in own}
        if not stored:
            return roll
        try:
            return self._admit_these(self._store, roll, stored, check, begin)
        except VgcError:
            for name, settings in stored.items():  # some can be served
                try:
                    roll = self._admit_these(self._store, roll, {name: settings}, check, begin)
                except VgcError as error:
                    self._leave_out(self._store, name, settings, error)
        return roll

    def _admit_these(
        self,
        store: VmStore,
        roll: Roll,
        stored: Mapping[str, Settings],
        check: Callable[[DaemonConfig], DaemonConfig],
        begin: Callable[[VmConfig], None],
    ) -> Roll:
        """:raise VgcError: their settings are wrong, or they do not fit; then none of these VMs is admitted."""
        for name, settings in stored.items():
            roll = roll.with_added(name, AddedVm(settings, persists=True))
        for vm in [vm for vm in check(roll.config()).vms if vm.name in stored]:
            try:
                begin(vm)
            except VgcError as error:
                self._leave_out(store, vm.name, stored[vm.name], error)
                roll = roll.without(vm.name)
        return roll

    def _leave_out(self, store: VmStore, name: str, settings: Settings, error: VgcError) -> None:
        store.left_out[name] = settings
        self.note(name, error)
        advice = (
            f"it stays in {store.file}, and a reload tries it again, until it is removed or a VM of its name is added"
        )
        self._log.error("added_vm_not_served", vm=name, problems=str(error).splitlines(), advice=advice)

    def note(self, name: str, error: VgcError) -> None:
        """Notes why a VM is left out."""
        self._reasons[name] = "; ".join(str(error).splitlines())

    def with_left_out(self, roll: Roll, name: str) -> Roll:
        """The roll with a VM that was left out.

        :raise ConfigError: there is a VM of this name.
        """
        assert self._store is not None
        return roll.with_added(name, AddedVm(self._store.left_out[name], persists=True))

    async def forget(self, name: str, roll: Roll) -> None:
        """Takes a VM that was left out of the state file, in which those of `roll` stay; does nothing if it is not there.

        :raise HostError: the file cannot be written; then nothing changes.
        """
        if self._store is None or name not in self._store.left_out:
            return
        settings = self._store.left_out.pop(name)
        try:
            await asyncio.to_thread(self._store.save, roll.persistent())
        except VgcError:
            self._store.left_out[name] = settings
            raise

    def save(self, vms: Mapping[str, Settings]) -> None:
        """Has these VMs outlast the daemon, in place of those that did, beside those that are left out.

        :raise VgcError: they cannot be saved. Then the file is as it was.
        """
        assert self._store is not None
        self._store.save(vms)
