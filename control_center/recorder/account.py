"""Account of each VM's records since the recorder's start: made = kept + lost + left out.

*Kept* records are in the store. *Lost* ones found no room in their channel, whose processing element counts them. *Left
out* are all others: a push says how many records of its channel there were up to it, so that records between two pushes
that never came, or that the recorder had no room for, are missed, whoever dropped them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, TypeAlias

from control_center.recorder.entry import MAX_LOST
from virtio_proto.control.api import RecordAccount, RecordsPush

MAX_CHANNELS: Final = 1 << 18
"""Most channels whose counters are remembered. Beyond that, those that are silent for longest are forgotten."""
MAX_VMS: Final = 1 << 16
"""Most VMs with an account of their own; those of further ones are their host's, without a name."""

_Key: TypeAlias = tuple[str, str, int, int]


@dataclass(slots=True)
class _Channel:
    """Counters of a channel, as its last push told them."""

    opened_ns: int
    records: int
    lost: int


@dataclass(slots=True)
class Figures:
    """Numbers of a VM's records."""

    kept: int = 0
    lost: int = 0
    left_out: int = 0

    def add(self, more: Figures) -> None:
        self.kept += more.kept
        self.lost += more.lost
        self.left_out += more.left_out


class Accounts:
    """Accounts of all VMs. The writer's thread keeps them; `rows` may be called from any thread."""

    def __init__(self, began_ns: int) -> None:
        """`began_ns`: start of the recorder. Of channels that were opened before, only later records count."""
        self._began_ns = began_ns
        self._channels: dict[_Key, _Channel] = {}
        self._pending: dict[tuple[str, str], Figures] = {}
        """Figures of what is being written."""
        self._totals: dict[tuple[str, str], Figures] = {}
        self._reading = threading.Lock()

    def take(self, host: str, push: RecordsPush, kept: int) -> Figures:
        """Counts a push of whose records `kept` are to be written. Gives what is new: kept, lost, and left out before it."""
        key = (host, push["vm"], push["instance"], push["channel"])  # each VM numbers its own channels
        channel = self._channels.pop(key, None)
        if channel is None or channel.opened_ns != push["opened_ns"]:
            is_old = channel is None and push["opened_ns"] < self._began_ns
            before = (push["records"] - kept, push["lost"]) if is_old else (0, 0)
            channel = _Channel(push["opened_ns"], *before)
        new = Figures(
            kept,
            max(0, min(push["lost"] - channel.lost, MAX_LOST)),
            max(0, min(push["records"] - channel.records - kept, MAX_LOST)),
        )
        channel.records, channel.lost = max(channel.records, push["records"]), max(channel.lost, push["lost"])
        self._channels[key] = channel
        if len(self._channels) > MAX_CHANNELS:
            del self._channels[next(iter(self._channels))]
        self._pending.setdefault((host, push["vm"]), Figures()).add(new)
        return new

    def commit(self) -> None:
        """Notes that the records of all pushes so far are in the store."""
        with self._reading:
            for place, new in self._pending.items():
                known = place in self._totals or len(self._totals) < MAX_VMS
                self._totals.setdefault(place if known else (place[0], ""), Figures()).add(new)
        self._pending.clear()

    def spoil(self) -> None:
        """Notes that the records of pushes since the last `commit` cannot be written: they are left out."""
        for new in self._pending.values():
            new.left_out, new.kept = new.left_out + new.kept, 0

    def rows(self) -> list[RecordAccount]:
        """Accounts of all VMs of which something was made, by host and VM."""
        with self._reading:
            return [
                {
                    "host": host,
                    "vm": vm,
                    "made": one.kept + one.lost + one.left_out,
                    "kept": one.kept,
                    "lost": one.lost,
                    "left_out": one.left_out,
                }
                for (host, vm), one in sorted(self._totals.items())
            ]
