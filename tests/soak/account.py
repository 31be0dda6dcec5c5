"""Account of a soak: requests by how they ended, happenings, and findings, from many threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

MAX_FINDINGS: Final = 200


class End(Enum):
    """Ways in which a request ends."""

    DONE = "done"
    REFUSED = "refused"
    """A bad request got the error that it must get."""
    FAULTED = "faulted"
    """A kernel that does something forbidden got the error that names it."""
    LOST = "lost"
    """The worker was killed meanwhile."""
    FAILED = "failed"
    """Any other error, which is a finding."""


class Account:
    """Counts. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = 0
        self._ends: Counter[End] = Counter()
        self._happened: Counter[str] = Counter()
        self._findings: list[str] = []
        self._deaths: Counter[str] = Counter()

    def begin(self) -> None:
        """Counts a request that is about to be sent."""
        with self._lock:
            self._begun += 1

    def end(self, how: End) -> None:
        """Counts a request that has ended."""
        with self._lock:
            self._ends[how] += 1

    def happen(self, what: str) -> None:
        """Counts anything else: a life, a kill, a migration."""
        with self._lock:
            self._happened[what] += 1

    def expect_death(self, vm: str) -> None:
        """Notes that a VM's worker is about to end for a reason that the soak gives."""
        with self._lock:
            self._deaths[vm] += 1

    def deaths(self, vm: str) -> int:
        with self._lock:
            return self._deaths[vm]

    def forget(self, vm: str) -> None:
        """Forgets a VM that has left: the soak's own memory must not grow, either."""
        with self._lock:
            self._deaths.pop(vm, None)

    def find(self, text: str) -> None:
        """Notes something that must not be. The run fails by it."""
        with self._lock:
            if len(self._findings) < MAX_FINDINGS:
                self._findings.append(text)

    @property
    def findings(self) -> list[str]:
        with self._lock:
            return list(self._findings)

    def happened(self, what: str) -> int:
        with self._lock:
            return self._happened[what]

    @property
    def figures(self) -> dict[str, int]:
        """All counts by name."""
        with self._lock:
            ends = {f"requests {end.value}": self._ends[end] for end in End}
            return {"requests begun": self._begun, **ends, **dict(sorted(self._happened.items()))}

    def check_ended(self) -> None:
        """Finds requests that have begun and not ended. To be called once all guests have left."""
        with self._lock:
            open_requests = self._begun - self._ends.total()
        if open_requests:
            self.find(f"{open_requests} of {self._begun} requests never ended")


def stored_by_vm(vms: Iterable[str], stored: Callable[[str], tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Records and losses in a recorder's store, by VM; "" are those of all others, which share an account.

    `stored`: gives both for what a selector, quoted for a URL, chooses; for "", of all VMs.
    """
    found = {vm: stored(f"vm%3D{vm}") for vm in vms if vm}
    kept, lost = stored("")
    others = kept - sum(one for one, _ in found.values()), lost - sum(one for _, one in found.values())
    return {**found, "": others}


def record_problems(accounts: list[Mapping[str, int | str]], stored: Mapping[str, tuple[int, int]]) -> list[str]:
    """Compares a recorder's accounts with its store; returns what does not add up.

    `stored`: records and losses that the store has, by VM.
    """
    problems = []
    for row in accounts:
        vm, made, kept, lost, left_out = (row[key] for key in ("vm", "made", "kept", "lost", "left_out"))
        if made != int(kept) + int(lost) + int(left_out):
            problems.append(f"records of {vm}: {made} made, but {kept} kept + {lost} lost + {left_out} left out")
        there = stored.get(str(vm), (0, 0))
        if there != (kept, lost):
            problems.append(
                f"records of {vm}: {kept} kept and {lost} lost by the account, {there[0]} and {there[1]} in the store"
            )
    return problems
