"""Configuration of the daemon: YAML in, frozen dataclasses out.

Every problem is reported, not only the first, and each names file and line, key path, value and what is allowed.
``docs/vgcd.example.yaml`` shows every key.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from vhost_backend.cgroups.limits import MAX_WEIGHT, USUAL_WEIGHT
from vhost_backend.config.control import ControlConfig, parse_control, why_vm_is_refused
from vhost_backend.config.engine import EngineConfig, parse_engine
from vhost_backend.cores import lists
from vhost_backend.cores.pool import OwnCores
from vhost_backend.errors import ConfigError
from vhost_backend.log import LogFormat, LogLevel
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.users import DEFAULT_RANGE, MAX_ID, UserRange
from virtio_proto.schema import LIMITS
from virtio_proto.yaml_values import (
    MIB,
    NAME,
    NAME_ALLOWED,
    NS_PER_S,
    SIZE_UNITS,
    TIB,
    TIME_UNITS,
    Located,
    Parser,
    Problems,
    choice,
    flag,
    integer,
    path_of,
    plain_name,
    read_text,
    read_yaml,
    scaled,
    socket_path,
    table_of,
)

__all__ = [
    "MIB",
    "ControlConfig",
    "DaemonConfig",
    "EngineConfig",
    "LogConfig",
    "QuotaConfig",
    "VmConfig",
    "different_keys",
    "load",
    "parse",
    "vm_uuid",
]

SandboxMode: TypeAlias = Literal["strict", "best-effort", "permissive", "off"]
"""Sandbox of a VM's worker. A file cannot say "off": that is for tests, which write their guests themselves."""

MAX_VMS: Final = 256
_UUID_SPACE: Final = uuid.UUID("6f0c5f3e-6d0b-5c55-9d2b-0f1f3a8f7c11")


@dataclass(frozen=True, slots=True)
class LogConfig:
    format: LogFormat = "console"
    level: LogLevel = "info"


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """Limits on what a VM may use."""

    pes: int | None = None
    """Number of processing elements; None: all of the engine's device."""
    memory_bytes: int = 256 * MIB
    queue_depth: int = 256
    contexts: int = LIMITS["MAX_CONTEXTS"]
    streams: int = LIMITS["MAX_STREAMS"]
    weight: int = USUAL_WEIGHT
    """Share of the host's processors, beside other VMs that have work, too."""
    cores: OwnCores = None
    """Processors of the host that the VM's elements have for their own."""


@dataclass(frozen=True, slots=True)
class VmConfig:
    """Settings of one VM."""

    name: str
    uuid: uuid.UUID
    socket: Path | None = None
    """Path at which the frontend connects; None: the daemon inherits the socket when it is started."""
    region_bytes: int = 64 * MIB
    region_file: Path | None = None
    """File of the region; None: the region is told by its size and by the rings in it."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    quota: QuotaConfig = field(default_factory=QuotaConfig)
    deadline_ns: int = 10 * NS_PER_S
    num_queues: int = 16
    sandbox: SandboxMode = "strict"
    quarters: Quarters = NOWHERE
    """Quarters of the VM's sandboxed processes, which the daemon gets from the host: they stand in no file."""
    cache_domain: str | None = None
    """VMs of one domain share compiled programs; None: the VM shares them with no other."""


Cgroups: TypeAlias = Literal["auto", "required", "off"]


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    vms: tuple[VmConfig, ...]
    log: LogConfig = field(default_factory=LogConfig)
    cache: Path | None = None
    """Folder of compiled programs; None: one under the user's cache folder."""
    control: ControlConfig = field(default_factory=ControlConfig)
    cgroups: Cgroups = "auto"
    """Control groups of VMs: auto, where the host has them; required; or off."""
    overcommit: bool = False
    """True: VMs together may use more processing elements and memory than the host has."""
    state: Path | None = None
    """Folder of what the daemon remembers over restarts; None: the default one."""
    defaults: Located | None = None
    """Settings of VMs that do not have them; those of `vms` have been merged."""
    users: UserRange | None = None
    """Users of the VMs' sandboxed processes; None: the default range, if this host has it."""
    text: str = field(default="", compare=False, repr=False)
    """Text that all this was parsed from."""


_KEYS_OF_FIELDS: Final = {
    "region_bytes": "region",
    "deadline_ns": "deadline",
    "memory_bytes": "quota.memory",
    **{key: f"quota.{key}" for key in ("pes", "queue_depth", "contexts", "streams", "weight", "cores")},
}


def different_keys(one: VmConfig, other: VmConfig) -> list[str]:
    """Keys of the configuration in which the settings of two VMs differ."""
    pairs = [
        *((part.name, getattr(one, part.name), getattr(other, part.name)) for part in fields(VmConfig)),
        *((part.name, getattr(one.quota, part.name), getattr(other.quota, part.name)) for part in fields(QuotaConfig)),
    ]
    found = [name for name, a, b in pairs if a != b and name not in ("quota", "quarters")]
    return sorted(_KEYS_OF_FIELDS.get(name, name) for name in found)


def vm_uuid(name: str) -> uuid.UUID:
    """UUID of a VM whose configuration has none; a function of the name only."""
    return uuid.uuid5(_UUID_SPACE, name)


# ---- parsers of single values --------------------------------------------------------------------


def _region(problems: Problems, path: str, at: Located) -> int | None:
    size = scaled(SIZE_UNITS, MIB, TIB, f"{_SIZE}, from 1M to 1T")(problems, path, at)
    if size is not None and size & (size - 1):
        problems.add(at, path, "a power of two, as the guest sees the region as a PCI BAR")
        return None
    return size


def _uuid(problems: Problems, path: str, at: Located) -> uuid.UUID | None:
    try:
        return uuid.UUID(at.value)
    except (ValueError, AttributeError, TypeError):
        problems.add(at, path, "a UUID such as 12345678-1234-1234-1234-123456789abc")
        return None


def _cores(problems: Problems, path: str, at: Located) -> OwnCores:
    if at.value == "own":
        return "own"
    if isinstance(at.value, str) or type(at.value) is int:
        with contextlib.suppress(ValueError):
            return lists.parse(str(at.value))
    problems.add(at, path, f"own, or processors such as 2-5 or 2,4, within 0-{lists.MAX_CORE}")
    return None


def _users(problems: Problems, path: str, at: Located) -> UserRange | None:
    match = re.fullmatch(r"(\d{1,10})-(\d{1,10})", str(at.value))
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if 0 < first <= last <= MAX_ID:
        return UserRange(first, last - first + 1)
    problems.add(at, path, f"a range of uids that are also gids, such as {DEFAULT_RANGE}, within 1-{MAX_ID}")
    return None


# ---- sections ------------------------------------------------------------------------------------

_SIZE: Final = "a size such as 64M or 1G"
_QUOTA_KEYS: Final[dict[str, Parser[Any]]] = {
    "pes": integer(1, 4096),
    "memory": scaled(SIZE_UNITS, MIB, 64 * TIB, f"{_SIZE}, from 1M to 64T"),
    "queue_depth": integer(1, LIMITS["MAX_QUEUES"] * LIMITS["MAX_QUEUE_SIZE"]),
    "contexts": integer(1, LIMITS["MAX_CONTEXTS"]),
    "streams": integer(1, LIMITS["MAX_STREAMS"]),
    "weight": integer(1, MAX_WEIGHT),
    "cores": _cores,
}


def _quota(problems: Problems, path: str, at: Located) -> QuotaConfig:
    table = table_of(problems, path, at, _QUOTA_KEYS)
    if "memory" in table:
        table["memory_bytes"] = table.pop("memory")
    if isinstance(table.get("cores"), frozenset):
        table.setdefault("pes", len(table["cores"]))
    return QuotaConfig(**table)


def _unparsed(_problems: Problems, _path: str, at: Located) -> Located:
    """Leaves a section for `parse`, because it depends on other sections."""
    return at


def _log(problems: Problems, path: str, at: Located) -> LogConfig:
    keys = {"format": choice("console", "json"), "level": choice("debug", "info", "warning", "error")}
    return LogConfig(**table_of(problems, path, at, keys))


_VM_KEYS: Final[dict[str, Parser[Any]]] = {
    "socket": socket_path,
    "uuid": _uuid,
    "region": _region,
    "region_file": path_of,
    "engine": parse_engine,
    "quota": _quota,
    "deadline": scaled(TIME_UNITS, 1_000_000, 24 * 3600 * NS_PER_S, "a time such as 500ms, 10s or 2m, up to 24h"),
    "num_queues": integer(1, LIMITS["MAX_QUEUES"]),
    "sandbox": choice("strict", "best-effort", "permissive"),
    "cache_domain": plain_name,
}

_OWN_PATHS: Final = ("socket", "region_file")
"""Keys of a VM with paths that no two VMs may share."""


def _merged(base: Located | None, over: Located) -> Located:
    """Merges `over` into `base`, mapping by mapping; `over` wins."""
    if base is None or not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    out = dict(base.value)
    for key, item in over.value.items():
        out[key] = _merged(out.get(key), item)
    return Located(out, over.line)


def _vm(problems: Problems, name: str, at: Located) -> VmConfig:
    path = f"vms.{name}"
    if NAME.fullmatch(name) is None:
        problems.note(at.line, f"{path}: the name is {name[:80]!r}; allowed: {NAME_ALLOWED}")
    table = table_of(problems, path, at, _VM_KEYS)
    if "region" in table:
        table["region_bytes"] = table.pop("region")
    if "deadline" in table:
        table["deadline_ns"] = table.pop("deadline")
    table.setdefault("uuid", vm_uuid(name))
    vm = VmConfig(name=name, **table)
    if wrong := wrong_cores(vm):
        problems.note(at.line, wrong)
    return vm


def wrong_cores(vm: VmConfig) -> str:
    """Problem of a VM whose processors do not fit its other settings; "" if it has none."""
    quota, path = vm.quota, f"vms.{vm.name}.quota.cores"
    if quota.cores is None:
        return ""
    if vm.engine.kind not in ("cpu", "auto"):
        return (
            f"{path} is set; allowed with the engine {vm.engine.kind}: none, as its elements are not the host's cores"
        )
    if quota.cores == "own":
        return "" if quota.pes else f"{path} is own; allowed with a number of them, quota.pes"
    if quota.pes != len(quota.cores):
        return f"{path} is {lists.shown(quota.cores)}; allowed with quota.pes of {quota.pes}: as many, or own"
    return ""


def _vms(
    problems: Problems, at: Located | None, defaults: Located | None, control: ControlConfig
) -> tuple[VmConfig, ...]:
    if at is None or not isinstance(at.value, dict) or len(at.value) > MAX_VMS:
        allowed = f"a mapping of up to {MAX_VMS} VM names to their settings; {{}} for none"
        problems.add(at or Located(None, 1), "vms", allowed)
        return ()
    empty: dict[str, Located] = {}
    rows = {name: Located(empty, row.line) if row.value is None else row for name, row in at.value.items()}
    vms = tuple(_vm(problems, name, _merged(defaults, row)) for name, row in rows.items())
    _check_own(problems, vms, rows, control)
    _check_policies(problems, at.line, vms, control)
    return vms


def _check_policies(problems: Problems, line: int, vms: Sequence[VmConfig], control: ControlConfig) -> None:
    """Checks that no policy is to migrate a VM that cannot be migrated. What an engine `auto` becomes is not known yet."""
    for policy in control.policies:
        for vm in vms:
            if why := why_vm_is_refused(policy, vm.name, vm.engine.kind):
                problems.note(line, why)


def _check_own(
    problems: Problems, vms: tuple[VmConfig, ...], rows: Mapping[str, Located], control: ControlConfig
) -> None:
    """Checks that no two VMs have a path or a UUID in common, and none the control API's socket. `rows`: their sections, by name."""
    lines = {name: row.line for name, row in rows.items()}
    for key in _OWN_PATHS:
        users = {} if key != "socket" or control.socket is None else {_real(control.socket): "control.socket"}
        for vm in vms:
            path: Path | None = getattr(vm, key)
            user = f"vms.{vm.name}"
            if path is not None and (other := users.setdefault(_real(path), user)) != user:
                text = f"{user}.{key} is {str(path)!r}; allowed: a path that {other} does not use"
                problems.note(lines.get(vm.name, 0), text)
    owners: dict[uuid.UUID, str] = {}
    for vm in vms:
        if (other := owners.setdefault(vm.uuid, vm.name)) != vm.name:
            text = f"vms.{vm.name}.uuid is {vm.uuid}; allowed: a UUID that vms.{other} does not have"
            problems.note(lines.get(vm.name, 0), text)


def _real(path: Path) -> str:
    """The path without links and detours."""
    return os.path.realpath(path)


def parse(text: str, file: str = "config", *, numbered: bool = True) -> DaemonConfig:
    """Parses the configuration in `text`; `file` is its name in messages, which give line numbers if `numbered`.

    :raise ConfigError: the configuration is wrong; the error lists every problem.
    """
    problems = Problems(file, numbered=numbered)
    root = read_yaml(text, problems)
    if problems.found:
        raise ConfigError(problems.found)
    keys: dict[str, Parser[Any]] = {"vms": _unparsed, "defaults": _unparsed, "log": _log, "cache": path_of}
    keys |= {"control": parse_control, "users": _users, "cgroups": choice("auto", "required", "off")}
    keys |= {"overcommit": flag, "state": path_of}
    table = table_of(problems, "", root, keys)
    defaults = _defaults(problems, table.pop("defaults", None))
    vms = _vms(problems, table.pop("vms", None), defaults, table.get("control") or ControlConfig())
    if problems.found:
        raise ConfigError(list(dict.fromkeys(problems.found)))
    return DaemonConfig(vms=vms, defaults=defaults, text=text, **table)


def with_vms(config: DaemonConfig, more: Mapping[str, Mapping[str, Any]], source: str) -> DaemonConfig:
    """Adds VMs to a configuration, by name, with settings as in its section ``vms``; `source` names them in messages.

    :raise ConfigError: the settings are wrong, two VMs have the same socket or region file, or a policy is to migrate one that cannot be.
    """
    problems = Problems(source, numbered=False)
    rows = {name: _located(settings) for name, settings in more.items()}
    added = [_vm(problems, name, _merged(config.defaults, row)) for name, row in rows.items()]
    vms = (*config.vms, *added)
    if len(vms) > MAX_VMS:
        problems.note(0, f"there would be {len(vms)} VMs; allowed: {MAX_VMS}")
    _check_own(problems, vms, rows, config.control)
    _check_policies(problems, 0, added, config.control)
    if problems.found:
        raise ConfigError(list(dict.fromkeys(problems.found)))
    return replace(config, vms=vms)


def _located(value: object) -> Located:
    """Value in the form that YAML is read in, without a line."""
    return Located({key: _located(item) for key, item in value.items()} if isinstance(value, dict) else value, 0)


def _defaults(problems: Problems, at: Located | None) -> Located | None:
    """Checks the settings that every VM inherits; those of one VM alone cannot be inherited."""
    if at is not None:
        keys = {key: parser for key, parser in _VM_KEYS.items() if key not in (*_OWN_PATHS, "uuid")}
        before = len(problems.found)
        table_of(problems, "defaults", at, keys)
        if len(problems.found) > before:
            return None
    return at


def load(path: Path) -> DaemonConfig:
    """Reads the configuration file `path`.

    :raise ConfigError: the file cannot be read, or is wrong.
    """
    problems = Problems(str(path), numbered=True)
    text = read_text(path, problems)
    if problems.found:
        raise ConfigError(problems.found)
    return parse(text, str(path))
