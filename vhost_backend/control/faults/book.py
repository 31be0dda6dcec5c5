"""Fault book: faults of VMs and processing elements, with counts and advice.

Equal faults of one processing element are one entry with a count. People clear entries. The history is bounded for
each VM, so that a VM with endless faults pushes out only its own. Faults come from records of the fault function, from
workers' deaths, from snapshots (hung processing elements) and from the device (Xid).

Occurrences are counted by VM and kind, too, so that the counts grow whatever entries are pushed out. All of it is with the
keeper: another daemon goes on with the book.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from vhost_backend.control.faults.records import BookRecord, FaultPage, FaultRecord, FaultsOfVm
from vhost_backend.keeper.record import Record, unpack
from vhost_backend.keeper.shelf import Shelf
from virtio_proto.control.api import FaultInfo

MAX_PER_VM: Final = 512
PAGE: Final = 16
"""Entries of a VM that are one record at the keeper: with the longest texts, they fit a packet."""
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
    page: int
    """Number of the VM's page at the keeper that has the entry."""
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


@dataclass(slots=True)
class _OfVm:
    """Part of the book about one VM."""

    entries: OrderedDict[int, Fault] = field(default_factory=OrderedDict)
    """By number."""
    open: dict[Key, Fault] = field(default_factory=dict)
    """Entries that are not cleared; equal faults are counted in them."""
    entered: int = 0
    """Entries so far."""
    counts: Counter[str] = field(default_factory=Counter)
    """Occurrences so far, by kind."""
    hung: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Launch and block in which each processing element was found hung."""
    changed: set[int] = field(default_factory=set)
    """Pages that the keeper does not have as they are."""


class FaultBook:
    """All faults of a host. `on_fault` is called with each fault and its number of new occurrences, once it is entered."""

    def __init__(self, on_fault: Callable[[Fault, int], None], shelf: Shelf | None = None) -> None:
        """`shelf`: of the book at the keeper, out of which it is read; None: it ends with the daemon."""
        self._on_fault = on_fault
        self._shelf = shelf or Shelf("faults")
        self._vms: dict[str, _OfVm] = {}
        self._next = 1
        self._changed: dict[str, None] = {}
        """VMs of which the keeper does not have all, in the order of their changes."""
        self._read()

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
        of_vm = self._vms.setdefault(vm, _OfVm())
        of_vm.counts[kind] += count
        fault = of_vm.open.get((pe, kind, xid, text))
        if fault is not None:
            fault.count += count
            fault.last_ns = max(fault.last_ns, time_ns)
        else:
            advice = advice or ADVICE.get(kind, "")
            page, of_vm.entered = of_vm.entered // PAGE, of_vm.entered + 1
            fault = Fault(self._next, gpu, vm, pe, kind, text, xid, advice, time_ns, time_ns, page, count)
            self._next += 1
            of_vm.entries[fault.number] = of_vm.open[fault.key] = fault
            self._bound(of_vm)
        self._note_change(fault)
        self._on_fault(fault, count)
        return fault

    def _bound(self, of_vm: _OfVm) -> None:
        """Forgets the oldest cleared entry of a VM with too many entries, or its oldest if none is cleared."""
        entries = of_vm.entries
        if len(entries) <= MAX_PER_VM:
            return
        oldest = next((fault for fault in entries.values() if fault.cleared), next(iter(entries.values())))
        del entries[oldest.number]
        if of_vm.open.get(oldest.key) is oldest:
            del of_vm.open[oldest.key]
        of_vm.changed.add(oldest.page)

    def of(self, vm: str, *, cleared: bool = False) -> list[Fault]:
        """Faults of a VM, by number; with `cleared` including cleared ones."""
        of_vm = self._vms.get(vm)
        return [] if of_vm is None else [fault for fault in of_vm.entries.values() if cleared or not fault.cleared]

    def counts(self, vm: str) -> Mapping[str, int]:
        """Occurrences of faults of a VM so far, by kind: also those of entries that were pushed out."""
        of_vm = self._vms.get(vm)
        return {} if of_vm is None else of_vm.counts

    def clear(self, faults: Iterable[Fault]) -> int:
        """Marks faults as cleared, so that the next equal fault is a new entry; returns how many were not yet cleared."""
        count = 0
        for fault in faults:
            if not fault.cleared:
                fault.cleared = True
                self._vms[fault.vm].open.pop(fault.key, None)
                self._note_change(fault)
                count += 1
        return count

    def forget(self, vm: str) -> None:
        """Forgets a VM that has left: a new VM of its name begins without faults."""
        if self._vms.pop(vm, None) is not None:
            self._changed.pop(vm, None)
            self._shelf.set({f"vm/{vm}": None})

    # ---- hung processing elements ----------------------------------------------------------------

    def is_new_hang(self, vm: str, pe: int, launch: int, block: int) -> bool:
        """Notes that an element is hung in a block; false: that was noted before."""
        of_vm = self._vms.setdefault(vm, _OfVm())
        if of_vm.hung.get(pe) == (launch, block):
            return False
        of_vm.hung[pe] = (launch, block)
        self._changed[vm] = None
        return True

    def forget_hangs(self, vm: str) -> None:
        """Forgets in which blocks elements of a VM are hung: its worker is gone."""
        of_vm = self._vms.get(vm)
        if of_vm is not None and of_vm.hung:
            of_vm.hung.clear()
            self._changed[vm] = None

    # ---- at the keeper ---------------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """True if another daemon goes on with the book."""
        return self._shelf.is_kept

    def save(self) -> None:
        """Leaves all that has changed with the keeper."""
        records: dict[str, Record | None] = {"book": BookRecord(self._next)}
        for vm in self._changed:
            of_vm = self._vms[vm]
            records[f"vm/{vm}"] = FaultsOfVm(of_vm.entered, dict(of_vm.counts), dict(of_vm.hung))
            pages: dict[int, list[FaultRecord]] = {page: [] for page in of_vm.changed}
            for fault in of_vm.entries.values() if pages else ():
                if fault.page in pages:
                    pages[fault.page].append(_record(fault))
            records |= {
                f"vm/{vm}/{page}": FaultPage(tuple(faults)) if faults else None for page, faults in pages.items()
            }
            of_vm.changed.clear()
        if self._changed:
            self._changed.clear()
            self._shelf.set(records)

    def _note_change(self, fault: Fault) -> None:
        self._changed[fault.vm] = None
        self._vms[fault.vm].changed.add(fault.page)

    def _read(self) -> None:
        """Reads what an earlier daemon has left."""
        faults: list[Fault] = []
        for key, entry in self._shelf.take().items():
            match key.split("/"):
                case ["book"]:
                    self._next = unpack(entry.blob, BookRecord).next
                case ["vm", vm]:
                    told, of_vm = unpack(entry.blob, FaultsOfVm), self._vms.setdefault(vm, _OfVm())
                    of_vm.entered, of_vm.counts, of_vm.hung = told.entered, Counter(told.counts), told.hung
                case ["vm", vm, page]:
                    faults += [_fault(vm, int(page), record) for record in unpack(entry.blob, FaultPage).faults]
        for fault in sorted(faults, key=lambda fault: fault.number):
            of_vm = self._vms.setdefault(fault.vm, _OfVm())
            of_vm.entries[fault.number] = fault
            if not fault.cleared:
                of_vm.open[fault.key] = fault


def _record(fault: Fault) -> FaultRecord:
    return FaultRecord(
        fault.number,
        fault.gpu,
        fault.pe,
        fault.kind,
        fault.text,
        fault.xid,
        fault.advice,
        fault.time_ns,
        fault.last_ns,
        fault.count,
        fault.cleared,
        fault.told_ns,
    )


def _fault(vm: str, page: int, record: FaultRecord) -> Fault:
    return Fault(
        record.number,
        record.gpu,
        vm,
        record.pe,
        record.kind,
        record.text,
        record.xid,
        record.advice,
        record.time_ns,
        record.last_ns,
        page,
        record.count,
        record.cleared,
        record.told_ns,
    )


def kind_of(code: int) -> str | None:
    """Kind of a fault by its code in a record; None: the code is unknown."""
    return "user" if code >= USER else KINDS.get(code)
