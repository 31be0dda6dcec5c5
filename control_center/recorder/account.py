"""Account of each VM's records since the recorder's start: made = kept + lost + left out.

VMs come and go: those that left longest ago share one account of their host.

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
MAX_LEFT: Final = 1 << 10
"""Most VMs that have left and still have an account of their own."""

_Place: TypeAlias = tuple[str, str]
"""Host and VM."""
_Number: TypeAlias = tuple[int, int]
"""Instance and channel: each VM numbers its own channels."""


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
        self._channels: dict[_Place, dict[_Number, _Channel]] = {}
        """Channels by VM, the VM that spoke last at the end; likewise its channels."""
        self._num_channels = 0
        self._left: dict[_Place, int] = {}
        """VMs that have left, by the time at which they did."""
        self._pending: dict[_Place, Figures] = {}
        """Figures of what is being written."""
        self._totals: dict[_Place, Figures] = {}
        self._reading = threading.Lock()

    def take(self, host: str, push: RecordsPush, kept: int) -> Figures:
        """Counts a push of whose records `kept` are to be written. Gives what is new: kept, lost, and left out before it."""
        place, number = (host, push["vm"]), (push["instance"], push["channel"])
        channels = self._channels[place] = self._channels.pop(place, {})
        channel = channels.pop(number, None)
        self._num_channels += channel is None
        if channel is None or channel.opened_ns != push["opened_ns"]:
            is_old = channel is None and push["opened_ns"] < max(self._began_ns, self._left.get(place, 0))
            before = (push["records"] - kept, push["lost"]) if is_old else (0, 0)
            channel = _Channel(push["opened_ns"], *before)
        new = Figures(
            kept,
            max(0, min(push["lost"] - channel.lost, MAX_LOST)),
            max(0, min(push["records"] - channel.records - kept, MAX_LOST)),
        )
        channel.records, channel.lost = max(channel.records, push["records"]), max(channel.lost, push["lost"])
        channels[number] = channel
        if self._num_channels > MAX_CHANNELS:
            self._forget_a_channel()
        self._pending.setdefault(place, Figures()).add(new)
        return new

    def _forget_a_channel(self) -> None:
        place, channels = next(iter(self._channels.items()))
        del channels[next(iter(channels))]
        self._num_channels -= 1
        if not channels:
            del self._channels[place]

    def left(self, host: str, vm: str, time_ns: int) -> None:
        """Notes that a VM has left its host at `time_ns`, and its channels with it. One of this name may come again."""
        place = (host, vm)
        self._num_channels -= len(self._channels.pop(place, ()))
        self._left.pop(place, None)
        self._left[place] = time_ns

    def commit(self) -> None:
        """Notes that the records of all pushes so far are in the store."""
        with self._reading:
            for place, new in self._pending.items():
                known = place in self._totals or len(self._totals) < MAX_VMS
                self._totals.setdefault(place if known else (place[0], ""), Figures()).add(new)
            while len(self._left) > MAX_LEFT:
                self._share(next(iter(self._left)))
        self._pending.clear()

    def _share(self, place: _Place) -> None:
        """Adds the account of a VM that has left to its host's, unless one of its name has come since."""
        del self._left[place]
        if place not in self._channels and place in self._totals:
            self._totals.setdefault((place[0], ""), Figures()).add(self._totals.pop(place))

    def spoil(self) -> None:
        """Notes that the records of pushes since the last `commit` cannot be written: they are left out."""
        for new in self._pending.values():
            new.left_out, new.kept = new.left_out + new.kept, 0

    def rows(self) -> list[RecordAccount]:
        """Accounts of all VMs of which something was made, by host and VM; "" is those of a host that share one."""
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
