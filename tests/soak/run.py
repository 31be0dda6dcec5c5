"""Course of a soak: starts everything, samples it, ends it and settles the accounts."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.limits import ANSWERS_WITHIN_S
from tests.soak import report
from tests.soak.account import Account, record_problems, stored_by_vm
from tests.soak.disturbances import Disturber, Takeovers
from tests.soak.guests import Guests
from tests.soak.host import PROBED, Operator, SoakHost
from tests.soak.samples import Probe, Sample, take

PLACES: Final = 3
"""VMs that come and go at the same time."""
SAMPLES: Final = 360
"""Samples of a run, unless they would be closer than `MIN_EVERY_S`."""
MIN_EVERY_S: Final = 1.0
TAKEOVERS: Final = 60
"""Takeovers of a run, unless they would be closer than `MIN_TAKEOVER_S`."""
MIN_TAKEOVER_S: Final = 8.0
HANGS_S: Final = 2 * ANSWERS_WITHIN_S
"""Time after which a request counts as one that never ends; guests' own limit is the half of it."""
RECORDS_AFTER_S: Final = 120.0
"""Length of a run in which kernels have certainly written lines that the recorder gets."""
AGAIN_S: Final = 0.2


@dataclass
class Soak:
    """A run, and what it has found."""

    hours: float
    say: Callable[[str], None]
    takeover_s: float | None = None
    """Time between two takeovers; None: as fits the length."""
    account: Account = field(default_factory=Account)
    samples: list[Sample] = field(default_factory=list)
    length_s: float = 0.0
    """Time that it has really run."""

    def run(self, interrupted: threading.Event) -> bool:
        """Runs for `hours`, or until `interrupted` is set; returns True if nothing was found."""
        folder = Path(tempfile.mkdtemp(prefix="vgc-soak-"))
        try:
            with SoakHost(folder) as host:
                self._soak(host, interrupted)
            for error in host.errors:
                self.account.find(f"a daemon logs an error: {error}")
            self._say_events(host)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._report()
        return not self.account.findings

    def _soak(self, host: SoakHost, interrupted: threading.Event) -> None:
        stop = threading.Event()
        guests = [Guests(host, self.account, place, stop) for place in range(PLACES)]
        takeover_s = self.takeover_s or max(self.hours * 1800 / TAKEOVERS, MIN_TAKEOVER_S)
        takeovers = Takeovers(host, self.account, takeover_s, stop)
        threads = [*guests, takeovers, Disturber(host, self.account, guests, stop)]
        with ExitStack() as stack:
            probe = stack.enter_context(Probe(host))
            watcher = stack.enter_context(Operator(host.control))
            for thread in threads:
                thread.start()
            try:
                self._sample(host, probe, guests, takeovers, interrupted)
            finally:
                stop.set()
                self._join(threads)
            self._settle(host, watcher)

    def _sample(
        self,
        host: SoakHost,
        probe: Probe,
        guests: list[Guests],
        takeovers: Takeovers,
        interrupted: threading.Event,
    ) -> None:
        begin, length = time.monotonic(), self.hours * 3600
        every, said = max(length / SAMPLES, MIN_EVERY_S), 0.0
        takeovers.wanted.set()
        while (now := time.monotonic() - begin) < length or (takeovers.is_alive() and not takeovers.done.is_set()):
            if now > length / 2 and takeovers.done.is_set():
                takeovers.wanted.clear()
            self.samples.append(take(host, probe, begin, replaces=takeovers.wanted.is_set()))
            host.scrape()
            if now - said >= 60:
                said = now
                self._say_progress(now)
            hung = [one.name for one in guests if one.asked_at and time.monotonic() - one.asked_at > HANGS_S]
            if hung:
                self.account.find(f"requests of {', '.join(hung)} have not ended after {HANGS_S:g} s")
                break
            if interrupted.wait(max(every - (time.monotonic() - begin - now), 0)):
                break
        self.length_s = time.monotonic() - begin

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(HANGS_S)
            if thread.is_alive():
                self.account.find(f"{thread.name} has not ended {HANGS_S:g} s after it should")

    # ---- accounts --------------------------------------------------------------------------------

    def _settle(self, host: SoakHost, operator: Operator) -> None:
        """Compares all accounts once nothing happens any more."""
        self.account.check_ended()
        self._await(lambda: [f"{vm} is still served" for vm in operator.vms() - {PROBED}])
        self._await(lambda: self._records(host))

    def _await(self, problems: Callable[[], list[str]]) -> None:
        """Lets problems pass that pass by themselves, such as records that the recorder has yet to store."""
        end = time.monotonic() + ANSWERS_WITHIN_S
        while (left := problems()) and time.monotonic() < end:
            time.sleep(AGAIN_S)
        for problem in left:
            self.account.find(problem)

    def _records(self, host: SoakHost) -> list[str]:
        accounts = host.ask_centre("accounts")
        if self.length_s > RECORDS_AFTER_S and not any(row["kept"] for row in accounts):
            return ["no records were kept"]

        def stored(selector: str) -> tuple[int, int]:
            pieces = host.ask_centre(f"timeline?bins=1&selector={selector}")
            return sum(sum(piece["records"].values()) for piece in pieces), sum(piece["lost"] for piece in pieces)

        return record_problems(accounts, stored_by_vm([row["vm"] for row in accounts], stored))

    # ---- words -----------------------------------------------------------------------------------

    def _say_progress(self, now: float) -> None:
        figures, values = self.account.figures, self.samples[-1].values
        memory = ", ".join(f"{name} {value:.0f}" for name, value in values.items() if name.endswith(" MiB"))
        replaced = figures.get("daemons killed", 0) + figures.get("daemons upgraded", 0)
        self.say(
            f"{now / 60:5.1f} min: {figures['requests done']} requests done, {figures['requests lost']} lost, "
            f"{figures['requests failed']} failed; {replaced} takeovers; {memory}; "
            f"null request {values['null request p50 us']:.0f} us; {len(self.account.findings)} findings"
        )

    def _say_events(self, host: SoakHost) -> None:
        self.say("events of the daemons: " + ", ".join(f"{name} {count}" for name, count in host.events.most_common()))

    def _report(self) -> None:
        found = report.trends(self.samples)
        for finding in report.growing(found):
            self.account.find(finding)
        self.say("\n".join(report.lines(found)))
        self.say("rule: " + report.RULE)
        self.say("; ".join(f"{name} {count}" for name, count in self.account.figures.items()))
        for finding in self.account.findings:
            self.say(f"FOUND: {finding}")
        self.say(f"{self.length_s / 60:.1f} minutes, {len(self.account.findings)} findings")
