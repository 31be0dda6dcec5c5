"""Fault policies: actions that the daemon takes by itself when faults occur.

``edge`` acts on a fault that is new in the book; ``sustained`` when a fault of a processing element has occurred `count`
times, never more than the window apart; ``aggregate`` when a VM had `count` matching faults during the last window.
After acting, a policy counts that VM's faults from zero again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from vhost_backend.config.control import PolicyConfig
from vhost_backend.control.faults.book import Fault
from vhost_backend.control.faults.records import PolicyRecord, PolicySet
from vhost_backend.keeper.record import Record, unpack
from vhost_backend.keeper.shelf import Shelf
from virtio_proto.control import selector
from virtio_proto.control.api import PolicyInfo

NS_PER_S: Final = 1_000_000_000
MAX_TRACKED: Final = 4096
"""Most faults of one VM that a ``sustained`` policy follows at once."""


@dataclass(slots=True)
class _Run:
    """Occurrences of a fault, never more than the window apart."""

    last_ns: int = 0
    count: int = 0


@dataclass(slots=True)
class _Track:
    """Counts of a policy for one VM."""

    runs: dict[tuple[int | None, str], _Run] = field(default_factory=dict)
    times_ns: deque[int] = field(default_factory=deque)


class Policy:
    """Policy, with its counts."""

    def __init__(self, config: PolicyConfig) -> None:
        self.config = config
        self.selector = selector.parse(config.selector)
        self._window_ns = int(config.window_s * NS_PER_S)
        self._tracks: dict[str, _Track] = {}

    def concerns(self, fault: Fault) -> bool:
        chosen = self.selector
        right_pe = chosen.pe is None or (fault.pe is not None and chosen.matches_pe(fault.pe))
        return (
            fault.kind in self.config.kinds
            and chosen.matches_vm(fault.vm)
            and chosen.matches_gpu(fault.gpu)
            and right_pe
        )

    def is_due(self, fault: Fault, now_ns: int, count: int) -> bool:
        """Counts `count` new occurrences of a matching fault, which `fault.count` includes; True if the policy acts now."""
        track = self._tracks.setdefault(fault.vm, _Track())
        match self.config.trigger:
            case "edge":
                due = fault.count == count
            case "sustained":
                due = self._sustained(track, fault, now_ns, count)
            case _:
                due = self._aggregate(track, now_ns, count)
        if due:
            self._tracks[fault.vm] = _Track()
        return due

    def _sustained(self, track: _Track, fault: Fault, now_ns: int, count: int) -> bool:
        if len(track.runs) >= MAX_TRACKED:
            track.runs.clear()
        run = track.runs.setdefault((fault.pe, fault.kind), _Run())
        run.count = run.count + count if now_ns - run.last_ns <= self._window_ns else count
        run.last_ns = now_ns
        return run.count >= self.config.count

    def _aggregate(self, track: _Track, now_ns: int, count: int) -> bool:
        times = track.times_ns
        times.extend([now_ns] * min(count, self.config.count))
        while times and now_ns - times[0] > self._window_ns:
            times.popleft()
        return len(times) >= self.config.count

    def info(self) -> PolicyInfo:
        config = self.config
        info: PolicyInfo = {
            "name": config.name,
            "selector": config.selector,
            "kinds": list(config.kinds),
            "trigger": config.trigger,
            "count": config.count,
            "window_s": config.window_s,
            "action": config.action,
        }
        if config.target:
            info["target"] = config.target
        return info


class Policies:
    """All policies of a host."""

    def __init__(
        self, configs: Sequence[PolicyConfig], clock_ns: Callable[[], int], shelf: Shelf | None = None
    ) -> None:
        """`configs`: the configuration's. Those on the `shelf` at the keeper hold in their place, as a client has set them."""
        self._clock_ns = clock_ns
        self._shelf = shelf or Shelf("policies")
        self._number = 0
        """Number of the set that clients have set; 0: they have set none."""
        there = self._read()
        self.all = tuple(Policy(config) for config in (configs if there is None else there))

    def replace(self, configs: Sequence[PolicyConfig]) -> None:
        """Replaces all policies, also those of later daemons; counts start from zero."""
        self.all = tuple(Policy(config) for config in configs)
        before, self._number = self._number, self._number + 1
        records: dict[str, Record | None] = {
            f"{self._number}/{index}": _record(config) for index, config in enumerate(configs)
        }
        records["set"] = PolicySet(self._number, len(configs))  # from here on they hold
        self._shelf.set({**records, str(before): None})

    def _read(self) -> list[PolicyConfig] | None:
        """Policies that clients of an earlier daemon have set; None: they have set none."""
        there = self._shelf.take()
        if "set" not in there:
            return None
        made = unpack(there["set"].blob, PolicySet)
        self._number = made.number
        return [_config(unpack(there[f"{made.number}/{index}"].blob, PolicyRecord)) for index in range(made.count)]

    def due(self, fault: Fault, count: int) -> list[Policy]:
        """Counts `count` new occurrences of a fault; returns the policies that act now."""
        now_ns = self._clock_ns()
        return [policy for policy in self.all if policy.concerns(fault) and policy.is_due(fault, now_ns, count)]


def _record(config: PolicyConfig) -> PolicyRecord:
    return PolicyRecord(
        config.name,
        config.selector,
        config.kinds,
        config.trigger,
        config.count,
        config.window_s,
        config.action,
        config.target,
    )


def _config(record: PolicyRecord) -> PolicyConfig:
    return PolicyConfig(
        record.name,
        record.selector,
        record.kinds,
        record.trigger,
        record.count,
        record.window_s,
        record.action,
        record.target,
    )
