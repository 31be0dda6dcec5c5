"""Checks small concurrent programs against the memory models of AArch64, RISC-V and x86: every execution that a model allows.

Programs are litmus tests in the form that herd7 reads, in a subset of AArch64's instructions. The models are the axiomatic
ones of the architectures' manuals, without atomic read-modify-writes and accesses of mixed sizes, which rings do not have:

- AArch64: aarch64.cat of the Arm Architecture Reference Manual, section B2.3 (Pulte et al., POPL 2018).
- RISC-V: RVWMO, chapter 17 of the unprivileged manual. A store-release is ``fence rw,w`` before a store, a load-acquire a
  load before ``fence r,rw``, as C compilers make them.
- x86: TSO (Owens et al., 2009). The s390x of z/Architecture orders memory in the same way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

Kind = Literal["R", "W", "F"]
Relation = set[tuple[int, int]]


class LitmusError(ValueError):
    """Program that this checker cannot read; the text names the line, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; fields that its operation does not use are empty."""

    operation: str
    register: str = ""
    operand: str = ""
    """Register that holds the address, immediate value, or label."""


@dataclass(frozen=True, slots=True)
class Litmus:
    """Program: code of each thread, initial registers, and what is asked about its end."""

    name: str
    threads: list[list[Instruction]]
    registers: list[dict[str, str]]
    """Location whose address each register holds, of each thread."""
    condition: dict[tuple[int, str], int]
    """Values of registers, by thread and name, that an execution must have to count."""


@dataclass(frozen=True, slots=True)
class Event:
    """Access to memory, or fence, of one thread."""

    number: int
    thread: int
    """-1: the initial value."""
    kind: Kind
    location: str = ""
    value: int = 0
    is_ordered: bool = False
    """Acquire or release."""
    register: str = ""
    controls: tuple[int, ...] = ()
    """Loads on whose values it depends whether this event happens."""
    data: tuple[int, ...] = ()
    """Loads from which its value comes."""


@dataclass(slots=True)
class _State:
    registers: dict[str, int] = field(default_factory=dict)
    sources: dict[str, tuple[int, ...]] = field(default_factory=dict)
    controls: tuple[int, ...] = ()
    events: list[Event] = field(default_factory=list)


class Trace(NamedTuple):
    """Events of a thread for some values of its loads, and its registers at the end."""

    events: list[Event]
    registers: dict[str, int]


# ---- reading -------------------------------------------------------------------------------------

_FORMS: Final = {
    "MOV": r"MOV ([WX]\d+),#(\d+)",
    "STR": r"STR[H]? (W\d+),\[X(\d+)\]",
    "STLR": r"STLR[H]? (W\d+),\[X(\d+)\]",
    "LDR": r"LDR[H]? (W\d+),\[X(\d+)\]",
    "LDAR": r"LDAR[H]? (W\d+),\[X(\d+)\]",
    "CBZ": r"CBZ (W\d+),(L\w+)",
    "CBNZ": r"CBNZ (W\d+),(L\w+)",
    "LABEL": r"(L\w+):",
    "DMB": r"DMB (ISH)",
}


def _instruction(text: str) -> Instruction | None:
    if not text:
        return None
    for operation, form in _FORMS.items():
        if found := re.fullmatch(form, text):
            if operation in ("LABEL", "DMB"):
                return Instruction(operation, operand=found[1])
            return Instruction(operation, found[1], found[2])
    raise LitmusError(f"{text!r}; allowed: {', '.join(_FORMS)}, as MOV W0,#1, STLRH W0,[X1], CBZ W0,L0, L0:, DMB ISH")


def parse(text: str) -> Litmus:
    """Reads a litmus test.

    :raise LitmusError: it has something that this checker does not know.
    """
    head = re.match(r"AArch64 (\S+)\n", text)
    initial = re.search(r"\{(.*?)\}", text, re.DOTALL)
    ending = re.search(r"exists \((.*?)\)", text, re.DOTALL)
    if head is None or initial is None or ending is None:
        raise LitmusError("allowed: a first line 'AArch64 NAME', initial registers in braces, and an 'exists (...)'")
    rows = [
        [cell.strip() for cell in line.rstrip().rstrip(";").split("|")]
        for line in text[initial.end() : ending.start()].splitlines()
        if line.strip()
    ]
    count = len(rows[0])
    threads: list[list[Instruction]] = [[] for _ in range(count)]
    for row in rows[1:]:
        for thread, cell in zip(threads, row, strict=True):
            if instruction := _instruction(cell):
                thread.append(instruction)
    registers: list[dict[str, str]] = [{} for _ in range(count)]
    for thread, register, location in re.findall(r"(\d+):(X\d+)=(\w+);", initial[1]):
        registers[int(thread)][register] = location
    condition = {
        (int(thread), register.replace("X", "W")): int(value)
        for thread, register, value in re.findall(r"(\d+):([XW]\d+)=(\d+)", ending[1])
    }
    return Litmus(head[1], threads, registers, condition)


# ---- executions ----------------------------------------------------------------------------------


def _values(litmus: Litmus) -> list[int]:
    """All values that memory may ever hold."""
    return sorted({0} | {int(i.operand) for thread in litmus.threads for i in thread if i.operation == "MOV"})


def _access(litmus: Litmus, thread: int, instruction: Instruction) -> tuple[str, bool]:
    """Location of an access, and whether it is an acquire or release."""
    is_ordered = instruction.operation in ("STLR", "LDAR")
    return litmus.registers[thread][f"X{instruction.operand}"], is_ordered


def _traces(litmus: Litmus, thread: int, first: int) -> Iterator[Trace]:
    """All courses of a thread, whatever its loads give; its events are numbered from `first` on."""
    code = litmus.threads[thread]
    loads = sum(i.operation in ("LDR", "LDAR") for i in code)
    for given in itertools.product(_values(litmus), repeat=loads):
        trace = _run(litmus, thread, first, iter(given))
        if trace is not None:
            yield trace


def _run(litmus: Litmus, thread: int, first: int, given: Iterator[int]) -> Trace | None:
    """One course; None if values are left over that are not 0: it is that of other values."""
    code = litmus.threads[thread]
    state = _State()
    at = 0
    while at < len(code):
        instruction = code[at]
        at += 1
        number = first + len(state.events)
        match instruction.operation:
            case "MOV":
                register = instruction.register.replace("X", "W")
                state.registers[register], state.sources[register] = int(instruction.operand), ()
            case "DMB":
                state.events.append(Event(number, thread, "F", controls=state.controls))
            case "STR" | "STLR":
                location, is_ordered = _access(litmus, thread, instruction)
                value, data = state.registers[instruction.register], state.sources[instruction.register]
                state.events.append(
                    Event(number, thread, "W", location, value, is_ordered, controls=state.controls, data=data)
                )
            case "LDR" | "LDAR":
                location, is_ordered = _access(litmus, thread, instruction)
                value, register = next(given), instruction.register
                state.registers[register], state.sources[register] = value, (number,)
                state.events.append(Event(number, thread, "R", location, value, is_ordered, register, state.controls))
            case "CBZ" | "CBNZ":
                state.controls += state.sources[instruction.register]
                if (state.registers[instruction.register] == 0) == (instruction.operation == "CBZ"):
                    at = code.index(Instruction("LABEL", operand=instruction.operand))
            case _:  # a label
                pass
    return None if any(given) else Trace(state.events, state.registers)


@dataclass(frozen=True, slots=True)
class Execution:
    """Candidate: events of all threads, which store each load reads from, and the order of stores to each location."""

    events: dict[int, Event]
    program: Relation
    reads_from: Relation
    coherence: Relation

    @property
    def from_reads(self) -> Relation:
        """Loads before the stores that overwrite what they have read."""
        return {(r, late) for w, r in self.reads_from for early, late in self.coherence if early == w}

    def are(self, pairs: Relation, first: str, second: str) -> Relation:
        """Pairs whose events have these kinds: R, W, F, M (R or W), A (acquire), L (release)."""
        return {(a, b) for a, b in pairs if self._is(a, first) and self._is(b, second)}

    def _is(self, number: int, kind: str) -> bool:
        event = self.events[number]
        match kind:
            case "M":
                return event.kind != "F"
            case "A":
                return event.kind == "R" and event.is_ordered
            case "L":
                return event.kind == "W" and event.is_ordered
            case _:
                return event.kind == kind

    def external(self, pairs: Relation) -> Relation:
        """Pairs of different threads."""
        return {(a, b) for a, b in pairs if self.events[a].thread != self.events[b].thread}

    def local(self, pairs: Relation) -> Relation:
        """Pairs of one location."""
        return {(a, b) for a, b in pairs if self.events[a].location == self.events[b].location}

    def through_fence(self) -> Relation:
        """Pairs in program order with a full fence between them."""
        fences = self.are(self.program, "M", "F")
        return {(a, c) for a, f in fences for g, c in self.are(self.program, "F", "M") if f == g}

    def dependencies(self) -> tuple[Relation, Relation]:
        """From loads to what their values decide: whether it happens, and what it stores."""
        controls = {(load, e.number) for e in self.events.values() for load in e.controls}
        return controls, {(load, e.number) for e in self.events.values() for load in e.data}


def _sequence(first: Relation, second: Relation) -> Relation:
    return {(a, d) for a, b in first for c, d in second if b == c}


def is_acyclic(relation: Relation) -> bool:
    """Whether no event comes before itself."""
    left = set(relation)
    while left:
        sources = {a for a, _ in left}
        kept = {(a, b) for a, b in left if b in sources}
        if kept == left:
            return False
        left = kept
    return True


def executions(litmus: Litmus) -> Iterator[Execution]:
    """All candidates that satisfy the test's condition, before a model judges them."""
    longest = max(len(code) for code in litmus.threads)
    firsts = [100 + thread * longest for thread in range(len(litmus.threads))]
    for traces in itertools.product(*(list(_traces(litmus, t, first)) for t, first in enumerate(firsts))):
        if all(
            traces[thread].registers.get(register) == value for (thread, register), value in litmus.condition.items()
        ):
            yield from _candidates(traces)


def _candidates(traces: tuple[Trace, ...]) -> Iterator[Execution]:
    events = {event.number: event for trace in traces for event in trace.events}
    locations = sorted({event.location for event in events.values() if event.kind != "F"})
    initial = {location: -1 - index for index, location in enumerate(locations)}
    events |= {number: Event(number, -1, "W", location) for location, number in initial.items()}
    program = {(a.number, b.number) for trace in traces for a, b in itertools.combinations(trace.events, 2)}
    stores = {place: [e for e in events.values() if e.kind == "W" and e.location == place] for place in locations}
    loads = [event for event in events.values() if event.kind == "R"]
    choices = [[w.number for w in stores[load.location] if w.value == load.value] for load in loads]
    orders = [
        [(initial[place], *order) for order in itertools.permutations(w.number for w in stores[place] if w.thread >= 0)]
        for place in locations
    ]
    for chosen, ordered in itertools.product(itertools.product(*choices), itertools.product(*orders)):
        reads_from = {(store, load.number) for store, load in zip(chosen, loads, strict=True)}
        coherence = {pair for order in ordered for pair in itertools.combinations(order, 2)}
        yield Execution(events, program, reads_from, coherence)


# ---- models --------------------------------------------------------------------------------------


def _is_coherent(run: Execution) -> bool:
    """Each location alone behaves as if its accesses came one after another."""
    accesses = run.local(run.are(run.program, "M", "M"))
    return is_acyclic(accesses | run.reads_from | run.coherence | run.from_reads)


def allows_aarch64(run: Execution) -> bool:
    """External visibility and coherence of aarch64.cat."""
    controls, data = run.dependencies()
    own_reads = run.reads_from - run.external(run.reads_from)
    own_order = run.coherence - run.external(run.coherence)
    depends = data | run.are(controls, "R", "W") | _sequence(data, own_reads) | _sequence(controls | data, own_order)
    barriers = run.through_fence() | run.are(run.program, "L", "A") | run.are(run.program, "A", "M")
    barriers |= run.are(run.program, "M", "L") | _sequence(run.are(run.program, "M", "L"), own_order)
    observed = run.external(run.reads_from) | run.external(run.coherence) | run.external(run.from_reads)
    return _is_coherent(run) and is_acyclic(observed | depends | barriers)


def allows_riscv(run: Execution) -> bool:
    """RVWMO's global memory order, with its rules of preserved program order 1, 2, 4 and 9 to 13."""
    controls, data = run.dependencies()
    own_reads = run.reads_from - run.external(run.reads_from)
    same = run.local(run.are(run.program, "M", "M"))
    sources = {load: store for store, load in run.reads_from}
    preserved = run.are(same, "M", "W")
    between = _sequence(run.are(same, "R", "W"), run.are(same, "W", "R"))
    preserved |= {(a, b) for a, b in run.are(same, "R", "R") - between if sources[a] != sources[b]}
    preserved |= run.through_fence() | run.are(run.program, "A", "M") | run.are(run.program, "M", "L")
    preserved |= data | run.are(controls, "R", "W") | _sequence(data, own_reads)
    observed = run.external(run.reads_from) | run.coherence | run.from_reads
    return _is_coherent(run) and is_acyclic(observed | preserved)


def allows_x86(run: Execution) -> bool:
    """TSO: only a load may come before an earlier store of another location."""
    accesses = run.are(run.program, "M", "M")
    preserved = (accesses - run.are(accesses, "W", "R")) | run.through_fence()
    observed = run.external(run.reads_from) | run.coherence | run.from_reads
    return _is_coherent(run) and is_acyclic(observed | preserved)


MODELS: Final[dict[str, Callable[[Execution], bool]]] = {
    "aarch64": allows_aarch64,
    "riscv64": allows_riscv,
    "x86_64": allows_x86,
}


def is_allowed(litmus: Litmus, machine: str) -> bool:
    """Whether an execution that satisfies the test's condition may happen on this machine."""
    return any(MODELS[machine](run) for run in executions(litmus))
