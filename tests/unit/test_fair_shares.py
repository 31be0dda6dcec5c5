"""Shares of processors: how they are divided, and weights that are corrected until each VM has had its share."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.fakes import cgroup_home
from tests.waiting import turns_until, until
from vhost_backend.cgroups.limits import MAX_WEIGHT, Limits
from vhost_backend.cgroups.versions import V1, V2
from vhost_backend.cores import threads
from vhost_backend.cores.pool import CorePool, Place
from vhost_backend.cores.shares import MOST, Debts, Use, divide
from vhost_backend.cores.threads import Times
from vhost_backend.daemon.fair_shares import Competitor, FairShares
from vhost_backend.quarters import NOWHERE, Quarters, Weight

PERIOD_S = 0.1


@pytest.mark.parametrize(
    ("total", "claims", "parts"),
    [
        (2.0, [(100, 9), (100, 9)], [1.0, 1.0]),
        (2.0, [(100, 9), (300, 9)], [0.5, 1.5]),
        (2.0, [(300, 1), (100, 2)], [1.0, 1.0]),
        (2.0, [(100, 0.1), (100, 9), (300, 9)], [0.1, 0.475, 1.425]),
        (4.0, [(700, 1), (200, 1), (100, 9)], [1.0, 1.0, 2.0]),
        (1.0, [(100, 0.2), (100, 0.3)], [0.2, 0.3]),
        (0.0, [(100, 0), (100, 1)], [0.0, 0.0]),
        (1.0, [], []),
    ],
)
def test_what_one_does_not_want_is_the_others(
    total: float, claims: list[tuple[float, float]], parts: list[float]
) -> None:
    assert divide(total, claims) == pytest.approx(parts)


class Kernel:
    """Divides two processors by weights as it understands them: it multiplies that of each VM by its `bias`."""

    def __init__(self, weights: dict[str, float], bias: dict[str, float]) -> None:
        self.weights = weights
        self.bias = bias
        self.factors = dict.fromkeys(weights, 1.0)
        self.debts: Debts[str] = Debts()
        self.had = dict.fromkeys(weights, 0.0)

    def run(self, seconds: float, *, alone: bool = True) -> dict[str, float]:
        """Lets all compute, and tells the share of each."""
        self.had = dict.fromkeys(self.weights, 0.0)
        for _ in range(round(seconds / PERIOD_S)):
            real = {vm: self.weights[vm] * self.factors[vm] * self.bias[vm] for vm in self.weights}
            used = {vm: 2 * PERIOD_S * one / sum(real.values()) for vm, one in real.items()}
            uses = {vm: Use(self.weights[vm], used[vm], 2 * PERIOD_S, is_alone=alone) for vm in used}
            self.factors = {vm: one.factor for vm, one in self.debts.settle(uses, PERIOD_S).items()}
            for vm, time_s in used.items():
                self.had[vm] += time_s
        return {vm: time_s / (2 * seconds) for vm, time_s in self.had.items()}


def test_vms_get_their_shares_though_the_kernel_gives_others() -> None:
    kernel = Kernel({"light": 100, "heavy": 700}, {"light": 1.8, "heavy": 1.0})
    kernel.run(1.0)
    assert kernel.run(2.0) == pytest.approx({"light": 0.125, "heavy": 0.875}, rel=0.03)
    kernel.bias = {"light": 0.5, "heavy": 1.0}
    kernel.run(1.0)
    assert kernel.run(2.0) == pytest.approx({"light": 0.125, "heavy": 0.875}, rel=0.03)


def test_what_was_missed_at_first_is_made_up_for() -> None:
    kernel = Kernel({"a": 100, "b": 100, "c": 200}, {"a": 1.5, "b": 1.0, "c": 1.0})
    assert kernel.run(5.0) == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.5}, rel=0.03)


def test_weights_are_corrected_within_bounds() -> None:
    kernel = Kernel({"a": 100, "b": 100}, {"a": 1000.0, "b": 1.0})
    kernel.run(100.0)
    assert kernel.factors == pytest.approx({"a": 1 / MOST, "b": MOST})
    kernel.bias["a"] = 1.0
    kernel.run(3.0)
    assert kernel.run(1.0) == pytest.approx({"a": 0.5, "b": 0.5}, rel=0.05), "and soon are right again"


def test_vms_whose_other_processes_may_have_had_the_share_are_owed_nothing() -> None:
    kernel = Kernel({"a": 100, "b": 100}, {"a": 1.0, "b": 3.0})
    kernel.run(2.0, alone=False)
    assert kernel.factors == {"a": 1.0, "b": 1.0}


def test_vms_that_do_not_always_have_work_are_owed_nothing() -> None:
    debts: Debts[str] = Debts()
    for _ in range(10):
        standings = debts.settle({"a": Use(100, 0.01, 0.08), "b": Use(100, 0.1, 0.2)}, PERIOD_S)
    assert standings["a"].entitled_s == pytest.approx(0.055)
    assert standings["a"].factor == 1.0


# ---- of a daemon ---------------------------------------------------------------------------------


class Worker:
    """A worker with one element, in a VM whose weight is corrected."""

    def __init__(self, weight: int, pool: CorePool) -> None:
        self.cpu: int | None = 0
        self.factors: list[float] = []
        self.weight = Weight(weight)
        self.fails = False
        self.place = Place(pool, None)
        self.one = Competitor(id(self), (1,), lambda: self.cpu, self.weight, self._correct, self.place, lambda: 1)

    def _correct(self, factor: float) -> None:
        if self.fails:
            raise FileNotFoundError
        self.factors.append(factor)

    @property
    def factor(self) -> float:
        return self.factors[-1] if self.factors else 1.0


class Stage:
    """Workers of one daemon, which always have work, and its clock."""

    def __init__(self, patch: pytest.MonkeyPatch, *weights: int, cores: int = 1) -> None:
        self.now_s = 0.0
        self.waited: dict[int, int] = {}
        self.shares = FairShares(lambda: self.now_s)
        self.pool = CorePool(range(cores))
        self.workers = [Worker(weight, self.pool) for weight in weights]
        self.stays = [contextlib.ExitStack() for _ in weights]
        for worker, stay in zip(self.workers, self.stays, strict=True):
            stay.enter_context(self.shares.joined(worker.one))
        patch.setattr(threads, "times", lambda pid, _thread: Times(0, self.waited.get(pid, 0), 0))
        self.wake()
        self.shares.look()

    def wake(self) -> None:
        for worker in self.workers:
            self.shares._awake[worker.one] = self.now_s + 1.0

    def look(self, *parts: float) -> list[float]:
        """Looks after a period in which each worker has had such a part of a processor; tells the factors."""
        self.now_s += PERIOD_S
        for worker, part in zip(self.workers, parts, strict=True):
            if worker.cpu is not None:
                worker.cpu += int(part * PERIOD_S * 1e9)
            pid = worker.one.pid
            self.waited[pid] = self.waited.get(pid, 0) + int((1 - part) * PERIOD_S * 1e9)
        self.shares.look()
        return [worker.factor for worker in self.workers]


def test_worker_that_gets_less_than_its_share_gets_more_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 100, 100)
    less, more = stage.look(0.3, 0.7)
    assert less > 1.0 > more
    assert stage.look(0.3, 0.7)[0] > less


def test_lone_worker_has_its_own_weight_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 100, 100)
    assert stage.look(0.3, 0.7) != [1.0, 1.0]
    stage.now_s += 2.0
    stage.shares._awake[stage.workers[0].one] = stage.now_s + 1.0
    assert stage.look(0.5, 0.0) == [1.0, 1.0]


def test_worker_that_ends_has_its_own_weight_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 100, 100, 100)
    assert stage.look(0.2, 0.4, 0.4)[0] > 1.0
    stage.stays[0].close()
    assert stage.workers[0].factor == 1.0
    stage.workers[1].cpu = None
    assert stage.look(0.0, 0.0, 1.0) == [1.0, 1.0, 1.0]


def test_host_that_corrects_one_weight_no_more_still_corrects_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 100, 100)
    stage.workers[0].fails = True
    assert stage.look(0.3, 0.7)[1] < 1.0


def test_worker_that_is_sure_of_its_processors_has_them_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 300, 100, cores=2)
    quiet, other = (worker.place for worker in stage.workers)
    for _ in range(3):
        assert quiet.elements == other.elements == {0, 1}
        stage.look(1.0, 0.1)
    assert (quiet.elements, other.elements) == (frozenset({1}), frozenset({0}))
    stage.stays[1].close()
    stage.look(1.0, 0.0)
    assert quiet.elements == {1}, "the other VM may get another worker"
    stage.stays[0].close()
    assert quiet.elements == {0, 1}


def test_loans_are_rare_where_moving_all_threads_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest whose work begins and ends again and again does not keep the daemon busy."""
    stage = Stage(monkeypatch, 300, 100, cores=2)
    moves: list[float] = []

    def move() -> None:
        moves.append(stage.now_s)
        stage.now_s += 0.05

    with stage.pool.watched(move):
        for _ in range(100):
            for part in (1.0, 1.0, 1.0, 1.0, 0.0, 0.0):
                stage.wake()
                stage.look(part, 0.1)
    assert 0 < 0.05 * len(moves) < 2 * 0.02 * stage.now_s


def test_lone_worker_shares_with_nobody_after_others_have_left_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, 300, 100, cores=2)
    for _ in range(3):
        stage.look(1.0, 0.1)
    stage.stays[1].close()
    stage.now_s += 11.0
    stage.wake()
    stage.look(1.0, 0.0)
    assert stage.workers[0].place.elements == {0, 1}


def test_daemon_looks_while_a_worker_has_work_and_another_might_have(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    async def story() -> None:
        shares = FairShares()
        both = [Worker(100, CorePool(range(1))) for _ in range(2)]
        monkeypatch.setattr(shares, "look", lambda: looks.append(len(shares._awake)))
        with shares.joined(both[0].one):
            shares.wake(both[0].one)
            assert shares._timer is None, "a lone one costs nothing"
        with shares.joined(both[1].one):
            shares.wake(both[1].one)
            await turns_until(lambda: len(looks) > 1)
        shares._awake.clear()
        await turns_until(lambda: shares._timer is None)

    asyncio.run(story())
    assert looks[0] == 1


# ---- of the host ---------------------------------------------------------------------------------


def test_group_gets_the_corrected_weight_and_keeps_it_when_limits_change() -> None:
    with cgroup_home.home() as own:
        group = own.group.child("vm-a", Limits(weight=100))
        quarters = Quarters(cgroup=group, weight=Weight(100))
        told = weight_of(group.doors)
        assert told() == pytest.approx(100, rel=0.01)
        quarters.correct(1.5)
        assert told() == pytest.approx(150, rel=0.01)
        quarters.weigh(200, None)
        assert told() == pytest.approx(300, rel=0.01)
        quarters.set_processors(Limits(cpus=1, weight=200))
        assert told() == pytest.approx(300, rel=0.01)
        quarters.correct(1.0)
        assert told() == pytest.approx(200, rel=0.01)


def weight_of(doors: Iterable[Path]) -> Callable[[], float]:
    """Reads the weight of a group, by the files in which processes join it."""
    for folder in {door.parent for door in doors}:
        if (folder / "cpu.weight").exists():
            return lambda: int((folder / "cpu.weight").read_text())
        if (folder / "cpu.shares").exists():
            return lambda: int((folder / "cpu.shares").read_text()) * 100 / 1024
    raise AssertionError(doors)


def test_weights_beyond_those_of_control_groups_are_the_nearest_ones(tmp_path: Path) -> None:
    for name in ("cpu.weight", "cpu.shares"):
        (tmp_path / name).write_text("")
    V2().set_weight({"cpu": tmp_path}, MAX_WEIGHT * 3.0)
    V1().set_weight({"cpu": tmp_path}, 0.01)
    assert ((tmp_path / "cpu.weight").read_text(), (tmp_path / "cpu.shares").read_text()) == ("10000", "2")


def test_processes_beside_the_worker_are_counted() -> None:
    quarters = Quarters(weight=Weight(100))
    with quarters.accompanied(), quarters.accompanied():
        assert quarters.weight.companions == 2
    assert quarters.weight.companions == 0
    NOWHERE.correct(2.0)
    assert NOWHERE.weight.factor == 1.0


def test_times_of_a_thread_that_computes_grow() -> None:
    before = threads.times(os.getpid(), threading.get_native_id())
    if before is None:
        pytest.skip("this kernel does not count the times of threads")

    def has_run() -> bool:
        after = threads.times(os.getpid(), threading.get_native_id())
        return after is not None and after.ran_ns > before.ran_ns

    until(has_run)
    assert threads.times(os.getpid(), 0) is None
