"""The daemon's configuration: YAML in, frozen dataclasses out.

Every problem is reported, not only the first, and each names file and line, key path, value and what is allowed.
``docs/vgcd.example.yaml`` shows every key.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

import yaml

from vhost_backend.errors import ConfigError
from vhost_backend.log import LogFormat, LogLevel
from virtio_proto.schema import LIMITS

Scalar: TypeAlias = str | int | float | bool | None
EngineName: TypeAlias = Literal["auto", "cpu", "null"]
SandboxMode: TypeAlias = Literal["strict", "best-effort", "off"]
"""A file cannot say "off": that is for tests, whose guests are their own."""

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
NS_PER_S: Final = 1_000_000_000
MAX_VMS: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_UUID_SPACE: Final = uuid.UUID("6f0c5f3e-6d0b-5c55-9d2b-0f1f3a8f7c11")
_SIZE_UNITS: Final = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}
_TIME_UNITS: Final = {"ms": 1_000_000, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S}


@dataclass(frozen=True, slots=True)
class LogConfig:
    format: LogFormat = "console"
    level: LogLevel = "info"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which engine computes for a VM; `options` are the engine's own."""

    kind: EngineName = "auto"
    options: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    """What a VM may use."""

    pes: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory_bytes: int = 256 * MIB
    queue_depth: int = 256
    contexts: int = LIMITS["MAX_CONTEXTS"]
    streams: int = LIMITS["MAX_STREAMS"]


@dataclass(frozen=True, slots=True)
class VmConfig:
    """One VM: where its frontend connects and what it gets."""

    name: str
    uuid: uuid.UUID
    socket: Path | None = None
    """None: the socket is handed over by whoever starts the daemon."""
    region_bytes: int = 64 * MIB
    engine: EngineConfig = field(default_factory=EngineConfig)
    quota: QuotaConfig = field(default_factory=QuotaConfig)
    deadline_ns: int = 10 * NS_PER_S
    num_queues: int = 16
    sandbox: SandboxMode = "strict"


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    vms: tuple[VmConfig, ...]
    log: LogConfig = field(default_factory=LogConfig)
    cache: Path | None = None
    """Folder of compiled programs; None: one under the user's cache folder."""


def vm_uuid(name: str) -> uuid.UUID:
    """The UUID of a VM whose configuration gives none: the same for the same name."""
    return uuid.uuid5(_UUID_SPACE, name)


# ---- YAML with line numbers ----------------------------------------------------------------------


_CONTAINER_TAGS: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Located(NamedTuple):
    """A YAML value that remembers its line; containers hold `Located` again."""

    value: Any
    line: int


class _Problems:
    """Collects what is wrong with one file."""

    def __init__(self, file: str, *, numbered: bool) -> None:
        self._file = file
        self._numbered = numbered
        self.found: list[str] = []

    def add(self, at: Located, path: str, allowed: str) -> None:
        self.note(at.line, f"{path} is {_shown(at.value)}; allowed: {allowed}")

    def note(self, line: int, text: str) -> None:
        where = f"{self._file}:{line}" if self._numbered else self._file
        self.found.append(f"{where}: {text}")


def _shown(value: object) -> str:
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "empty"
        case _:
            return repr(value)[:80]


def _locate(loader: yaml.SafeLoader, node: yaml.Node, problems: _Problems, path: str = "") -> Located:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _CONTAINER_TAGS:
        problems.note(line, f"{path or 'the file'} has the tag {node.tag!r}; allowed: plain YAML without tags")
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Located] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node)) if isinstance(key_node, yaml.ScalarNode) else "?"
            key_path = f"{path}.{key}" if path else key
            if key in out:
                problems.note(key_node.start_mark.line + 1, f"{key_path} appears twice; allowed: once")
            out[key] = _locate(loader, value_node, problems, key_path)
        return Located(out, line)
    if isinstance(node, yaml.SequenceNode):
        return Located([_locate(loader, item, problems, path) for item in node.value], line)
    return Located(loader.construct_object(node), line)


def _read_yaml(text: str, problems: _Problems) -> Located:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        return Located({}, 1) if node is None else _locate(loader, node, problems)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or str(error)
        problems.note(mark.line + 1 if mark else 1, f"the file is not YAML: {text}; allowed: one YAML document")
        return Located({}, 1)
    finally:
        loader.dispose()


# ---- value parsers: (problems, path, value) -> value, or None after reporting a problem ----------

_T = TypeVar("_T")
_Parser: TypeAlias = Callable[[_Problems, str, Located], _T | None]


def _integer(low: int, high: int) -> _Parser[int]:
    def parse(problems: _Problems, path: str, at: Located) -> int | None:
        if isinstance(at.value, int) and not isinstance(at.value, bool) and low <= at.value <= high:
            return at.value
        problems.add(at, path, f"an integer of {low} to {high}")
        return None

    return parse


def _choice(*allowed: str) -> _Parser[str]:
    def parse(problems: _Problems, path: str, at: Located) -> str | None:
        if isinstance(at.value, str) and at.value in allowed:
            return at.value
        problems.add(at, path, " or ".join(allowed))
        return None

    return parse


def _scaled(units: Mapping[str, int], low: int, high: int, allowed: str) -> _Parser[int]:
    """A number with a unit; a bare number counts in the unit ""."""
    pattern = re.compile(rf"(\d{{1,19}})\s*({'|'.join(units)})(?:i?b)?", re.IGNORECASE)

    def parse(problems: _Problems, path: str, at: Located) -> int | None:
        match = None if isinstance(at.value, bool) else pattern.fullmatch(str(at.value).strip())
        value = int(match[1]) * units[match[2].lower()] if match else -1
        if low <= value <= high:
            return value
        problems.add(at, path, allowed)
        return None

    return parse


def _region(problems: _Problems, path: str, at: Located) -> int | None:
    size = _scaled(_SIZE_UNITS, MIB, TIB, f"{_SIZE}, from 1M to 1T")(problems, path, at)
    if size is not None and size & (size - 1):
        problems.add(at, path, "a power of two, as the guest sees the region as a PCI BAR")
        return None
    return size


def _path(problems: _Problems, path: str, at: Located) -> Path | None:
    if isinstance(at.value, str) and at.value.startswith("/") and "\0" not in at.value:
        return Path(at.value)
    problems.add(at, path, "an absolute path")
    return None


def _socket_path(problems: _Problems, path: str, at: Located) -> Path | None:
    found = _path(problems, path, at)
    if found is not None and len(os.fsencode(found)) > 107:  # sun_path
        problems.add(at, path, "an absolute path of at most 107 bytes")
        return None
    return found


def _uuid(problems: _Problems, path: str, at: Located) -> uuid.UUID | None:
    try:
        return uuid.UUID(at.value)
    except (ValueError, AttributeError, TypeError):
        problems.add(at, path, "a UUID such as 12345678-1234-1234-1234-123456789abc")
        return None


def _options(problems: _Problems, path: str, at: Located) -> dict[str, Scalar] | None:
    if not isinstance(at.value, dict):
        problems.add(at, path, "a mapping")
        return None
    for key, item in at.value.items():
        if not isinstance(item.value, str | int | float | bool | None):
            problems.add(item, f"{path}.{key}", "a string, number, true or false")
    return {key: item.value for key, item in at.value.items()}


def _table(problems: _Problems, path: str, at: Located, keys: Mapping[str, _Parser[Any]]) -> dict[str, Any]:
    """The keys of a mapping that are there and right."""
    if not isinstance(at.value, dict):
        problems.add(at, path or "the file", f"a mapping with {', '.join(keys)}")
        return {}
    out = {}
    for key, item in at.value.items():
        key_path = f"{path}.{key}" if path else key
        if key not in keys:
            problems.note(item.line, f"{key_path} is not a key; allowed: {', '.join(keys)}")
            continue
        value = keys[key](problems, key_path, item)
        if value is not None:
            out[key] = value
    return out


# ---- sections ------------------------------------------------------------------------------------

_SIZE: Final = "a size such as 64M or 1G"
_QUOTA_KEYS: Final[dict[str, _Parser[Any]]] = {
    "pes": _integer(1, 4096),
    "memory": _scaled(_SIZE_UNITS, MIB, 64 * TIB, f"{_SIZE}, from 1M to 64T"),
    "queue_depth": _integer(1, LIMITS["MAX_QUEUES"] * LIMITS["MAX_QUEUE_SIZE"]),
    "contexts": _integer(1, LIMITS["MAX_CONTEXTS"]),
    "streams": _integer(1, LIMITS["MAX_STREAMS"]),
}
_ENGINES: Final = ("auto", "cpu", "null")
ENGINE_OPTIONS: Final[Mapping[EngineName, tuple[str, ...]]] = {"auto": (), "cpu": (), "null": ()}
"""Which options each engine takes."""


def _quota(problems: _Problems, path: str, at: Located) -> QuotaConfig:
    table = _table(problems, path, at, _QUOTA_KEYS)
    if "memory" in table:
        table["memory_bytes"] = table.pop("memory")
    return QuotaConfig(**table)


def _engine(problems: _Problems, path: str, at: Located) -> EngineConfig:
    """Either a name, or a mapping with kind and options."""
    if not isinstance(at.value, dict):
        kind = _choice(*_ENGINES)(problems, path, at)
        return EngineConfig(cast("EngineName", kind or "auto"))
    table = _table(problems, path, at, {"kind": _choice(*_ENGINES), "options": _options})
    engine = EngineConfig(**table)
    allowed = ", ".join(ENGINE_OPTIONS[engine.kind]) or f"nothing, the engine {engine.kind} has no options"
    for option in engine.options.keys() - set(ENGINE_OPTIONS[engine.kind]):
        problems.note(at.value["options"].line, f"{path}.options.{option} is not a key; allowed: {allowed}")
    return engine


def _unparsed(_problems: _Problems, _path: str, at: Located) -> Located:
    """Sections that depend on each other: `parse` sees to them."""
    return at


def _log(problems: _Problems, path: str, at: Located) -> LogConfig:
    keys = {"format": _choice("console", "json"), "level": _choice("debug", "info", "warning", "error")}
    return LogConfig(**_table(problems, path, at, keys))


_VM_KEYS: Final[dict[str, _Parser[Any]]] = {
    "socket": _socket_path,
    "uuid": _uuid,
    "region": _region,
    "engine": _engine,
    "quota": _quota,
    "deadline": _scaled(_TIME_UNITS, 1_000_000, 24 * 3600 * NS_PER_S, "a time such as 500ms, 10s or 2m, up to 24h"),
    "num_queues": _integer(1, LIMITS["MAX_QUEUES"]),
    "sandbox": _choice("strict", "best-effort"),
}


def _merged(base: Located | None, over: Located) -> Located:
    """`over` on top of `base`, mapping by mapping."""
    if base is None or not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    out = dict(base.value)
    for key, item in over.value.items():
        out[key] = _merged(out.get(key), item)
    return Located(out, over.line)


def _vm(problems: _Problems, name: str, at: Located) -> VmConfig:
    path = f"vms.{name}"
    if not _NAME.fullmatch(name):
        problems.note(at.line, f"{path}: the name is {name[:80]!r}; allowed: 1 to 63 of A-Z a-z 0-9 _ . -")
    table = _table(problems, path, at, _VM_KEYS)
    if "region" in table:
        table["region_bytes"] = table.pop("region")
    if "deadline" in table:
        table["deadline_ns"] = table.pop("deadline")
    table.setdefault("uuid", vm_uuid(name))
    return VmConfig(name=name, **table)


def _vms(problems: _Problems, at: Located | None, defaults: Located | None) -> tuple[VmConfig, ...]:
    if at is None or not isinstance(at.value, dict) or not 1 <= len(at.value) <= MAX_VMS:
        problems.add(at or Located(None, 1), "vms", f"a mapping of 1 to {MAX_VMS} VM names to their settings")
        return ()
    empty: dict[str, Located] = {}
    rows = {name: Located(empty, row.line) if row.value is None else row for name, row in at.value.items()}
    vms = tuple(_vm(problems, name, _merged(defaults, row)) for name, row in rows.items())
    _check_sockets(problems, vms, rows)
    return vms


def _check_sockets(problems: _Problems, vms: tuple[VmConfig, ...], rows: Mapping[str, Located]) -> None:
    users: dict[Path, str] = {}
    for vm in vms:
        if vm.socket is not None and users.setdefault(vm.socket, vm.name) != vm.name:
            text = (
                f"vms.{vm.name}.socket is {str(vm.socket)!r}; allowed: a path that vms.{users[vm.socket]} does not use"
            )
            problems.note(rows[vm.name].line, text)


def parse(text: str, file: str = "config", *, numbered: bool = True) -> DaemonConfig:
    """The configuration in `text`; `file` is its name in messages, which give line numbers if `numbered`.

    :raise ConfigError: with every problem found.
    """
    problems = _Problems(file, numbered=numbered)
    root = _read_yaml(text, problems)
    if problems.found:
        raise ConfigError(problems.found)
    keys: dict[str, _Parser[Any]] = {"vms": _unparsed, "defaults": _unparsed, "log": _log, "cache": _path}
    table = _table(problems, "", root, keys)
    vms = _vms(problems, table.pop("vms", None), _defaults(problems, table.pop("defaults", None)))
    if problems.found:
        raise ConfigError(list(dict.fromkeys(problems.found)))
    return DaemonConfig(vms=vms, **table)


def _defaults(problems: _Problems, at: Located | None) -> Located | None:
    """What every VM has unless it says otherwise; names and sockets cannot be shared."""
    if at is not None:
        keys = {key: parser for key, parser in _VM_KEYS.items() if key not in ("socket", "uuid")}
        before = len(problems.found)
        _table(problems, "defaults", at, keys)
        if len(problems.found) > before:
            return None
    return at


def load(path: Path) -> DaemonConfig:
    """The configuration in the file `path`.

    :raise ConfigError: the file cannot be read, or is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError([f"{path}: cannot be read: {reason}; allowed: a readable YAML file"]) from None
    return parse(text, str(path))
