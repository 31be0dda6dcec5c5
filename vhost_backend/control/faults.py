"""The fault book: what went wrong on which element, how often, and what to do about it.

Equal faults of one element are one entry that counts; entries are cleared by people, and kept in a history that is
bounded for each VM, so that one which faults without end pushes only its own out. Fed from records of the fault
function, from workers' deaths, from snapshots (elements that hang) and from the device itself (Xid).
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from virtio_proto.control.api import FaultInfo

MAX_PER_VM: Final = 512
MAX_TEXT_CHARS: Final = 1000

KINDS: Final[Mapping[int, str]] = {
    1: "kernel",
    2: "assert",
    3: "trap",
    4: "deadline",
    5: "hung",
    6: "device",
    7: "deadlock",
}
"""Of ``enum vgc_ctl_fault``; what is above is a kernel's own."""

USER: Final = 256

ADVICE: Final[Mapping[str, str]] = {
    "kernel": (
        "The kernel used an address or an instruction that it must not. The text says where; run it with fewer blocks, "
        "and check its indices against the sizes of its buffers. The worker is replaced, other VMs are not affected."
    ),
    "assert": "An assertion of the kernel failed: its own check says what is wrong.",
    "trap": "The kernel ended itself with a trap: look for __trap() and for code that the compiler proved unreachable.",
    "deadline": (
        "The launch ran longer than the VM's deadline. Split the work into shorter launches, or raise `deadline` in "
        "vgcd's configuration if such launches are meant to be."
    ),
    "hung": (
        "The element has not come further for a while. A snapshot shows the kernel and the block: look for a loop that "
        "waits for another block or for input. The deadline ends the launch; `vgcctl worker reset` ends it now."
    ),
    "deadlock": (
        "Threads of a block wait for each other, so none can go on: look for __syncthreads() that some threads do not come "
        "to. The text says how many wait where; the launch is ended, the worker goes on."
    ),
    "device": "The device reported an error of its own: see the Xid's advice.",
    "user": "The kernel reported this itself (vgc_fault): its author knows what it means.",
}

Key: TypeAlias = tuple[int | None, str, int | None, str]


@dataclass(slots=True)
class Fault:
    """One entry."""

    number: int
    gpu: str
    vm: str
    pe: int | None
    kind: str
    text: str
    xid: int | None
    advice: str
    time_ns: int
    last_ns: int
    count: int = 1
    cleared: bool = False
    told_ns: int = 0
    """When an event told of it last."""

    @property
    def key(self) -> Key:
        return (self.pe, self.kind, self.xid, self.text)

    def info(self) -> FaultInfo:
        return {
            "fault": self.number,
            "time_ns": self.time_ns,
            "last_ns": self.last_ns,
            "count": self.count,
            "gpu": self.gpu,
            "vm": self.vm,
            "pe": self.pe,
            "kind": self.kind,
            "xid": self.xid,
            "text": self.text,
            "advice": self.advice,
            "cleared": self.cleared,
        }


class FaultBook:
    """All faults of a host. `on_fault` is told of those that come and of how many, after they are in the book."""

    def __init__(self, on_fault: Callable[[Fault, int], None]) -> None:
        self._on_fault = on_fault
        self._of_vm: dict[str, OrderedDict[int, Fault]] = {}
        self._open: dict[str, dict[Key, Fault]] = {}
        """Entries that are not cleared, which the next equal fault is counted in."""
        self._numbers = itertools.count(1)

    def add(
        self,
        *,
        gpu: str,
        vm: str,
        pe: int | None,
        kind: str,
        text: str,
        time_ns: int,
        xid: int | None = None,
        advice: str = "",
        count: int = 1,
    ) -> Fault:
        """Notes `count` occurrences of a fault."""
        text = text[:MAX_TEXT_CHARS]
        known = self._open.setdefault(vm, {}).get((pe, kind, xid, text))
        if known is not None:
            known.count += count
            known.last_ns = max(known.last_ns, time_ns)
            fault = known
        else:
            advice = advice or ADVICE.get(kind, "")
            number = next(self._numbers)
            fault = Fault(number, gpu, vm, pe, kind, text, xid, advice, time_ns, time_ns, count)
            self._of_vm.setdefault(vm, OrderedDict())[number] = fault
            self._open[vm][fault.key] = fault
            self._bound(vm)
        self._on_fault(fault, count)
        return fault

    def _bound(self, vm: str) -> None:
        """Forgets the oldest cleared entry of a VM with too many, else its oldest."""
        entries = self._of_vm[vm]
        if len(entries) <= MAX_PER_VM:
            return
        oldest = next((fault for fault in entries.values() if fault.cleared), next(iter(entries.values())))
        del entries[oldest.number]
        self._open[vm].pop(oldest.key, None)

    def of(self, vm: str, *, cleared: bool = False) -> list[Fault]:
        """A VM's faults, by number; with `cleared` those that are as well."""
        return [fault for fault in self._of_vm.get(vm, {}).values() if cleared or not fault.cleared]

    def clear(self, faults: Iterable[Fault]) -> int:
        """Marks them as dealt with: the next equal one is a new entry. How many that were."""
        count = 0
        for fault in faults:
            if not fault.cleared:
                fault.cleared = True
                self._open[fault.vm].pop(fault.key, None)
                count += 1
        return count


def kind_of(code: int) -> str | None:
    """The name of a fault's code in a record; None: there is no such code."""
    return "user" if code >= USER else KINDS.get(code)
