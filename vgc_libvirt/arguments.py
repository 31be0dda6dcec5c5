"""Options of QEMU's command line, as key=value lists and as JSON: reading and writing.

Source: QEMU's ``util/keyval.c`` and ``qemu-options.hx``. In a key=value list, a comma within a value is written twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from virtio_proto.yaml_values import SIZE_UNITS

IMPLIED_KEYS: Final = {"-chardev": "backend", "-device": "driver", "-object": "qom-type"}
"""Options that are read here, with the key that the first word of a list stands for."""

_MOST: Final = (1 << 64) - 1
_ON: Final = frozenset({"on", "yes", "true", "y"})
_OFF: Final = frozenset({"off", "no", "false", "n"})


@dataclass(frozen=True, slots=True)
class Option:
    """Option of QEMU's command line."""

    name: str
    """One of `IMPLIED_KEYS`."""
    keys: Mapping[str, Any]
    """Values by their keys: texts, and what JSON has."""
    text: str
    """Value as it stands in the definition."""
    position: int
    """Number of arguments before the option's name."""
    problem: str = ""
    """Reason why QEMU cannot read the option; "" if it can."""

    @property
    def kind(self) -> str:
        """Driver, backend or type of object."""
        return str(self.keys.get(IMPLIED_KEYS[self.name], ""))

    @property
    def id(self) -> str:
        return str(self.keys.get("id", ""))

    @property
    def is_json(self) -> bool:
        return self.text.lstrip().startswith("{")

    def number(self, key: str) -> int | None:
        """Integer value of a key; None: the key is missing, or its value is no integer."""
        value = self.keys.get(key)
        return None if isinstance(value, bool) else number(str(value), 0)

    def size_bytes(self, key: str) -> int | None:
        """Size in bytes; None: the key is missing, or its value is no size of QEMU's."""
        text = str(self.keys.get(key, "")).strip().lower()
        unit = text[-1:] if text[-1:] in SIZE_UNITS and not text[-1:].isdigit() else ""
        count = number(text.removesuffix(unit) if unit else text, 10)
        return count * SIZE_UNITS[unit] if count is not None and count >= 0 else None

    def flag(self, key: str, *, default: bool) -> bool | None:
        """Truth value of a key; None: its value is no truth value."""
        value = self.keys.get(key, default)
        if isinstance(value, bool):
            return value
        word = str(value).lower()
        return True if word in _ON else False if word in _OFF else None


def options(arguments: Sequence[str]) -> list[Option]:
    """Options among the arguments of a command line that are read here, in their order."""
    found = []
    for position, argument in enumerate(arguments):
        name = "-" + argument.lstrip("-")
        if argument.startswith("-") and name in IMPLIED_KEYS:
            value = arguments[position + 1] if position + 1 < len(arguments) else None
            found.append(_option(name, value, position))
    return found


def _option(name: str, value: str | None, position: int) -> Option:
    if value is None:
        return Option(name, {}, "", position, f"{name} has no value")
    if not value.lstrip().startswith("{"):
        return Option(name, _key_values(IMPLIED_KEYS[name], value), value, position)
    if name == "-chardev":
        return Option(name, {}, value, position, "QEMU takes no JSON for -chardev; allowed: a list of key=value")
    try:
        keys = json.loads(value)
        json.dumps(keys, ensure_ascii=False).encode()  # no message could show half a character
    except RecursionError:
        return Option(name, {}, value, position, "the value is nested too deeply; allowed: an object of plain values")
    except ValueError as error:
        return Option(name, {}, value, position, f"the value is no JSON: {error}")
    return Option(name, keys, value, position)


def number(text: str, base: int) -> int | None:
    """Integer of at most 64 bits, written to `base` as for `int`; None: `text` has another value."""
    try:
        found = int(text, base)
    except ValueError:
        return None
    return found if abs(found) <= _MOST else None


def _key_values(implied: str, text: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for index, part in enumerate(_parts(text)):
        key, equals, value = part.partition("=")
        if equals:
            keys[key] = value
        elif index == 0:
            keys[implied] = part
        else:  # a flag: "server" means server=on, "nowait" wait=off
            is_off = key.startswith("no") and len(key) > 2
            keys[key[2:] if is_off else key] = "off" if is_off else "on"
    return keys


def _parts(text: str) -> list[str]:
    """Splits a list at single commas."""
    hidden = "\0"
    return [part.replace(hidden, ",") for part in text.replace(",,", hidden).split(",")]


def escaped(value: str) -> str:
    """Value within a key=value list."""
    return value.replace(",", ",,")


def as_json(keys: Mapping[str, Any]) -> str:
    """JSON form of an option, for ``-device`` and ``-object``."""
    return json.dumps(keys, separators=(",", ":"))
