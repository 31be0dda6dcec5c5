"""The drill: one fault after the other, and after each whether guests and host are as they should be."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.drill.clock import now, within
from tests.drill.faults import Effect, Fault, NoTargetError, Scene, schedule
from tests.drill.guest import Guest
from tests.drill.host import VMS, Host, descriptors, own_memory_kib

BOUND_S: Final = 60.0
"""Longest time until all is back after a fault, on a machine that does other work, too."""
_NEVER: Final = ("loop_error", "wrong_transition", "keeper_not_told", "keeper_lost")
"""Events of a daemon that no fault explains."""
_FDS_IN_WORK: Final = 8
"""Descriptors that a daemon or the keeper may have for the moment: of programs that are compiled, of messages."""
_GROWTH_KIB: Final = 256
"""Growth of the keeper that is no leak: it keeps room for its longest messages."""


@dataclass(slots=True)
class Row:
    """Outcomes of the faults of one kind."""

    times: int = 0
    lost: int = 0
    """Requests that did not end in success."""
    served_s: list[float] = field(default_factory=list)
    """Times until all guests and frontends were served again."""
    waited_s: float = 0.0
    """Longest time that a message of a frontend waited for its answer."""


@dataclass(frozen=True, slots=True)
class _Before:
    """Guests and host before a fault."""

    generations: Mapping[str, int]
    lost: Mapping[str, int]
    not_compiled: Mapping[str, int]
    serving: int
    """Daemons that have served so far."""
    wall_ns: int
    """Time on the clock of recorders."""
    begin: float
    """Time on the drill's clock."""


@dataclass(frozen=True, slots=True)
class _Account:
    """Requests that one worker has counted, and chains that the guest had got back by then."""

    generation: int
    done: int
    completed: int


class WrongError(Exception):
    """Something is not as it should be."""


def _expect(condition: object, why: str | Callable[[], str]) -> None:
    if not condition:
        raise WrongError(why if isinstance(why, str) else why())


class Drill:
    """A host with three guests. A context manager."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], object]) -> None:
        """`folder` is empty, and the drill's; `say` gets a line after each fault."""
        self.rows: dict[str, Row] = {}
        self._seed = seed
        self._say = say
        self._folder = folder
        self._dice = random.Random(f"{seed} dice")
        self._guests: list[Guest] = []
        self._accounts: dict[str, _Account] = {}
        self._keeper_fds: list[int] = []
        self._keeper_kib: list[int] = []
        self._daemon_fds: dict[int, int] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.host = Host(self._folder)
            stack.callback(self.host.close)
            self.host.begin()
            for number, name in enumerate(VMS):
                self._guests.append(stack.enter_context(Guest(name, self._folder, f"1{number}")))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, count: int) -> str:
        """Inflicts `count` faults; returns what was wrong first, with the seed and the fault's number, or ""."""
        number, name = 0, "none yet"
        try:
            self._look(Effect(), self._before())
            for number, fault in enumerate(schedule(self._seed, count), 1):
                name = fault.name
                self._say(f"{number}/{count} {name}: {self._inflict(fault)}")
        except (WrongError, NoTargetError, AssertionError) as error:
            return f"SEED={self._seed}, fault {number} ({name}): {error}"
        return self._leaks()

    def table(self) -> list[str]:
        """Lines of a table with a row for each kind of fault."""
        lines = [
            "| fault | times | lost requests | served again after, p50 | max | longest wait of a message |",
            "|---|---|---|---|---|---|",
        ]
        for name, row in sorted(self.rows.items()):
            p50, most = statistics.median(row.served_s), max(row.served_s)
            lines.append(f"| {name} | {row.times} | {row.lost} | {p50:.2f} s | {most:.2f} s | {row.waited_s:.2f} s |")
        every = list(self.rows.values())
        times, lost = sum(row.times for row in every), sum(row.lost for row in every)
        return [*lines, f"| all | {times} | {lost} | | | |"]

    def held(self) -> str:
        """Descriptors and memory of the keeper, and descriptors of daemons, from first to last."""
        daemons = list(self._daemon_fds.values())
        return (
            f"daemons: {len(daemons)}, descriptors of each: {_range(daemons)}; descriptors of the keeper:"
            f" {_range(self._keeper_fds)}; its own memory in KiB: {_range(self._keeper_kib)}"
        )

    # ---- one fault -------------------------------------------------------------------------------

    def _before(self) -> _Before:
        guests = self._guests
        return _Before(
            {guest.name: guest.generation for guest in guests},
            {guest.name: len(guest.lost) for guest in guests},
            {guest.name: len(guest.not_compiled) for guest in guests},
            self.host.vgcd.count("serving"),
            time.time_ns(),
            now(),
        )

    def _inflict(self, fault: Fault) -> str:
        for guest in self._guests:
            guest.spans.clear()
            guest.asked.clear()
        before = self._before()
        effect = fault.inflict(Scene(self.host, self._guests, self._dice))
        served_s = self._served(effect, before.begin)
        self._look(effect, before)
        lost = self._lost(effect, before)
        waited_s = max(end - start for guest in self._guests for start, end in list(guest.asked))
        row = self.rows.setdefault(fault.name, Row())
        row.times += 1
        row.lost += lost
        row.served_s.append(served_s)
        row.waited_s = max(row.waited_s, waited_s)
        return (
            f"served again after {served_s:.2f} s, messages waited {waited_s:.2f} s, {lost} lost, all back after"
            f" {now() - before.begin:.1f} s"
        )

    def _served(self, effect: Effect, begin: float) -> float:
        """Waits until each guest and each frontend has an answer to what it sent since `begin`, or since its worker was lost.

        Returns the longest time until then, from `begin` on, in seconds.
        """

        def ends() -> list[float]:
            found = []
            for guest in self._guests:
                since = begin
                if guest.name == effect.loses:
                    if guest.lost_at < begin:
                        return []
                    since = guest.lost_at
                for spans, sent in ((guest.spans, since), (guest.asked, begin)):
                    end = next((end for start, end in list(spans) if start >= sent), None)
                    if end is None:
                        return []
                    found.append(end)
            return found

        served = within(BOUND_S, lambda: ends() or self._wrong())
        _expect(not self._wrong(), self._wrong)
        _expect(served, lambda: f"not all are served again within {BOUND_S:g} s")
        return max(ends()) - begin

    def _wrong(self) -> str:
        return "; ".join(f"guest {guest.name}: {text}" for guest in self._guests for text in guest.wrong)

    def _look(self, effect: Effect, before: _Before) -> None:
        """Waits until all is back, and compares.

        :raise WrongError: something is not as it should be.
        """
        host = self.host
        if effect.takes_over:
            taken = within(BOUND_S, lambda: host.vgcd.count("serving") > before.serving)
            _expect(taken, lambda: "no daemon took over")
        self._wait_for_rounds()
        for guest in self._guests:
            self._compare_generation(guest, before.generations[guest.name], is_lost=guest.name == effect.loses)
        with self._paused():
            for guest in self._guests:
                self._compare_rings(guest)
                self._compare_account(guest)
        _expect(within(BOUND_S, self._centre_sees_all), lambda: f"the control centre shows {host.vms_of_centre()}")
        if effect.records:
            recorded = within(BOUND_S, lambda: host.recorded_ns() > before.wall_ns + 10**9)
            _expect(recorded, lambda: "the recorder writes nothing any more")
        for event in _NEVER:
            _expect(not host.events(event), f"vgcd logged {host.events(event)}")
        self._count()

    def _wait_for_rounds(self) -> None:
        """Waits until each guest has done a whole round, with right results, that it began from now on."""
        rounds = {guest.name: guest.rounds for guest in self._guests}
        done = within(
            BOUND_S,
            lambda: self._wrong() or all(guest.rounds > rounds[guest.name] + 1 for guest in self._guests),
        )
        _expect(not self._wrong(), self._wrong)
        _expect(done, lambda: "not all guests finish a round")

    def _lost(self, effect: Effect, before: _Before) -> int:
        """Number of requests that were lost by a fault.

        :raise WrongError: some were that it does not explain, or a guest was not told that its memory is gone.
        """
        total = 0
        for guest in self._guests:
            lost = guest.lost[before.lost[guest.name] :]
            failed = guest.not_compiled[before.not_compiled[guest.name] :]
            about = f"guest {guest.name} has lost {lost}, and was not compiled {failed}"
            _expect(bool(lost) == (guest.name == effect.loses), about)
            _expect(not failed or effect.kills_compiler, about)
            total += len(lost) + len(failed)
        return total

    # ---- comparisons -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        """Has no guest send anything while the block runs."""
        with contextlib.ExitStack() as stack:
            for guest in self._guests:
                stack.enter_context(guest.turn)
            yield

    def _compare_generation(self, guest: Guest, before: int, *, is_lost: bool) -> None:
        now_has = guest.generation
        _expect(
            now_has > before if is_lost else now_has == before,
            lambda: f"the worker of {guest.name} has generation {now_has} after {before}",
        )

    def _compare_rings(self, guest: Guest) -> None:
        """Each chain has come back once: as many as were given."""
        equal = within(BOUND_S, lambda: all(given == back for given, back in guest.indices))
        _expect(equal, lambda: f"rings of {guest.name}, chains given and back: {guest.indices}")

    def _compare_account(self, guest: Guest) -> None:
        """The device counts as many requests as its rings have given back, and as many arrays as the guest has."""
        completed = guest.completed
        usage = guest.device.usage()
        _expect(
            usage.num_allocations == guest.has_array,
            lambda: f"{guest.name} has {int(guest.has_array)} arrays, and the device counts {usage.num_allocations}",
        )
        account = _Account(usage.generation, usage.requests_done, completed)
        before = self._accounts.get(guest.name)
        self._accounts[guest.name] = account
        if before is not None and before.generation == account.generation:
            done, back = account.done - before.done, (completed - before.completed) % (1 << 16)
            _expect(
                done % (1 << 16) == back,
                lambda: f"{guest.name} has got {back} requests back, and the device counts {done}",
            )

    def _centre_sees_all(self) -> bool:
        vms = self.host.vms_of_centre()
        return all(
            vms[guest.name]["state"] == "ready" and vms[guest.name]["generation"] == guest.generation
            if guest.name in vms
            else False
            for guest in self._guests
        )

    # ---- leaks -----------------------------------------------------------------------------------

    def _count(self) -> None:
        daemon = self.host.vgcd.daemon
        with self._paused(), contextlib.suppress(FileNotFoundError):
            self._daemon_fds[daemon] = descriptors(daemon)
        self._keeper_fds.append(descriptors(self.host.keeper))
        self._keeper_kib.append(own_memory_kib(self.host.keeper))

    def _leaks(self) -> str:
        for what, counts, allowed in (
            ("descriptors of the keeper", self._keeper_fds, _FDS_IN_WORK),
            ("descriptors of daemons", list(self._daemon_fds.values()), _FDS_IN_WORK),
            ("KiB of the keeper", self._keeper_kib, _GROWTH_KIB),
        ):
            half = len(counts) // 2
            if half and min(counts[half:]) > min(counts[:half]) + allowed:
                return f"SEED={self._seed}: {what} grow, from {min(counts[:half])} to {min(counts[half:])} at least"
        return ""


def _range(counts: list[int]) -> str:
    return f"{min(counts)} to {max(counts)}, {counts[-1]} in the end" if counts else "none"
