"""Turns of VMs that share a GPU: who gets how much of it, and for how long others wait; in simulated time."""

from __future__ import annotations

import asyncio
import itertools
import mmap
import os
import random
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.fakes.gated_gpu import DAEMON_NS, MS, STEP_NS, US, GatedGpu, SimulatedVm, jain
from tests.waiting import turns_until
from vhost_backend.daemon.gpu_gate import CLOSED, DRAIN_NS, LOOK_NS, TURN_NS, GpuGates, GpuTime, Seats
from vhost_backend.fds import Fd
from vhost_backend.log import get_logger
from vhost_backend.worker_protocol.gate_pages import OPEN, PAGE_BYTES, Account, WorkerGate

SHORT: Final = 100 * US
SECOND: Final = 1000 * MS
FAIR: Final = 0.99
HANDOFF_NS: Final = DAEMON_NS + 2 * STEP_NS
"""Time from the end of one VM's launches to the next VM's first one."""


def share(vm: SimulatedVm, *others: SimulatedVm) -> float:
    """Part of the GPU's time that a VM really got."""
    return vm.got_ns / sum(one.got_ns for one in (vm, *others))


# ---- shares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [(100, 100), (100, 300), (100, 100, 200), (1, 10), (10_000, 5_000)])
def test_busy_vms_get_gpu_time_by_weight(weights: tuple[int, ...]) -> None:
    vms = [SimulatedVm(f"vm{i}", MS, weight, depth=8) for i, weight in enumerate(weights)]
    gpu = GatedGpu(*vms)
    gpu.run(2 * SECOND)
    assert jain(vms) > FAIR
    assert sum(vm.got_ns for vm in vms) > 0.97 * 2 * SECOND, "changing turns costs little"


def test_without_turns_the_driver_knows_no_weights() -> None:
    """The simulation is worth something."""
    vms = SimulatedVm("a", MS), SimulatedVm("b", MS, 300)
    GatedGpu(*vms, is_gated=False).run(SECOND)
    assert share(vms[0], vms[1]) == pytest.approx(0.5, abs=0.01)


def test_charges_are_what_the_gpu_did() -> None:
    vms = SimulatedVm("a", MS, depth=2), SimulatedVm("b", 3 * MS, 300, depth=2)
    GatedGpu(*vms).run(2 * SECOND)
    for vm in vms:
        assert vm.total.used_ns == pytest.approx(vm.got_ns, rel=0.05)
        assert vm.total.shared_ns / vm.total.shared_of_ns == pytest.approx(vm.weight / 400, abs=0.02)


def test_kernels_longer_than_a_turn_are_charged_afterwards() -> None:
    """One of 8 ms and of 40 ms beside short ones: the long VM waits for longer, and both get the same."""
    for long_ns in (8 * MS, 2 * TURN_NS - MS):
        short, long = SimulatedVm("short", SHORT), SimulatedVm("long", long_ns, depth=2)
        gpu = GatedGpu(short, long)
        gpu.run(4 * SECOND)
        assert jain([short, long]) > FAIR
        assert short.longest_held_ns <= 2 * long_ns + DRAIN_NS


def test_a_vm_that_waits_for_each_launch_gets_its_share_beside_one_that_queues_long_ones() -> None:
    """The driver alone would give it a launch between two slices of the other."""
    polite = SimulatedVm("polite", SHORT, depth=1, pause_ns=20 * US)
    greedy = SimulatedVm("greedy", 4 * MS, depth=2)
    GatedGpu(polite, greedy, is_gated=False).run(SECOND)
    assert share(polite, greedy) < 0.06
    polite = SimulatedVm("polite", SHORT, depth=1, pause_ns=20 * US)
    greedy = SimulatedVm("greedy", 4 * MS, depth=2)
    GatedGpu(polite, greedy).run(SECOND)
    assert share(polite, greedy) > 0.4


def test_a_changed_weight_counts_from_the_next_turn_on() -> None:
    vms = SimulatedVm("a", MS, depth=2), SimulatedVm("b", MS, depth=2)
    gpu = GatedGpu(*vms)
    gpu.run(SECOND)
    before = [vm.got_ns for vm in vms]
    vms[1].weight = 300
    gpu.run(SECOND)
    gained = [vm.got_ns - old for vm, old in zip(vms, before, strict=True)]
    assert gained[1] / sum(gained) == pytest.approx(0.75, abs=0.03)


def test_random_vms_are_served_by_weight_and_leave_no_gap() -> None:
    for seed in range(6):
        dice = random.Random(seed)
        vms = [
            SimulatedVm(f"vm{i}", dice.randrange(SHORT, 5 * MS, STEP_NS), dice.choice((50, 100, 400)), depth=4)
            for i in range(dice.randint(2, 4))
        ]
        gpu = GatedGpu(*vms)
        gpu.run(3 * SECOND)
        assert jain(vms) > 0.98, seed
        assert gpu.idle_ns < 0.03 * 3 * SECOND, seed


# ---- VMs without work ----------------------------------------------------------------------------


def test_a_vm_alone_is_never_held_and_never_rings() -> None:
    alone = SimulatedVm("alone", MS)
    gpu = GatedGpu(alone)
    gpu.run(SECOND)
    assert (alone.held_ns, alone.rings, gpu.looks) == (0, 0, 1)
    assert alone.until_ns == OPEN


def test_a_vm_is_not_held_beside_idle_ones() -> None:
    busy = SimulatedVm("busy", MS)
    idle = SimulatedVm("idle", MS, has_work=lambda _now_ns: False)
    gpu = GatedGpu(busy, idle)
    gpu.run(SECOND)
    assert busy.held_ns == 0
    assert busy.rings <= 1
    assert gpu.looks < 20


def test_idle_vms_cost_no_looks() -> None:
    idle = [SimulatedVm(f"vm{i}", MS, has_work=lambda _now_ns: False) for i in range(3)]
    gpu = GatedGpu(*idle)
    gpu.run(SECOND)
    assert gpu.looks == len(idle), "one as each of them comes"


def test_a_vm_that_wakes_gets_its_share_at_once_and_nothing_for_before() -> None:
    wakes_ns = SECOND
    old = SimulatedVm("old", MS, depth=2)
    new = SimulatedVm("new", MS, depth=2, has_work=lambda now_ns: now_ns >= wakes_ns)
    gpu = GatedGpu(old, new)
    gpu.run(wakes_ns)
    before_ns = old.got_ns
    gpu.run(100 * MS)
    assert new.got_ns / (100 * MS) == pytest.approx(0.5, abs=0.12)
    gpu.run(SECOND)
    assert new.got_ns / (old.got_ns - before_ns + new.got_ns) == pytest.approx(0.5, abs=0.02)
    assert old.longest_held_ns < 3 * TURN_NS


def test_a_vm_that_works_half_the_time_saves_nothing_up() -> None:
    """While it works, both get half."""
    steady = SimulatedVm("steady", MS, depth=2)
    bursts = SimulatedVm("bursts", MS, depth=2, has_work=lambda now_ns: now_ns // (200 * MS) % 2 == 1)
    gpu = GatedGpu(steady, bursts)
    gpu.run(2 * SECOND)
    assert share(bursts, steady) == pytest.approx(0.25, abs=0.03)
    assert gpu.idle_ns < 0.03 * 2 * SECOND


def test_a_vm_with_little_work_leaves_the_rest_to_others() -> None:
    """Nothing is kept free for it."""
    little = SimulatedVm("little", SHORT, weight=10_000, depth=1, pause_ns=9 * MS)
    much = SimulatedVm("much", MS, depth=2)
    gpu = GatedGpu(little, much)
    gpu.run(SECOND)
    assert much.got_ns > 0.95 * SECOND - little.got_ns


def test_working_just_less_than_half_the_time_does_not_get_round_weights() -> None:
    sly = SimulatedVm("sly", 900 * US, weight=1, depth=1, pause_ns=1100 * US)
    much = SimulatedVm("much", MS, weight=100, depth=2)
    GatedGpu(sly, much, is_gated=False).run(2 * SECOND)
    assert share(sly, much) > 0.25
    sly = SimulatedVm("sly", 900 * US, weight=1, depth=1, pause_ns=1100 * US)
    much = SimulatedVm("much", MS, weight=100, depth=2)
    GatedGpu(sly, much).run(2 * SECOND)
    assert share(sly, much) < 0.03


# ---- workers that die or lie ---------------------------------------------------------------------


def test_a_worker_that_dies_in_its_turn_leaves_the_gpu_to_those_who_wait() -> None:
    dying, waiting = SimulatedVm("dying", MS), SimulatedVm("waiting", MS, depth=2)
    gpu = GatedGpu(dying, waiting)
    gpu.run(205 * MS)
    gpu.kill(dying)
    held_ns = waiting.held_ns
    gpu.run(SECOND)
    assert waiting.held_ns - held_ns <= HANDOFF_NS


def test_a_worker_that_hangs_holds_others_for_a_bounded_time() -> None:
    """Its account says that a launch runs, for ever."""
    hanging, waiting = SimulatedVm("hanging", 3600 * SECOND), SimulatedVm("waiting", MS, depth=2)
    gpu = GatedGpu(hanging, waiting)
    gpu.run(2 * SECOND)
    assert waiting.longest_held_ns <= TURN_NS + DRAIN_NS + LOOK_NS + HANDOFF_NS
    assert waiting.got_ns > 0.45 * 2 * SECOND, "the driver gives it its slices"


def test_a_vm_that_comes_back_with_another_worker_has_its_debts_still() -> None:
    greedy, patient = SimulatedVm("greedy", 19 * MS, weight=1, depth=1), SimulatedVm("patient", MS, 100, depth=2)
    gpu = GatedGpu(greedy, patient)
    gpu.run(50 * MS)
    got_ns = 0
    for _ in range(10):
        gpu.kill(greedy)
        gpu.run(10 * MS)
        greedy = SimulatedVm("greedy", 19 * MS, weight=1, depth=1, total=greedy.total)
        gpu.join(greedy)
        gpu.run(50 * MS)
        got_ns += greedy.got_ns
    assert got_ns == 0


def _random_account(dice: random.Random) -> Callable[[int, Account], Account]:
    def forge(now_ns: int, _account: Account) -> Account:
        numbers = (0, 1, now_ns, now_ns + SECOND, 2**63, 2**64 - 1, dice.getrandbits(64))
        return Account(dice.choice(numbers), dice.choice(numbers), dice.random() < 0.5)

    return forge


def test_a_worker_that_writes_rubbish_takes_no_more_than_its_turns() -> None:
    for seed in range(4):
        rubbish = SimulatedVm("rubbish", MS, depth=2, forge=_random_account(random.Random(seed)))
        honest = SimulatedVm("honest", MS, depth=2)
        gpu = GatedGpu(rubbish, honest)
        gpu.run(2 * SECOND)
        assert honest.got_ns > 0.4 * 2 * SECOND, seed
        assert rubbish.total.used_ns <= 2 * SECOND + MS, seed


def test_a_worker_that_claims_to_run_is_charged_for_it() -> None:
    def lie(now_ns: int, _account: Account) -> Account:
        return Account(0, 1 if now_ns // MS % 7 else 0, is_held=True)

    for weight in (100, 900):
        liar = SimulatedVm("liar", MS, has_work=lambda _now_ns: False, forge=lie)
        honest = SimulatedVm("honest", MS, weight, depth=2)
        GatedGpu(liar, honest).run(2 * SECOND)
        least = weight / (weight + 100) * 0.9
        assert honest.got_ns > least * 2 * SECOND, weight


def test_a_worker_that_claims_to_wait_holds_nobody() -> None:
    """It is believed while it is closed; but it never uses a turn, so its turn goes on after a look."""
    liar = SimulatedVm("liar", MS, has_work=lambda _now_ns: False, forge=lambda _now_ns, _account: Account(0, 0, True))
    honest = SimulatedVm("honest", MS, depth=2)
    gpu = GatedGpu(liar, honest)
    gpu.run(SECOND)
    assert honest.got_ns > 0.97 * SECOND


def test_a_worker_that_denies_its_launches_gets_what_the_driver_gives() -> None:
    """No gate could hold it; the other one is not held on its behalf either."""
    liar = SimulatedVm(
        "liar", MS, weight=1, depth=2, obeys=False, forge=lambda _now_ns, _account: Account(0, 0, is_held=False)
    )
    honest = SimulatedVm("honest", MS, 100, depth=2)
    GatedGpu(liar, honest).run(SECOND)
    assert honest.held_ns == 0
    assert share(honest, liar) == pytest.approx(0.5, abs=0.02)


# ---- what is shown -------------------------------------------------------------------------------


def test_held_time_is_what_the_vm_waited() -> None:
    vms = SimulatedVm("a", MS, depth=2), SimulatedVm("b", MS, 300, depth=2)
    GatedGpu(*vms).run(2 * SECOND)
    for vm in vms:
        assert vm.total.held_ns == pytest.approx(vm.held_ns, rel=0.1)
    assert vms[0].total.held_ns > vms[1].total.held_ns > 0


def test_time_alone_is_not_shared_time() -> None:
    alone = SimulatedVm("alone", MS)
    gpu = GatedGpu(alone, SimulatedVm("idle", MS, has_work=lambda _now_ns: False))
    gpu.run(SECOND)
    assert alone.total.used_ns > 0.85 * SECOND
    assert (alone.total.shared_ns, alone.total.shared_of_ns, alone.total.held_ns) == (0, 0, 0)


# ---- on the daemon's loop ------------------------------------------------------------------------


class Link:
    """Link to a worker."""

    closed = False


class Worker:
    """A worker's side of a gate."""

    def __init__(self, fds: tuple[int, ...]) -> None:
        self.gate = WorkerGate(*map(os.dup, fds))
        self._told = self.gate.account.cast("Q")
        self._grant = self.gate.grant.cast("Q")

    @property
    def until_ns(self) -> int:
        return int(self._grant[0])

    @property
    def beat(self) -> int:
        return int(self._grant[2])

    def renew(self, grant: int) -> None:
        """Reads another grant, as it does when it resumes."""
        self._grant = memoryview(mmap.mmap(grant, PAGE_BYTES, prot=mmap.PROT_READ)).cast("Q")

    def tell(self, ran_ns: int = 0, since_ns: int = 0, *, is_held: bool = False) -> None:
        self._told[0], self._told[1], self._told[2] = ran_ns, since_ns, is_held
        os.eventfd_write(self.gate.bell, 1)


class Host:
    """Gates of a daemon whose clock the test moves."""

    def __init__(self) -> None:
        self.now_ns = SECOND
        self.gates = GpuGates(lambda: self.now_ns)

    def seats(self, name: str, total: GpuTime | None = None) -> Seats:
        return Seats(self.gates, name, lambda: 100, total or GpuTime(), get_logger())


def on_loop(test: Callable[[Host], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Host())

    asyncio.run(main())


def test_rings_are_heard_and_turns_given() -> None:
    async def test(host: Host) -> None:
        seats = [host.seats("a"), host.seats("b")]
        workers = [Worker(seat.take(Link(), "GPU-1")) for seat in seats]
        for worker in workers:
            worker.tell(since_ns=host.now_ns)
        host.now_ns += LOOK_NS
        workers[0].tell(since_ns=host.now_ns - LOOK_NS)
        await turns_until(lambda: sorted(worker.until_ns == CLOSED for worker in workers) == [True, True])
        workers[1].tell(ran_ns=LOOK_NS, is_held=True)
        await turns_until(lambda: workers[0].until_ns != CLOSED)
        assert workers[0].until_ns < OPEN
        assert workers[1].until_ns == CLOSED
        for seat in seats:
            seat.leave_all()

    on_loop(test)


def test_workers_that_were_taken_over_take_turns_and_what_they_had_used_is_not_charged_again() -> None:
    async def test(host: Host) -> None:
        links, totals = [Link(), Link()], [GpuTime(), GpuTime()]
        before = [host.seats("a"), host.seats("b")]
        workers = [Worker(seat.take(link, "GPU-1")) for seat, link in zip(before, links, strict=True)]
        workers[0].tell(ran_ns=1000 * SECOND)
        workers[1].tell(ran_ns=2**64 - 1)  # a lie, which must not end the daemon
        after = Host()
        seats = [after.seats(name, total) for name, total in zip("ab", totals, strict=True)]
        for seat, old, link, worker in zip(seats, before, links, workers, strict=True):
            fds = {name: Fd(os.dup(fd.fileno())) for name, fd in old.lasting(link).items()}
            grant = seat.resume(link, "GPU-1", fds)
            assert grant is not None
            assert fds == {}
            worker.renew(grant)
        for worker, ran_ns in zip(workers, (1000 * SECOND, 2**63), strict=True):
            worker.tell(ran_ns=ran_ns, since_ns=after.now_ns)
        after.now_ns += LOOK_NS
        workers[0].tell(ran_ns=1000 * SECOND, since_ns=after.now_ns - LOOK_NS)
        await turns_until(lambda: sorted(worker.until_ns == CLOSED for worker in workers) == [True, True])
        assert all(0 < total.used_ns <= 2 * LOOK_NS for total in totals)
        for seat in (*seats, *before):
            seat.leave_all()

    on_loop(test)


def test_a_worker_without_a_gate_is_taken_over_without_one() -> None:
    async def test(host: Host) -> None:
        assert host.seats("a").resume(Link(), "GPU-1", {}) is None

    on_loop(test)


def test_a_worker_that_meddles_with_its_bell_keeps_no_one_waiting() -> None:
    async def test(host: Host) -> None:
        seats = [host.seats("a"), host.seats("b")]
        sly, honest = [Worker(seat.take(Link(), "GPU-1")) for seat in seats]
        os.set_blocking(sly.gate.bell, True)
        sly.tell(since_ns=host.now_ns)
        os.eventfd_read(sly.gate.bell)
        os.eventfd_write(sly.gate.bell, 2**64 - 2)
        honest.tell(since_ns=host.now_ns)
        host.now_ns += LOOK_NS
        honest.tell(since_ns=host.now_ns - LOOK_NS)
        await turns_until(lambda: CLOSED in (sly.until_ns, honest.until_ns))
        for seat in seats:
            seat.leave_all()

    on_loop(test)


@pytest.mark.parametrize("cost_s", [0.0, 100.0])
def test_however_many_workers_ring_looks_take_a_share_of_the_daemons_time(cost_s: float) -> None:
    async def test(host: Host) -> None:
        spent = itertools.count()
        host.gates = GpuGates(lambda: host.now_ns, lambda: next(spent) * cost_s)
        seats = [host.seats("a"), host.seats("b")]
        workers = [Worker(seat.take(Link(), "GPU-1")) for seat in seats]
        looked_ns = host.now_ns
        host.now_ns += LOOK_NS
        table = host.gates._tables["GPU-1"]
        for _ in range(2):
            for worker in workers:
                worker.tell(since_ns=looked_ns)
                table.hear()
        expected = looked_ns if cost_s else host.now_ns
        assert [worker.beat for worker in workers] == [expected, expected]
        timer = table._timer
        assert timer is not None
        assert (timer.when() - asyncio.get_running_loop().time() > 100) == (cost_s > 0)
        for seat in seats:
            seat.leave_all()

    on_loop(test)


def test_figures_of_all_vms_take_one_look() -> None:
    async def test(host: Host) -> None:
        looks: list[int] = []
        host.gates = GpuGates(lambda: host.now_ns, lambda: looks.append(host.now_ns) or 0.0)  # type: ignore[func-returns-value]
        seats = [host.seats(name) for name in "abcd"]
        for seat in seats:
            seat.take(Link(), "GPU-1")
        host.now_ns += LOOK_NS
        looks.clear()
        for seat in seats:
            seat.look()
        assert looks == [host.now_ns] * 2, "the begin and the end of one look"
        for seat in seats:
            seat.leave_all()

    on_loop(test)


def test_vms_of_other_gpus_take_no_turns() -> None:
    async def test(host: Host) -> None:
        seats = [host.seats("a"), host.seats("b")]
        workers = [Worker(seat.take(Link(), f"GPU-{i}")) for i, seat in enumerate(seats)]
        for worker in workers:
            worker.tell(since_ns=host.now_ns)
        host.now_ns += SECOND
        for seat in seats:
            seat.look()
        assert [worker.until_ns for worker in workers] == [OPEN, OPEN]
        for seat in seats:
            seat.leave_all()

    on_loop(test)


def test_a_worker_that_has_ended_leaves_its_place_and_its_time_is_charged() -> None:
    async def test(host: Host) -> None:
        total, ended, other = GpuTime(), Link(), Link()
        seats = host.seats("a", total)
        worker = Worker(seats.take(ended, "GPU-1"))
        second = Worker(seats.take(other, "GPU-1"))
        worker.tell(ran_ns=MS)
        host.now_ns += 10 * MS
        ended.closed = True
        seats.leave_ended()
        seats.leave_ended()
        assert total.used_ns == MS
        second.tell(ran_ns=2 * MS)
        host.now_ns += 10 * MS
        seats.look()
        assert total.used_ns == 3 * MS
        seats.leave_all()

    on_loop(test)
