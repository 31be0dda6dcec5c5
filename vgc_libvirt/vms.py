"""VMs of the host's `vgcd`, as its configuration has them, with those that were added beside it for good."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vgc_libvirt.device import Device, device_of
from vhost_backend.config import daemon as configuration
from vhost_backend.config.daemon import VmConfig
from vhost_backend.daemon.roll import AddedVm, Roll, VmStore, state_folder
from vhost_backend.errors import ConfigError

DEFAULT_CONFIG: Final = Path("/etc/vgcd/vgcd.yaml")


@dataclass(frozen=True, slots=True)
class Vms:
    """VMs of one configuration file."""

    file: Path
    vms: tuple[VmConfig, ...]
    control_socket: Path | None
    added: frozenset[str] = frozenset()
    """Names of VMs that stand in the daemon's state alone, which its user may write."""

    def devices(self) -> list[Device]:
        """Devices of all VMs whose sockets have paths."""
        return [device_of(vm) for vm in self.vms if vm.socket is not None]

    def has(self, name: str) -> bool:
        return any(vm.name == name for vm in self.vms)

    def device(self, name: str) -> Device:
        """Device of the VM `name`.

        :raise ConfigError: there is no such VM, or its socket has no path.
        """
        for vm in self.vms:
            if vm.name == name:
                return device_of(vm)
        names = ", ".join(vm.name for vm in self.vms) or "none"
        raise ConfigError([f"{self.file} has no VM {name!r}; its VMs: {names}"])

    def chosen(self, names: Sequence[str]) -> list[Device]:
        """Devices of the named VMs.

        :raise ConfigError: as `device`, or a name appears twice.
        """
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ConfigError([f"VM {twice[0]} is named {names.count(twice[0])} times; allowed: once"])
        return [self.device(name) for name in names]


def load(file: Path) -> Vms:
    """Reads the configuration, and the VMs that ``vgcctl vm add --persist`` has added, if this user may read them.

    :raise ConfigError: one of the two is wrong, or there is no such file.
    """
    if not file.exists():
        raise ConfigError([f"there is no {file}; allowed: vgcd's configuration, there or named by --config"])
    config = configuration.load(file)
    stored = VmStore(state_folder(config, os.environ)).load() if _is_readable(state_folder(config, os.environ)) else {}
    roll = Roll(config, {name: AddedVm(settings, persists=True) for name, settings in stored.items()})
    names = frozenset(vm.name for vm in config.vms)
    return Vms(file, roll.with_base(config).config().vms, config.control.socket, frozenset(stored) - names)


def _is_readable(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)
