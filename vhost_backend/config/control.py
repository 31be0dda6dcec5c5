"""Section ``control`` of the daemon's configuration. Without it the control system is off."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vhost_backend.config.engine import EngineName, why_stays
from virtio_proto.control import selector
from virtio_proto.control.api import (
    FAULT_KINDS,
    MAX_POLICIES,
    POLICY_ACTIONS,
    TRIGGERS,
    FaultKind,
    PolicyAction,
    Trigger,
)
from virtio_proto.control.selector import SelectorError
from virtio_proto.control.server_settings import TlsConfig, listen_address, parse_tls
from virtio_proto.yaml_values import (
    MIB,
    NS_PER_S,
    SIZE_UNITS,
    TIB,
    TIME_UNITS,
    Located,
    Parser,
    Problems,
    choice,
    integer,
    matching,
    path_of,
    plain_name,
    scaled,
    socket_path,
    table_of,
)

MAX_CHANNELS: Final = 16383
_MEMORY: Final = "a power of two such as 64M, from 1M to 1T"


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Policy for faults; see `virtio_proto.control.api.PolicyInfo`."""

    name: str
    selector: str = ""
    kinds: tuple[FaultKind, ...] = FAULT_KINDS
    trigger: Trigger = "edge"
    count: int = 1
    window_s: float = 60.0
    action: PolicyAction = "alert"
    target: str = ""


MIGRATING_KINDS: Final[tuple[FaultKind, ...]] = ("assert", "trap", "deadlock", "user")
"""Kinds of faults after which a VM can be migrated. Of the others, some end the worker or keep it from the end of its requests,
and ``device`` is of VMs on a GPU, which cannot be migrated."""


def why_policy_fails(policy: PolicyConfig) -> str:
    """Reason why a policy can never do what it is for, whatever VMs there are; "" if it can."""
    if policy.target.startswith("pes:"):
        try:
            selector.numbers(policy.target.removeprefix("pes:"))
        except SelectorError as error:
            return f"target is {policy.target!r}; allowed: pes: and {error}"
    if policy.action != "migrate":
        return f"target is {policy.target!r}; allowed: with the action migrate" if policy.target else ""
    if not set(policy.kinds) & set(MIGRATING_KINDS):
        return (
            f"action is migrate, which never works for the kinds {', '.join(policy.kinds)}; allowed: with one of "
            f"{', '.join(MIGRATING_KINDS)}, or the action reset"
        )
    if policy.target and not policy.target.startswith(("pes:", *_MOVABLE_GPUS, *_MOVABLE_UUIDS)):
        return f"target is {policy.target!r}, a GPU: {why_stays('cuda')}, with a target such as pes:0-3, or none"
    chosen = selector.parse(policy.selector)
    if not chosen.matches_gpu(*_MOVABLE_GPUS) and not chosen.gpu.startswith(_MOVABLE_UUIDS):
        return f"selector is {policy.selector!r}, and action is migrate: {why_stays('cuda')}"
    return ""


def why_vm_is_refused(policy: PolicyConfig, vm: str, engine: EngineName) -> str:
    """Reason why a VM on an engine cannot be served under a policy, which is to migrate it; "" if it can be."""
    stays = why_stays(engine)
    if policy.action != "migrate" or not stays:
        return ""
    chosen = selector.parse(policy.selector)
    is_elsewhere = chosen.gpu in _MOVABLE_GPUS or chosen.gpu.startswith(_MOVABLE_UUIDS)
    if is_elsewhere or not chosen.matches_vm(vm):
        return ""
    return f"control.policies: {policy.name} is to migrate vms.{vm}: {stays}; or another action or selector"


_MOVABLE_GPUS: Final = ("cpu", "null")
"""Names of GPUs, in selectors, from and to which VMs can be migrated."""
_MOVABLE_UUIDS: Final = ("CPU-",)
"""Begins of the UUIDs of such GPUs."""


@dataclass(frozen=True, slots=True)
class ControlConfig:
    """Control system of a daemon; off without `socket` and `listen`."""

    socket: Path | None = None
    listen: tuple[str, int] | None = None
    tls: TlsConfig | None = None
    tokens: Path | None = None
    host: str | None = None
    """Name of this host in the control API; None: its host name."""
    memory_bytes: int = 64 * MIB
    """Size of each VM's control area; only pages that channels use take memory."""
    channels: int = 4096
    budget_percent: float = 1.0
    """Share of an element's time that its channels may cost; above it, they are sampled more coarsely."""
    hung_after_ns: int = 5 * NS_PER_S
    """Time after which an element whose block has not changed counts as hung."""
    firmware_keys: tuple[Path, ...] = ()
    policies: tuple[PolicyConfig, ...] = ()

    @property
    def is_on(self) -> bool:
        return self.socket is not None or self.listen is not None


def _percent(problems: Problems, path: str, at: Located) -> float | None:
    if isinstance(at.value, int | float) and not isinstance(at.value, bool) and 0.01 <= at.value <= 100:
        return float(at.value)
    problems.add(at, path, "a number of 0.01 to 100")
    return None


def _memory(problems: Problems, path: str, at: Located) -> int | None:
    size = scaled(SIZE_UNITS, MIB, TIB, _MEMORY)(problems, path, at)
    if size is not None and size & (size - 1):
        problems.add(at, path, _MEMORY)
        return None
    return size


def _paths(problems: Problems, path: str, at: Located) -> tuple[Path, ...] | None:
    if not isinstance(at.value, list):
        problems.add(at, path, "a list of absolute paths")
        return None
    found = [path_of(problems, f"{path}.{index}", item) for index, item in enumerate(at.value)]
    return tuple(item for item in found if item is not None)


# ---- policies ------------------------------------------------------------------------------------


def _selector(problems: Problems, path: str, at: Located) -> str | None:
    if not isinstance(at.value, str):
        problems.add(at, path, "a selector such as vm=web1,pe=0-3")
        return None
    try:
        return str(selector.parse(at.value))
    except SelectorError as error:
        problems.note(at.line, f"{path}: {error}")
        return None


def _kinds(problems: Problems, path: str, at: Located) -> tuple[str, ...] | None:
    if not isinstance(at.value, list) or not at.value:
        problems.add(at, path, f"a list of {', '.join(FAULT_KINDS)}")
        return None
    kind = choice(*FAULT_KINDS)
    found = [kind(problems, f"{path}.{index}", item) for index, item in enumerate(at.value)]
    return None if None in found else tuple(dict.fromkeys(str(value) for value in found))


_POLICY_KEYS: Final[dict[str, Parser[Any]]] = {
    "name": plain_name,
    "selector": _selector,
    "kinds": _kinds,
    "trigger": choice(*TRIGGERS),
    "count": integer(1, 1_000_000),
    "window": scaled(TIME_UNITS, 1_000_000, 7 * 24 * 3600 * NS_PER_S, "a time such as 500ms, 10s or 2m, up to 168h"),
    "action": choice(*POLICY_ACTIONS),
    "target": matching(re.compile(r"[A-Za-z0-9|,.:-]{1,256}"), "a GPU's number or UUID, or elements such as pes:0-3"),
}


def _policies(problems: Problems, path: str, at: Located) -> tuple[PolicyConfig, ...] | None:
    if not isinstance(at.value, list) or len(at.value) > MAX_POLICIES:
        problems.add(at, path, f"a list of at most {MAX_POLICIES} policies")
        return None
    found: dict[str, PolicyConfig] = {}
    for index, item in enumerate(at.value):
        table = table_of(problems, f"{path}.{index}", item, _POLICY_KEYS)
        if "window" in table:
            table["window_s"] = table.pop("window") / NS_PER_S
        if "name" not in table:
            problems.note(item.line, f"{path}.{index} lacks name; allowed: a name that no other policy has")
        elif table["name"] in found:
            problems.note(item.line, f"{path}.{index}.name is {table['name']!r} again; allowed: each name once")
        else:
            found[table["name"]] = policy = PolicyConfig(**table)
            if wrong := why_policy_fails(policy):
                problems.note(item.line, f"{path}.{index}: {wrong}")
    return tuple(found.values())


_KEYS: Final[dict[str, Parser[Any]]] = {
    "socket": socket_path,
    "listen": listen_address("0.0.0.0:7071"),
    "tls": parse_tls,
    "tokens": path_of,
    "host": plain_name,
    "memory": _memory,
    "channels": integer(1, MAX_CHANNELS),
    "budget_percent": _percent,
    "hung_after": scaled(TIME_UNITS, 100_000_000, 24 * 3600 * NS_PER_S, "a time such as 500ms, 5s or 2m, up to 24h"),
    "firmware_keys": _paths,
    "policies": _policies,
}


def parse_control(problems: Problems, path: str, at: Located) -> ControlConfig:
    """Parser of the section, as those in `virtio_proto.yaml_values`."""
    table = table_of(problems, path, at, _KEYS)
    for key, name in (("memory", "memory_bytes"), ("hung_after", "hung_after_ns")):
        if key in table:
            table[name] = table.pop(key)
    if "listen" in table and "tls" not in at.value:
        problems.note(at.line, f"{path}.listen is there without {path}.tls; allowed: both, to keep tokens secret")
    if "listen" in table and "tokens" not in at.value and "tls" in table and not table["tls"].clients:
        problems.note(at.line, f"{path}.listen is there without tokens and tls.clients; allowed: at least one of them")
    return ControlConfig(**table)
