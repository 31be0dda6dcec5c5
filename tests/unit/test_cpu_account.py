"""Account of a worker's CPU time, on a clock and with requests that the test plays."""

from __future__ import annotations

from typing import Final, cast

from vhost_backend.daemon.cpu_account import HELPERS, CpuAccount, CpuTime
from vhost_backend.daemon.inflight import Requests
from vhost_backend.daemon.worker_clock import WorkerClock
from vhost_backend.worker_protocol.budgets import STRAY_BURST_S, STRAY_SHARE

PES: Final = 2
UNFINISHED_S: Final = 20.0
LOOK_S: Final = 0.25


class Stage:
    """A worker whose CPU clock, requests and daemon the test plays."""

    def __init__(self, num_pes: int | None = PES, counted_ns: int = 0) -> None:
        self.now_s = 100.0
        self.cpu: int | None = 7 * 10**9
        self.requests = Requests(b"0", any_in_flight=False)
        self.total = CpuTime()
        self.account = CpuAccount(
            cast("WorkerClock", self),
            self.total,
            lambda: self.requests,
            num_pes=num_pes,
            patience_s=UNFINISHED_S,
            now_s=lambda: self.now_s,
            counted_ns=counted_ns,
        )

    def cpu_ns(self) -> int | None:
        return self.cpu

    def goes_on(self, seconds: float, cores: float, *, finishing: bool = False, is_busy: bool = False) -> None:
        """Has the worker use processors for a while, with looks as often as the daemon looks."""
        for _ in range(round(seconds / LOOK_S)):
            assert self.cpu is not None
            self.now_s += LOOK_S
            self.cpu += int(cores * LOOK_S * 1e9)
            if finishing:
                self.requests = Requests(self.requests.mark + b"1", self.requests.any_in_flight)
            self.account.count(is_busy=is_busy)

    def claims_a_launch(self) -> None:
        self.requests = Requests(b"launch", any_in_flight=True)


def test_all_time_is_counted_from_the_start_of_the_worker() -> None:
    stage = Stage()
    stage.goes_on(1.0, 0.5)
    assert stage.total == CpuTime(7_500_000_000, 500_000_000)


def test_time_that_an_earlier_daemon_has_counted_counts_once() -> None:
    stage = Stage(counted_ns=6 * 10**9)
    stage.goes_on(1.0, 0.5)
    assert stage.total.used_ns == 1_500_000_000
    assert stage.account.counted_ns == 7_500_000_000


def test_time_without_requests_is_a_fault_when_the_burst_is_used_up() -> None:
    stage = Stage()
    stage.goes_on(STRAY_BURST_S - LOOK_S, 1.0)
    assert not stage.account.fault()
    stage.goes_on(2 * LOOK_S, 1.0)
    assert stage.account.fault() == "used 2.2 s of CPU time that no request of its guest explains"


def test_a_little_time_without_requests_is_never_a_fault() -> None:
    stage = Stage()
    stage.goes_on(3600, STRAY_SHARE * 0.9)
    assert not stage.account.fault()
    assert stage.total.stray_ns > 300 * 10**9, "it is shown, all the same"


def test_requests_explain_the_time_of_the_elements_and_helpers() -> None:
    stage = Stage()
    stage.goes_on(3600, PES + HELPERS, finishing=True)
    assert stage.total.stray_ns == 0
    stage.goes_on(60, PES + HELPERS + 1, finishing=True)
    assert stage.total.stray_ns == 60 * 10**9
    assert stage.account.fault()


def test_a_launch_explains_time_until_it_is_long_overdue() -> None:
    stage = Stage()
    stage.claims_a_launch()
    stage.goes_on(UNFINISHED_S, PES)
    assert stage.total.stray_ns == 0
    stage.goes_on(STRAY_BURST_S, PES)
    assert stage.account.fault()


def test_a_launch_that_waits_without_using_time_is_no_fault() -> None:
    stage = Stage()
    stage.claims_a_launch()
    stage.goes_on(3600, 0.0)
    assert not stage.account.fault()


def test_work_for_the_daemon_explains_time() -> None:
    stage = Stage()
    stage.goes_on(60, 1.0, is_busy=True)
    assert stage.total.stray_ns == 0


def test_nothing_is_policed_where_guest_code_runs_elsewhere() -> None:
    stage = Stage(num_pes=None)
    stage.goes_on(60, 8.0)
    assert stage.total == CpuTime(487 * 10**9, 0)
    assert not stage.account.fault()


def test_a_worker_that_is_gone_uses_nothing() -> None:
    stage = Stage()
    stage.cpu = None
    stage.account.count()
    assert stage.total.used_ns == 7 * 10**9
