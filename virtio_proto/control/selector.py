"""Selectors: text that names processing elements, and functions on them, for a command.

``host=*,gpu=0-3,vm=web1,pe=0-131,fn=log``: comma-separated ``key=value``, each key at most once; a key that is left
out matches everything. ``host``, ``gpu`` and ``vm`` take names with ``*`` and ``?``, several separated by ``|``;
``pe`` takes numbers and ranges separated by ``|`` (``0-3|8``), or ``*``; ``fn`` takes names of functions.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FUNCTIONS: Final = ("stdio", "perf", "log", "fault", "load", "firmware", "snapshot")
"""Names of control functions; the index is the number of ``enum vgc_ctl_function``."""

MAX_PES: Final = 4096
MAX_CHARS: Final = 1024
_NAMES: Final = ("host", "gpu", "vm")
_KEYS: Final = (*_NAMES, "pe", "fn")
_NAME: Final = re.compile(r"[A-Za-z0-9_.:*?|-]{1,256}")
_RANGE: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


class SelectorError(ValueError):
    """A selector is malformed; the text says where and what is allowed."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Parsed selector; made by `parse`."""

    host: str = "*"
    gpu: str = "*"
    vm: str = "*"
    pe: tuple[tuple[int, int], ...] | None = None
    """Ranges of processing elements, ends included; None: all."""
    fn: tuple[str, ...] | None = None
    """Names of functions; None: all."""

    def matches_host(self, host: str) -> bool:
        return _matches(self.host, (host,))

    def matches_gpu(self, *names: str) -> bool:
        """True if the selector matches a GPU with these names: its number, its UUID."""
        return _matches(self.gpu, names)

    def matches_vm(self, vm: str) -> bool:
        return _matches(self.vm, (vm,))

    def matches_pe(self, pe: int) -> bool:
        return self.pe is None or any(first <= pe <= last for first, last in self.pe)

    def matches_fn(self, fn: str) -> bool:
        return self.fn is None or fn in self.fn

    def pes_of(self, num_pes: int) -> tuple[int, ...]:
        """Selected processing elements of a GPU or VM that has `num_pes` of them, ascending."""
        if self.pe is None:
            return tuple(range(num_pes))
        chosen = (range(first, min(last + 1, num_pes)) for first, last in self.pe)
        return tuple(sorted(set().union(*chosen)))

    def one_fn(self) -> str:
        """Returns the only function.

        :raise SelectorError: the selector names no function, or several.
        """
        if self.fn is None or len(self.fn) != 1:
            raise SelectorError(f"selector {str(self)!r}: fn must name one function; allowed: {', '.join(FUNCTIONS)}")
        return self.fn[0]

    def __str__(self) -> str:
        parts = [f"{key}={getattr(self, key)}" for key in _NAMES if getattr(self, key) != "*"]
        if self.pe is not None:
            parts.append("pe=" + "|".join(str(a) if a == b else f"{a}-{b}" for a, b in self.pe))
        if self.fn is not None:
            parts.append("fn=" + "|".join(self.fn))
        return ",".join(parts)


def _matches(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, part) for part in pattern.split("|") for name in names)


def parse(text: str) -> Selector:
    """Parses a selector; an empty text matches everything.

    :raise SelectorError: `text` is malformed.
    """
    if len(text) > MAX_CHARS:
        raise SelectorError(f"selector of {len(text)} characters; allowed: {MAX_CHARS}")
    found: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in _KEYS:
            raise SelectorError(f"selector {text!r}: {part.strip()!r}; allowed: key=value with {', '.join(_KEYS)}")
        if key in found:
            raise SelectorError(f"selector {text!r}: {key} twice; allowed: once, with alternatives as a|b")
        found[key] = value
    names = {key: _name(text, key, found[key]) for key in _NAMES if key in found}
    return Selector(**names, pe=_ranges(text, found.get("pe", "*")), fn=_functions(text, found.get("fn", "*")))


def _name(text: str, key: str, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise SelectorError(f"selector {text!r}: {key}={value!r:.80}; allowed: letters, digits, _ . : - and * ? |")
    return value


def _ranges(text: str, value: str) -> tuple[tuple[int, int], ...] | None:
    if value == "*":
        return None
    ranges = []
    for part in value.split("|"):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else MAX_PES
        last = int(match[2] or match[1]) if match else 0
        if not first <= last < MAX_PES:
            allowed = f"numbers and ranges below {MAX_PES} such as 0-3|8, or *"
            raise SelectorError(f"selector {text!r}: pe={value!r:.80}; allowed: {allowed}")
        ranges.append((first, last))
    return tuple(ranges)


def numbers(text: str) -> tuple[int, ...]:
    """Numbers of processing elements written as ``0-3|8``, or with commas, ascending.

    :raise SelectorError: with what is allowed.
    """
    chosen = bytearray(MAX_PES)  # by number; a long text may name the same ranges again and again
    for part in re.split(r"[|,]", text):
        match = _RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else MAX_PES
        last = int(match[2] or match[1]) if match else 0
        if not first <= last < MAX_PES:
            raise SelectorError(f"numbers and ranges below {MAX_PES} such as 0-3|8")
        chosen[first : last + 1] = bytes([1]) * (last + 1 - first)
    return tuple(number for number, is_chosen in enumerate(chosen) if is_chosen)


def _functions(text: str, value: str) -> tuple[str, ...] | None:
    if value == "*":
        return None
    names = tuple(value.split("|"))
    unknown = [name for name in names if name not in FUNCTIONS]
    if unknown:
        raise SelectorError(f"selector {text!r}: fn={unknown[0]!r:.40}; allowed: {', '.join(FUNCTIONS)}")
    return names
