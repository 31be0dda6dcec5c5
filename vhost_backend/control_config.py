"""The ``control`` section of the daemon's configuration. Without it the control system is off."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from virtio_proto.control import selector
from virtio_proto.control.api import ROLES, Role
from virtio_proto.control.selector import SelectorError
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
    path_of,
    scaled,
    socket_path,
    table_of,
)

MAX_CHANNELS: Final = 16383
MAX_POLICIES: Final = 256
FAULT_KINDS: Final = ("kernel", "assert", "trap", "deadline", "deadlock", "hung", "device", "user")
TRIGGERS: Final = ("edge", "sustained", "aggregate")
ACTIONS: Final = ("alert", "quiesce", "reset", "migrate")
_LISTEN: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_POLICY_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_MEMORY: Final = "a power of two such as 64M, from 1M to 1T"


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """What the control API shows to peers over TCP, and how it knows them."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    clients: Mapping[str, Role] = field(default_factory=dict)
    """By the common name of a client's certificate."""


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """What is done about faults; see `virtio_proto.control.api.PolicyInfo`."""

    name: str
    selector: str = ""
    kinds: tuple[str, ...] = FAULT_KINDS
    trigger: str = "edge"
    count: int = 1
    window_s: float = 60.0
    action: str = "alert"
    target: str = ""


@dataclass(frozen=True, slots=True)
class ControlConfig:
    """The control system of a daemon; off without `socket` and `listen`."""

    socket: Path | None = None
    listen: tuple[str, int] | None = None
    tls: TlsConfig | None = None
    tokens: Path | None = None
    host: str | None = None
    """None: the host's own name."""
    memory_bytes: int = 64 * MIB
    """Of each VM's control area; taken only as far as channels use it."""
    channels: int = 4096
    budget_percent: float = 1.0
    """So much of an element's time may its channels cost, before they keep fewer records."""
    hung_after_ns: int = 5 * NS_PER_S
    """An element whose block has not changed for so long counts as hung."""
    firmware_keys: tuple[Path, ...] = ()
    policies: tuple[PolicyConfig, ...] = ()

    @property
    def is_on(self) -> bool:
        return self.socket is not None or self.listen is not None


def _listen(problems: Problems, path: str, at: Located) -> tuple[str, int] | None:
    match = _LISTEN.fullmatch(at.value) if isinstance(at.value, str) else None
    if match is None or int(match[2]) > 65535:
        problems.add(at, path, "an address and a port such as 0.0.0.0:7071 or [::1]:7071")
        return None
    return match[1].strip("[]"), int(match[2])


def _matching(pattern: re.Pattern[str], allowed: str) -> Parser[str]:
    def parse(problems: Problems, path: str, at: Located) -> str | None:
        if isinstance(at.value, str) and pattern.fullmatch(at.value):
            return at.value
        problems.add(at, path, allowed)
        return None

    return parse


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


def _clients(problems: Problems, path: str, at: Located) -> Mapping[str, Role] | None:
    if not isinstance(at.value, dict):
        problems.add(at, path, "a mapping of common names to roles")
        return None
    role = choice(*ROLES)
    found = {name: role(problems, f"{path}.{name}", item) for name, item in at.value.items()}
    return {name: cast("Role", value) for name, value in found.items() if value is not None}


def _tls(problems: Problems, path: str, at: Located) -> TlsConfig | None:
    keys: dict[str, Parser[Any]] = {"certificate": path_of, "key": path_of, "client_ca": path_of, "clients": _clients}
    table = table_of(problems, path, at, keys)
    missing = [key for key in ("certificate", "key") if key not in table]
    if not isinstance(at.value, dict) or any(key in at.value for key in missing):
        return None  # what is wrong has been said
    if missing:
        problems.note(at.line, f"{path} lacks {' and '.join(missing)}; allowed: both of certificate and key")
        return None
    if "clients" in table and "client_ca" not in table:
        problems.note(at.line, f"{path}.clients is there without client_ca; allowed: both, or neither")
    return TlsConfig(**table)


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
    "name": _matching(_POLICY_NAME, "1 to 63 of A-Z a-z 0-9 _ . -"),
    "selector": _selector,
    "kinds": _kinds,
    "trigger": choice(*TRIGGERS),
    "count": integer(1, 1_000_000),
    "window": scaled(TIME_UNITS, 1_000_000, 7 * 24 * 3600 * NS_PER_S, "a time such as 500ms, 10s or 2m, up to 168h"),
    "action": choice(*ACTIONS),
    "target": _matching(re.compile(r"[A-Za-z0-9|,.:-]{1,256}"), "a GPU's number or UUID, or elements such as pes:0-3"),
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
            found[table["name"]] = PolicyConfig(**table)
    return tuple(found.values())


_KEYS: Final[dict[str, Parser[Any]]] = {
    "socket": socket_path,
    "listen": _listen,
    "tls": _tls,
    "tokens": path_of,
    "host": _matching(_HOST, "1 to 63 of A-Z a-z 0-9 _ . -"),
    "memory": _memory,
    "channels": integer(1, MAX_CHANNELS),
    "budget_percent": _percent,
    "hung_after": scaled(TIME_UNITS, 100_000_000, 24 * 3600 * NS_PER_S, "a time such as 500ms, 5s or 2m, up to 24h"),
    "firmware_keys": _paths,
    "policies": _policies,
}


def parse_control(problems: Problems, path: str, at: Located) -> ControlConfig:
    """The section, as the other parsers of `virtio_proto.yaml_values` do."""
    table = table_of(problems, path, at, _KEYS)
    for key, name in (("memory", "memory_bytes"), ("hung_after", "hung_after_ns")):
        if key in table:
            table[name] = table.pop(key)
    if "listen" in table and "tls" not in at.value:
        problems.note(at.line, f"{path}.listen is there without {path}.tls; allowed: both, as tokens must not be seen")
    if "listen" in table and "tokens" not in at.value and "tls" in table and not table["tls"].clients:
        problems.note(at.line, f"{path}.listen is there without tokens and tls.clients; allowed: at least one of them")
    return ControlConfig(**table)
