"""A trace in numbers: how often, and for how long, in all and per step of a training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guest_driver.trace.lines import Request, Sleep, Trace
from guest_driver.trace.perfetto import WORK

LONGEST_SLEEP_NS: Final = 100_000_000
"""Time after which the driver looks at the device again (``libvgc/src/queue.c``)."""

NO_ROOM: Final = "there is no room in $TMPDIR (default: /tmp), or the program's files are limited (ulimit -f)"
AGAIN_WITHIN_NS: Final = 1_000_000
SHOWN: Final = 6
"""Names that a row shows, the most frequent first."""


@dataclass(frozen=True)
class Row:
    """Things of one kind: how many of each name, and the time that all took."""

    title: str
    names: Counter[str]
    time_ns: int

    @property
    def count(self) -> int:
        return self.names.total()

    def text(self, steps: int) -> str:
        named = [f"{name} {count:,}" for name, count in self.names.most_common(SHOWN) if name]
        more = len(self.names) - SHOWN
        per_step = f"{self.count / steps:>10.1f}" if steps else ""
        row = f"{self.title:<16}{self.count:>9,}{per_step}{self.time_ns / 1e6:>12,.1f} ms  {', '.join(named)}"
        return (row + (f" and {more} more" if more > 0 else "")).rstrip()


def rows(trace: Trace) -> tuple[Row, ...]:
    """Calls of CUDA, requests, sleeps, and the work on the device."""
    work = [request for request in trace.requests if request.opcode in WORK]
    return (
        Row("calls of CUDA", Counter(call.name for call in trace.calls), _length(trace.calls)),
        Row("requests", Counter(request.kind for request in trace.requests), _length(trace.requests)),
        Row("sleeps", Counter({"": waits(trace.sleeps)}), _length(trace.sleeps)),
        Row("on the device", Counter(map(_name, work)), sum(request.exec_ns for request in work)),
    )


def waits(sleeps: Sequence[Sleep]) -> int:
    """How many there are, if one that goes on after the longest that the driver sleeps at a time counts as one."""
    ends: dict[tuple[int, int], int] = {}
    count = 0
    for sleep in sorted(sleeps, key=lambda sleep: sleep.start_ns):
        count += sleep.start_ns > ends.get((sleep.pid, sleep.thread), -1)
        is_longest = sleep.end_ns - sleep.start_ns >= LONGEST_SLEEP_NS
        ends[sleep.pid, sleep.thread] = sleep.end_ns + AGAIN_WITHIN_NS if is_longest else -1
    return count


def _name(request: Request) -> str:
    return request.name or request.kind


def _length(entries: Iterable[Any]) -> int:
    return sum(entry.end_ns - entry.start_ns for entry in entries)


def text(trace: Trace, steps: int) -> str:
    """A table for people; `steps` is 0 if it is not known how many there were."""
    head = f"{'':<16}{'number':>9}{'per step' if steps else '':>{10 if steps else 0}}{'time':>15}"
    lines = [head, *(row.text(steps) for row in rows(trace))]
    if trace.lost:
        lines.append(f"{trace.lost} lines of killed processes are lost")
    if trace.unwritten:
        lines.append(f"{trace.unwritten} lines or more are missing: {NO_ROOM}")
    return "\n".join(lines)


def numbers(trace: Trace) -> dict[str, Any]:
    """Numbers and names of all rows, for programs."""
    return {
        row.title.replace(" ", "_").lower(): {"number": row.count, "time_ns": row.time_ns, "names": dict(row.names)}
        for row in rows(trace)
    }
