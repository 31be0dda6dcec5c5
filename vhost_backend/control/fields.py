"""The fields of a request, each read once, with its type and range checked.

A field of the wrong type, out of its range, missing or not known is a `RefusedError` of the kind ``malformed`` that names
the verb, the field, its value and what is allowed. MessagePack has told the types apart already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vhost_backend.control.refusal import RefusedError
from virtio_proto.control import selector
from virtio_proto.control.selector import MAX_PES, Selector, SelectorError

_RANGE: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_MISSING: Final = object()


class Fields:
    """What came with one request; `done` refuses what nobody has asked for."""

    def __init__(self, verb: str, values: Mapping[str, Any]) -> None:
        self._verb = verb
        self._values = values
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def wrong(self, name: str, allowed: str) -> RefusedError:
        """The refusal of a field's value."""
        value = self._values.get(name, _MISSING)
        shown = "missing" if value is _MISSING else repr(value)[:80]
        return RefusedError("malformed", f"{self._verb}: {name} is {shown}; allowed: {allowed}")

    def done(self) -> None:
        """:raise RefusedError: there is a field that the verb does not have."""
        for name in self._values:
            if name not in self._asked:
                allowed = ", ".join(sorted(self._asked)) or "no fields"
                raise RefusedError("malformed", f"{self._verb}: field {name!r:.80}; allowed: {allowed}")

    def _take(self, name: str) -> Any:
        self._asked.add(name)
        return self._values.get(name)

    def optional_text(self, name: str, max_chars: int = 256) -> str | None:
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, str) or not 1 <= len(value) <= max_chars or not value.isprintable():
            raise self.wrong(name, f"printable text of 1 to {max_chars} characters")
        return value

    def text(self, name: str, max_chars: int = 256) -> str:
        value = self.optional_text(name, max_chars)
        if value is None:
            raise self.wrong(name, f"printable text of 1 to {max_chars} characters")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        value = self._take(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or value not in allowed:
            raise self.wrong(name, " or ".join(allowed))
        return value

    def optional_integer(self, name: str, low: int, high: int) -> int | None:
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, f"an integer of {low} to {high}")
        return value

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        value = self.optional_integer(name, low, high)
        if value is None:
            value = default
        if value is None:
            raise self.wrong(name, f"an integer of {low} to {high}")
        return value

    def optional_number(self, name: str, low: float, high: float) -> float | None:
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(name, f"a number of {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._take(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def data(self, name: str, max_bytes: int) -> bytes:
        value = self._take(name)
        if not isinstance(value, bytes) or len(value) > max_bytes:
            raise self.wrong(name, f"at most {max_bytes} bytes")
        return value

    def integers(self, name: str, max_count: int) -> tuple[int, ...]:
        """A list of non-negative integers; empty if it is missing."""
        value = self._take(name)
        if value is None:
            return ()
        right = isinstance(value, list) and len(value) <= max_count
        if not right or not all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value):
            raise self.wrong(name, f"a list of at most {max_count} numbers")
        return tuple(value)

    def texts(self, name: str, allowed: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of some of `allowed`."""
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, list) or not value or not all(item in allowed for item in value):
            raise self.wrong(name, f"a list of {', '.join(allowed)}")
        return tuple(dict.fromkeys(value))

    def tables(self, name: str, max_count: int) -> tuple[Mapping[str, Any], ...]:
        """A list of maps."""
        value = self._take(name)
        right = isinstance(value, list) and len(value) <= max_count
        if not right or not all(isinstance(item, dict) and all(isinstance(key, str) for key in item) for item in value):
            raise self.wrong(name, f"a list of at most {max_count} maps")
        return tuple(value)

    def selector(self, name: str = "selector") -> Selector:
        """A parsed selector; one that is left out chooses everything."""
        value = self._take(name)
        if value is None:
            return Selector()
        if not isinstance(value, str):
            raise self.wrong(name, "a selector such as gpu=0,vm=web1,pe=0-3,fn=log")
        try:
            return selector.parse(value)
        except SelectorError as error:
            raise RefusedError("malformed", f"{self._verb}: {error}") from None

    def pes(self, name: str = "pes") -> tuple[int, ...] | None:
        """Numbers of processing elements written as ``0-3|8``, ascending; None where it is null or missing."""
        value = self._take(name)
        if value is None:
            return None
        allowed = f"numbers and ranges below {MAX_PES} such as 0-3|8"
        if not isinstance(value, str):
            raise self.wrong(name, allowed)
        chosen: set[int] = set()
        for part in re.split(r"[|,]", value):
            match = _RANGE.fullmatch(part.strip())
            first = int(match[1]) if match else MAX_PES
            last = int(match[2] or match[1]) if match else 0
            if not first <= last < MAX_PES:
                raise self.wrong(name, allowed)
            chosen.update(range(first, last + 1))
        return tuple(sorted(chosen))
