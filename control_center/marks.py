"""Marks of guests' programs: the event ``marks`` of a daemon holds several, which are shown as events of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

EVENT: Final = "marks"
NAMES: Final = {"instant": "mark", "nested": "range", "range": "range"}
"""Names of the events, by the mark's kind."""


def marks_of(detail: Mapping[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Time, name and detail of each mark in the detail of an event ``marks``; what is no mark is left out.

    The first tells how many marks were left out before it (``dropped``).
    """
    found = detail.get("marks")
    common = {"program": f"{detail.get('name') or 'process'}[{detail.get('process')}]"}
    if detail.get("dropped"):
        common["dropped"] = detail["dropped"]
    for mark in found if isinstance(found, list) else []:
        if not isinstance(mark, dict) or not isinstance(mark.get("at_ns"), int):
            continue
        rest = {name: value for name, value in mark.items() if name not in ("at_ns", "kind")}
        kind = str(mark.get("kind"))
        nested = {"nested": True} if kind == "nested" else {}
        yield mark["at_ns"], NAMES.get(kind, "mark"), {"text": "", **rest, **nested, **common}
        common.pop("dropped", None)
