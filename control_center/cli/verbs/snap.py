"""Snapshots: what every processing element (PE) does at one moment, read on all PEs in parallel; and their differences.

Each snapshot says what part of the PEs answered, within what time of one another, and which PEs did not answer.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final, TypedDict, cast

from control_center.cli.context import Context, failures, positive, selector
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.output import cell, date, duration
from control_center.cli.problems import OK, UsageError
from control_center.snapshots import COMPARED, Change, diff
from virtio_proto.control.api import SnapshotInfo
from virtio_proto.control.shapes import checked
from virtio_proto.control.verbs.base import HostError
from virtio_proto.control.verbs.faults import Snapshot, TakeSnapshot

EXAMPLES: Final = """\
  vgcctl snap take vm=web1                    a snapshot of a VM
  vgcctl snap take --save before.json         of everything, kept in a file
  vgcctl snap list                            snapshots that the control centre keeps
  vgcctl snap show 4
  vgcctl snap diff 3 4                        from files: vgcctl snap diff before.json after.json
"""
FIGURES: Final = ("changed", "stuck", "same")
_COLUMNS: Final = ("host", "vm", "pe", "kernel", "launch", "block", "warps", "running_for", "hung")


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    take = action("take", "take a snapshot now")
    take.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")
    take.add_argument("--deadline", type=positive, default=100, metavar="MS", help="time for answers (default: 100)")
    take.add_argument("--save", type=Path, metavar="FILE", help="write it to a JSON file, too")
    action("list", "list the snapshots that the control centre keeps")
    show = action("show", "show a snapshot that was kept")
    show.add_argument("snapshot", metavar="NUMBER|FILE")
    diff = action("diff", "show what changed from one snapshot to another")
    diff.add_argument("first", metavar="NUMBER|FILE")
    diff.add_argument("second", metavar="NUMBER|FILE")


async def run(context: Context) -> int:
    given = context.given
    match given.action:
        case "take":
            found = await context.link.ask(TakeSnapshot.Request(selector=given.selector, deadline_ms=given.deadline))
            if given.save:
                _save(given.save, found)
            _show(context, found)
        case "list":
            rows = await context.link.snapshots()
            shown = rows if context.out.as_json else [_line(row) for row in rows]
            context.out.rows(("id", "time", "selector", "coverage"), shown)
        case "show":
            _show(context, await _get(context, given.snapshot))
        case _:
            _show_diff(context, await _get(context, given.first), await _get(context, given.second))
    return OK


def _line(row: Object) -> Object:
    return {
        **row,
        "time": date(row["time_ns"]),
        "selector": row["selector"] or "*",
        "coverage": f"{100 * row['coverage']:.4g} %",
    }


def _save(path: Path, found: Object) -> None:
    try:
        path.write_text(json.dumps(found))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


async def _get(context: Context, name: str) -> Object:
    """Finds a snapshot by its number, or reads it from a file.

    :raise UsageError: the file does not hold a snapshot.
    """
    if name.isdecimal():
        return await context.link.snapshot_of(name)
    return _read(Path(name))


class _Kept(TypedDict):
    """File of ``snap take --save``, as far as it is read."""

    hosts: dict[str, SnapshotInfo]
    failed: list[HostError]


def _read(path: Path) -> Object:
    try:
        found: Object = checked(json.loads(path.read_text()), _Kept, "")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}; allowed: a snapshot's number, or a file of `snap take --save`") from None
    return found


def _elements(found: Object) -> dict[tuple[str, str, int], Object]:
    return {
        (host, pe["vm"], pe["pe"]): {**pe, "host": host} for host, info in found["hosts"].items() for pe in info["pes"]
    }


def _show(context: Context, found: Object) -> None:
    if context.out.as_json:
        context.out.json(found)
        return
    rows = [{**pe, "running_for": _since(pe)} for pe in _elements(found).values()]
    context.out.rows(_COLUMNS, rows)
    for host, info in found["hosts"].items():
        silent = f"; silent: {' '.join(info['silent'])}" if info["silent"] else ""
        context.out.line(f"{host}: {100 * info['coverage']:.4g} % answered within {duration(info['skew_ns'])}{silent}")
    for line in failures(found):
        context.out.note(f"no snapshot of {line}")


def _since(pe: Object) -> str | None:
    return duration(pe["at_ns"] - pe["since_ns"]) if pe["kernel"] and pe["since_ns"] else None


def _show_diff(context: Context, first: Object, second: Object) -> None:
    found = diff(_compared(first), _compared(second))
    if context.out.as_json:
        context.out.json(found)
        return
    context.out.rows(
        ("host", "vm", "pe", "what", *COMPARED),
        [{**change, "what": change["kind"], **_both(change)} for change in found["changes"]],
    )
    context.out.line(f"{found['changed']} changed, {found['stuck']} stuck, {found['same']} idle as before")


def _compared(found: Object) -> Snapshot:
    """Snapshot with what `diff` needs; those of files and of daemons have no number and only their hosts' times."""
    time_ns = max((info["time_ns"] for info in found["hosts"].values()), default=0)
    return cast("Snapshot", {"time_ns": time_ns, **found, "id": found.get("id") or 0})


def _both(change: Change) -> Object:
    """Fields of a PE that differ, as ``before -> after``."""
    before, after = change["before"], change["after"]
    return {
        name: " -> ".join(cell(None if state is None else state[name]) for state in (before, after))  # type: ignore[literal-required]  # its fields
        for name in change["changed"]
    }
