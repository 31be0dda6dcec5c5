"""Parsers of values in YAML files.

They collect every problem, not only the first; each names file and line, key path, value and what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import yaml

Scalar: TypeAlias = str | int | float | bool | None

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
NAME_ALLOWED: Final = "1 to 63 of A-Z a-z 0-9 _ . -"
"""Names of VMs, hosts and policies."""

NS_PER_S: Final = 1_000_000_000
SIZE_UNITS: Final = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}
TIME_UNITS: Final = {"ms": 1_000_000, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S}


# ---- YAML with line numbers ----------------------------------------------------------------------


_CONTAINER_TAGS: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Located(NamedTuple):
    """YAML value with its line; containers hold `Located` values in turn."""

    value: Any
    line: int


class Problems:
    """List of the problems of one file."""

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


def _locate(loader: yaml.SafeLoader, node: yaml.Node, problems: Problems, path: str = "") -> Located:
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


def read_text(path: Path, problems: Problems) -> str:
    """Reads a settings file; "" after reporting that it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        problems.found.append(f"{path}: cannot be read: {reason}; allowed: a readable YAML file")
        return ""


def read_yaml(text: str, problems: Problems) -> Located:
    """Parses one YAML document; an empty mapping after reporting that it is not YAML."""
    loader = None
    try:
        loader = yaml.SafeLoader(text)  # it raises where YAML does not know a character
        node = loader.get_single_node()
        return Located({}, 1) if node is None else _locate(loader, node, problems)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or " ".join(str(error).split())
        problems.note(mark.line + 1 if mark else 1, f"the file is not YAML: {text}; allowed: one YAML document")
        return Located({}, 1)
    finally:
        if loader is not None:
            loader.dispose()


# ---- value parsers: (problems, path, value) -> value, or None after reporting a problem ----------

_T = TypeVar("_T")
Parser: TypeAlias = Callable[[Problems, str, Located], _T | None]


def integer(low: int, high: int) -> Parser[int]:
    def parse(problems: Problems, path: str, at: Located) -> int | None:
        if isinstance(at.value, int) and not isinstance(at.value, bool) and low <= at.value <= high:
            return at.value
        problems.add(at, path, f"an integer of {low} to {high}")
        return None

    return parse


def choice(*allowed: str) -> Parser[str]:
    """Parser of one of these words. Reads booleans as on and off, which YAML turns into booleans if unquoted."""

    def parse(problems: Problems, path: str, at: Located) -> str | None:
        value = {True: "on", False: "off"}[at.value] if isinstance(at.value, bool) else at.value
        if isinstance(value, str) and value in allowed:
            return value
        problems.add(at, path, " or ".join(allowed))
        return None

    return parse


def flag(problems: Problems, path: str, at: Located) -> bool | None:
    """Parser of a truth value."""
    if isinstance(at.value, bool):
        return at.value
    problems.add(at, path, "true or false")
    return None


def scaled(units: Mapping[str, int], low: int, high: int, allowed: str) -> Parser[int]:
    """Parser of a number with a unit; a bare number counts in the unit ""."""
    pattern = re.compile(rf"(\d{{1,19}})\s*({'|'.join(units)})(?:i?b)?", re.IGNORECASE)

    def parse(problems: Problems, path: str, at: Located) -> int | None:
        match = None if isinstance(at.value, bool) else pattern.fullmatch(str(at.value).strip())
        value = int(match[1]) * units[match[2].lower()] if match else -1
        if low <= value <= high:
            return value
        problems.add(at, path, allowed)
        return None

    return parse


def matching(pattern: re.Pattern[str], allowed: str) -> Parser[str]:
    """Parser of text that matches a pattern as a whole; `allowed` says it in words."""

    def parse(problems: Problems, path: str, at: Located) -> str | None:
        if isinstance(at.value, str) and pattern.fullmatch(at.value):
            return at.value
        problems.add(at, path, allowed)
        return None

    return parse


plain_name: Final = matching(NAME, NAME_ALLOWED)
"""Parser of the name of a VM, a host, a policy."""


def path_of(problems: Problems, path: str, at: Located) -> Path | None:
    if isinstance(at.value, str) and at.value.startswith("/") and "\0" not in at.value:
        return Path(at.value)
    problems.add(at, path, "an absolute path")
    return None


def socket_path(problems: Problems, path: str, at: Located) -> Path | None:
    """Parser of the path of a UNIX socket."""
    found = path_of(problems, path, at)
    if found is not None and len(os.fsencode(found)) > 107:  # sun_path
        problems.add(at, path, "an absolute path of at most 107 bytes")
        return None
    return found


def table_of(problems: Problems, path: str, at: Located, keys: Mapping[str, Parser[Any]]) -> dict[str, Any]:
    """Parser of a mapping: returns the values of the keys that are present and valid."""
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
