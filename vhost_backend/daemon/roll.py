"""Roll of a daemon's VMs: those of its configuration, and those that were added beside it, without a file.

Added VMs outlast a reload. A VM that the configuration names, too, is the configuration's from then on. The state file
keeps those that are to outlast the daemon.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from vhost_backend.config.daemon import DaemonConfig, VmConfig, parse, with_vms, wrong_cores
from vhost_backend.daemon.state_files import read_file, replace_file
from vhost_backend.errors import ConfigError, HostError
from vhost_backend.keeper.client import Kept, Put
from virtio_proto.control.api import VmOrigin

DEFAULT_STATE: Final = Path("/var/lib/vgcd")
_FILE: Final = "added-vms.json"
_VERSION: Final = 1
_ENTRY: Final = "daemon"
"""Key of the roll at the keeper."""
_ALL: Final = 0
"""Number of processing elements that stands for all (`virtio_proto.control.verbs.vms.SetLimits`)."""
_KEYS: Final = {"memory_bytes": "memory"}
"""Keys of the configuration for limits that have another name there."""
_NS_PER_MS: Final = 1_000_000
_ADDED: Final = "added VMs"
"""Name of the added VMs in messages, in place of a file's."""

Settings: TypeAlias = Mapping[str, Any]
"""Settings of a VM, as they stand in the configuration's section ``vms``."""


def state_folder(config: DaemonConfig, environment: Mapping[str, str]) -> Path:
    """Folder of the daemon's state: the configuration's, or else systemd's (``StateDirectory=``), or the default."""
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    return config.state or (Path(given) if given else DEFAULT_STATE)


@dataclass(frozen=True, slots=True)
class AddedVm:
    """VM that was added without a file."""

    settings: Settings
    persists: bool
    """True if it is served again after a restart of the daemon."""


@dataclass(frozen=True, slots=True)
class Roll:
    """VMs that a daemon serves."""

    base: DaemonConfig
    """Configuration of the file, or of the command line, without VMs that were removed since."""
    added: Mapping[str, AddedVm] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Limits of VMs that were set: `deadline_ns`, and fields of the quota. Those of VMs of the configuration count until it
    is read again."""

    def config(self) -> DaemonConfig:
        """Configuration with all VMs, checked as if it stood in one file.

        :raise ConfigError: the settings of an added VM are wrong, or contradict those of a different VM.
        """
        made = with_vms(self.base, {name: vm.settings for name, vm in self.added.items()}, _ADDED)
        vms = tuple(_limited(vm, self.limits.get(vm.name, {})) for vm in made.vms)
        if wrong := [problem for vm in vms if (problem := wrong_cores(vm))]:
            raise ConfigError(wrong)
        return replace(made, vms=vms)

    def with_base(self, base: DaemonConfig) -> Self:
        """The roll after the configuration has been read again, which brings back its limits."""
        names = {vm.name for vm in base.vms}
        added = {name: vm for name, vm in self.added.items() if name not in names}
        return replace(
            self, base=base, added=added, limits={name: of for name, of in self.limits.items() if name in added}
        )

    def with_added(self, name: str, vm: AddedVm) -> Self:
        """The roll with one VM more.

        :raise ConfigError: there is a VM of this name.
        """
        if name in self.added or any(there.name == name for there in self.base.vms):
            raise ConfigError(
                [f"vms.{name} is served already; allowed: a name that no VM has, or to remove that VM before"]
            )
        return replace(self, added={**self.added, name: vm})

    def without(self, name: str) -> Self:
        base = replace(self.base, vms=tuple(vm for vm in self.base.vms if vm.name != name))
        added = {key: vm for key, vm in self.added.items() if key != name}
        return replace(self, base=base, added=added, limits={key: of for key, of in self.limits.items() if key != name})

    def with_limits(self, name: str, limits: Mapping[str, int]) -> Self:
        """The roll with other limits of a VM. Those of an added VM stay as long as the VM.

        :raise ConfigError: the VM is to leave.
        """
        if name not in self.added and all(vm.name != name for vm in self.base.vms):
            raise ConfigError([f"{name} is to leave; allowed: a VM that stays"])
        return replace(self, limits={**self.limits, name: {**self.limits.get(name, {}), **limits}})

    def persistent(self) -> dict[str, Settings]:
        """Added VMs that are served again after a restart of the daemon, with the limits that were set."""
        return {
            name: _with_limits(vm.settings, self.limits.get(name, {})) for name, vm in self.added.items() if vm.persists
        }

    def origin(self, name: str, *, has_file: bool) -> VmOrigin:
        """Place from which a VM comes; a VM that is not on the roll leaves."""
        if name in self.added:
            return "persisted" if self.added[name].persists else "added"
        if any(vm.name == name for vm in self.base.vms):
            return "file" if has_file else "command line"
        return "leaving"


def _limited(vm: VmConfig, limits: Mapping[str, int]) -> VmConfig:
    quota: dict[str, Any] = {name: value for name, value in limits.items() if name != "deadline_ns"}
    if quota.get("pes") == _ALL:
        quota["pes"] = None
    return replace(vm, quota=replace(vm.quota, **quota), deadline_ns=limits.get("deadline_ns", vm.deadline_ns))


def _with_limits(settings: Settings, limits: Mapping[str, int]) -> Settings:
    """Settings with other limits, as they would stand in the configuration; a deadline in whole milliseconds."""
    quota = {_KEYS.get(name, name): value for name, value in limits.items() if name != "deadline_ns"}
    made = {**settings, **({"quota": {**settings.get("quota", {}), **quota}} if quota else {})}
    if quota.get("pes") == _ALL:
        del made["quota"]["pes"]
    return made | ({"deadline": f"{-(-limits['deadline_ns'] // _NS_PER_MS)}ms"} if "deadline_ns" in limits else {})


def told(roll: Roll) -> Put:
    """The roll as an entry at the keeper, for the daemon that takes over."""
    record = {
        "text": roll.base.text,
        "vms": [vm.name for vm in roll.base.vms],
        "added": {name: {"settings": vm.settings, "persists": vm.persists} for name, vm in roll.added.items()},
        "limits": roll.limits,
    }
    return Put(_ENTRY, json.dumps(record).encode())


def restored(kept: Mapping[str, Kept]) -> Roll | None:
    """The roll that another daemon has left at the keeper; None: it has left none.

    :raise ConfigError: this program does not take that daemon's configuration.
    """
    entry = kept.get(_ENTRY)
    if entry is None:
        return None
    record = json.loads(entry.blob)
    base = parse(record["text"], "the configuration of the vgcd before")
    base = replace(base, vms=tuple(vm for vm in base.vms if vm.name in record["vms"]))
    added = {name: AddedVm(vm["settings"], vm["persists"]) for name, vm in record["added"].items()}
    return Roll(base, added, record["limits"])


class VmStore:
    """State file of added VMs that are served again after a restart of the daemon."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / _FILE
        self.left_out: dict[str, Settings] = {}
        """VMs of the file that this run of the daemon cannot serve; they stay in the file."""
        self._problem = ""
        self._hold: int | None = None
        """Locked descriptor of the folder, until the process ends: it is this daemon's."""
        self._is_new = False
        """True if there was no file when it was to be read."""

    def load(self, *, hold: bool = False) -> dict[str, Settings]:
        """Reads the VMs of the file; none if there is no file. `hold`: they are this daemon's alone from now on.

        :raise ConfigError: the file is damaged, or another daemon's, and stays as it is: nothing is saved until the daemon is
            restarted.
        """
        self._is_new = not os.path.exists(self.file)  # noqa: PTH110  Path.exists() raises where a folder may not be read
        if hold and not self._is_new and not self._take():
            self._problem = self._not_ours
            raise ConfigError([self._problem])
        try:
            return _vms_of(json.loads(read_file(self.file)))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            reason = error.strerror or str(error)
        except (ValueError, RecursionError) as error:
            reason = str(error)
        self._problem = f"{self.file} cannot be used: {reason}; allowed: a file that vgcd wrote, or none"
        raise ConfigError([self._problem])

    def save(self, vms: Mapping[str, Settings]) -> None:
        """Replaces the file by one with these VMs, at once and for good, and those that are left out.

        :raise ConfigError: the file was damaged when the daemon started, or is another daemon's.
        :raise HostError: the file cannot be written; then it stays as it was.
        """
        if self._problem:
            raise ConfigError([f"{self._problem}, and a restart of vgcd"])
        left_out = {name: settings for name, settings in self.left_out.items() if name not in vms}
        text = json.dumps({"version": _VERSION, "vms": {**left_out, **vms}}, indent=1)
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_first = self._hold is None
            if not self._take() or (is_first and self._is_new and self.file.exists()):
                raise ConfigError([self._not_ours])
            replace_file(self.file, f"{text}\n".encode())
        except OSError as error:
            hint = "set 'state' in the configuration to a folder that vgcd may write"
            raise HostError(f"{self.file} cannot be written: {error.strerror or error}", hint) from None
        self.left_out = left_out

    @property
    def _not_ours(self) -> str:
        return f"{self.file.parent} is another vgcd's; allowed: a folder for each, 'state' in the configuration"

    def _take(self) -> bool:
        """Makes the folder this daemon's; false if another daemon has it."""
        if self._hold is not None:
            return True
        try:
            folder = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return True  # what is done next says what is wrong with it
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            return False
        except OSError:
            pass  # a file system without locks
        self._hold = folder
        return True


def _vms_of(root: object) -> dict[str, Settings]:
    """VMs of a state file's contents.

    :raise ValueError: the contents have a different shape or version.
    """
    if not isinstance(root, dict) or root.get("version") != _VERSION:
        raise ValueError(f"it is no state file of version {_VERSION}")
    vms = root.get("vms")
    if not isinstance(vms, dict) or not all(isinstance(settings, dict) for settings in vms.values()):
        raise ValueError("its VMs are no mapping of names to settings")
    return vms
