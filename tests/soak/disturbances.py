"""Disturbances of a soak: daemons and workers are killed, VMs migrate, channels and snapshots are asked for."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tests.fakes.control_caller import ControlRefusedError
from tests.limits import ANSWERS_WITHIN_S
from tests.soak.account import Account
from tests.soak.guests import Guests
from tests.soak.host import PROBED, Operator, SoakHost

PAUSE_S: Final = (0.2, 1.5)
"""Shortest and longest time between two disturbances."""
LOOK_S: Final = 0.05
"""Time between two looks at a migration, or at a channel that is tailed."""
UPGRADE_PART: Final = 0.25
"""Part of the takeovers that an operator asks for; the others follow a daemon's death."""


class Takeovers(threading.Thread):
    """Replaces the daemon again and again while `wanted` is set."""

    def __init__(self, host: SoakHost, account: Account, every_s: float, stop: threading.Event) -> None:
        super().__init__(name="takeovers", daemon=True)
        self.wanted = threading.Event()
        self.done = threading.Event()
        """Set once the daemon has been replaced for the first time."""
        self._host = host
        self._account = account
        self._every_s = every_s
        self._stop_wanted = stop
        self._random = random.Random(1)

    def run(self) -> None:
        try:
            while not self._stop_wanted.wait(self._every_s):
                if self.wanted.is_set():
                    self._replace()
        except BaseException as error:  # noqa: BLE001  whatever it is, the run fails by it
            self._account.find(f"takeovers ended by {type(error).__name__}: {error}")

    def _replace(self) -> None:
        self._host.wait_spare()
        before = self._host.daemon
        if self._random.random() < UPGRADE_PART:
            self._host.keeper.send_signal(signal.SIGUSR2)
            self._account.happen("daemons upgraded")
        else:
            os.kill(before, signal.SIGKILL)
            self._account.happen("daemons killed")
        self._host.wait_served(before)
        self.done.set()


class Disturber(threading.Thread):
    """Does one thing after the other that an operator, a neighbour or a mishap may do."""

    def __init__(self, host: SoakHost, account: Account, guests: Sequence[Guests], stop: threading.Event) -> None:
        super().__init__(name="disturber", daemon=True)
        self._host = host
        self._account = account
        self._guests = guests
        self._stop_wanted = stop
        self._random = random.Random(2)

    def run(self) -> None:
        acts = {self._kill_worker: 1, self._migrate: 2, self._watch: 4, self._snapshot: 3}
        try:
            while not self._stop_wanted.wait(self._random.uniform(*PAUSE_S)):
                (act,) = self._random.choices(list(acts), list(acts.values()))
                with Operator(self._host.control) as operator:
                    act(operator)
        except BaseException as error:  # noqa: BLE001  whatever it is, the run fails by it
            self._account.find(f"the disturber ended by {type(error).__name__}: {error}")

    def _some_vm(self) -> str | None:
        return self._random.choice(self._guests).vm

    def _kill_worker(self, _operator: Operator) -> None:
        vm = self._some_vm()
        if vm is None or (worker := self._host.worker(vm)) is None:
            return
        self._account.expect_death(vm)
        with suppress(ProcessLookupError):  # it has ended already
            os.kill(worker, signal.SIGKILL)
            self._account.happen("workers killed")

    def _migrate(self, operator: Operator) -> None:
        """Migrates a VM to one or to two elements. A worker that dies, and another daemon, end the migration."""
        vm = self._some_vm() if self._random.random() < 0.7 else PROBED
        if vm is None:
            return
        try:
            number = operator.ask("migrate", vm=vm, pes=self._random.choice(("0", "0-1")))["migration"]
        except ControlRefusedError:
            self._account.happen("migrations refused")
            return
        daemon, end = self._host.daemon, time.monotonic() + ANSWERS_WITHIN_S
        while self._host.daemon == daemon:
            told = [row for row in operator.ask("migrations")["migrations"] if row["migration"] == number]
            if told and told[0]["ended_ns"] is not None:
                self._account.happen(f"migrations {told[0]['state']}")
                return
            if time.monotonic() > end:
                self._account.find(f"migration {number} of {vm} has not ended after {ANSWERS_WITHIN_S} s: {told}")
                return
            time.sleep(LOOK_S)
        self._account.happen("migrations ended by a takeover")

    def _watch(self, operator: Operator) -> None:
        """Opens channels, tails them for a while, and closes them, or leaves that to the end of the connection."""
        vm = self._some_vm() or PROBED
        function = self._random.choice(("log", "perf", "fault", "stdio"))
        try:
            instance = operator.ask("open", selector=f"vm={vm},fn={function}", slots=64)["instance"]
            operator.ask("subscribe", records=[instance])
            for _ in range(self._random.randint(1, 20)):
                operator.ask("ls", totals=True)
                time.sleep(LOOK_S)
            if self._random.random() < 0.5:
                operator.ask("close", instance=instance)
        except ControlRefusedError:  # the VM has left, or another daemon serves
            self._account.happen("channels refused")
            return
        self._account.happen("channels watched")

    def _snapshot(self, operator: Operator) -> None:
        picture: dict[str, Any] = operator.ask("snapshot", deadline_ms=1000)
        if len({(row["vm"], row["pe"]) for row in picture["pes"]}) != len(picture["pes"]):
            self._account.find(f"a snapshot has an element twice: {picture['pes']}")
        self._account.happen("snapshots")
