"""Fault book: faults of VMs and processing elements, with counts and advice.

Equal faults of one processing element are one entry with a count. People clear entries. The history is bounded for
each VM, so that a VM with endless faults pushes out only its own. Faults come from records of the fault function, from
workers' deaths, from snapshots (hung processing elements) and from the device (Xid).
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
"""Kinds by ``enum vgc_ctl_fault``."""

USER: Final = 256
"""Least code of faults that kernels report themselves."""

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
        "The element has been in one block for too long. A snapshot shows the kernel and the block: look for a loop that "
        "waits for another block or for input. The deadline ends the launch; `vgcctl worker reset` ends it now."
    ),
    "deadlock": (
        "Threads of a block wait for each other, so none can go on: look for __syncthreads() that some threads do not come "
        "to. The text says how many wait where; the launch is ended, the worker goes on."
    ),
    "device": "The device reported an error of its own: see the Xid's advice.",
    "worker": (
        "The VM's worker did what no worker does: it broke its protocol, or exceeded a budget. The text says which. Guest code "
        "has probably taken its process over. The worker was replaced, other VMs are not affected: look at what the guest runs."
    ),
    "death": (
        "The VM's worker ended without a report of its own; the text says how. After SIGKILL look at the host's kernel log: its "
        "out-of-memory killer, or somebody, ended it. A worker that dies before it is ready cannot start on this host: vgcd's log "
        "says why. The worker is replaced, and the guest's programs have to begin anew; other VMs are not affected."
    ),
    "user": "The kernel reported this itself (vgc_fault): its author knows what it means.",
}

Key: TypeAlias = tuple[int | None, str, int | None, str]


@dataclass(slots=True)
class Fault:
    """Entry of the fault book."""

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
    """Time of the last event about this fault."""

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
    """All faults of a host. `on_fault` is called with each fault and its number of new occurrences, once it is entered."""

    def __init__(self, on_fault: Callable[[Fault, int], None]) -> None:
        self._on_fault = on_fault
        self._of_vm: dict[str, OrderedDict[int, Fault]] = {}
        self._open: dict[str, dict[Key, Fault]] = {}
        """Entries that are not cleared; equal faults are counted in them."""
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
        """Enters `count` occurrences of a fault."""
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
        """Forgets the oldest cleared entry of a VM with too many entries, or its oldest if none is cleared."""
        entries = self._of_vm[vm]
        if len(entries) <= MAX_PER_VM:
            return
        oldest = next((fault for fault in entries.values() if fault.cleared), next(iter(entries.values())))
        del entries[oldest.number]
        self._open[vm].pop(oldest.key, None)

    def of(self, vm: str, *, cleared: bool = False) -> list[Fault]:
        """Faults of a VM, by number; with `cleared` including cleared ones."""
        return [fault for fault in self._of_vm.get(vm, {}).values() if cleared or not fault.cleared]

    def clear(self, faults: Iterable[Fault]) -> int:
        """Marks faults as cleared, so that the next equal fault is a new entry; returns how many were not yet cleared."""
        count = 0
        for fault in faults:
            if not fault.cleared:
                fault.cleared = True
                self._open[fault.vm].pop(fault.key, None)
                count += 1
        return count


def kind_of(code: int) -> str | None:
    """Kind of a fault by its code in a record; None: the code is unknown."""
    return "user" if code >= USER else KINDS.get(code)
