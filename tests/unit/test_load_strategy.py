"""The load strategy: its proposals fit, help, and are never undone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.control.load.strategy import DEFAULT, Place, Proposal, Tenant, loads, propose

GIB = 1 << 30
GPUS = (Place("0", "cuda", 100, 80 * GIB), Place("1", "cuda", 100, 80 * GIB))
CPU = Place("cpu", "cpu", 8, 64 * GIB)


def tenant(vm: str, gpu: str = "0", pes: int = 50, demand: float | None = 40.0, memory: int = 8 * GIB) -> Tenant:
    return Tenant(vm, gpu, pes, 100, memory, demand)


def on_cpu(vm: str, pes: int, demand: float, most_pes: int = 8) -> Tenant:
    return Tenant(vm, "cpu", pes, most_pes, GIB, demand)


def done(tenants: tuple[Tenant, ...], moves: tuple[Proposal, ...]) -> tuple[Tenant, ...]:
    """Tenants after the proposed migrations; all have rested since."""
    by_vm = {move.vm: move for move in moves}
    return tuple(
        replace(item, gpu=by_vm[item.vm].target, pes=by_vm[item.vm].pes) if item.vm in by_vm else item
        for item in tenants
    )


def test_a_vm_is_migrated_from_a_loaded_gpu_to_an_idle_one() -> None:
    (move,) = propose(GPUS, [tenant("a"), tenant("b", demand=45.0)])
    assert (move.vm, move.kind, move.source, move.target, move.pes) == ("a", "spread", "0", "1", 50)
    assert "0.85" in move.reason
    assert "0.45" in move.reason


@pytest.mark.parametrize(
    "tenants",
    [
        [tenant("a")],  # the load would only be elsewhere
        [tenant("a"), tenant("b", gpu="1", demand=30.0)],
        [tenant("a", demand=None), tenant("b", demand=None)],
        [replace(tenant("a"), movable=False), replace(tenant("b"), rested_ns=1)],
        [tenant("a", memory=81 * GIB), tenant("b", memory=81 * GIB)],
        [tenant("a", pes=101), tenant("b", pes=101)],
        [],
    ],
)
def test_no_migration_is_proposed_that_does_not_help_or_fit(tenants: list[Tenant]) -> None:
    assert propose(GPUS, tenants) == ()


def test_no_migration_is_proposed_between_kinds_of_gpus() -> None:
    assert propose((GPUS[0], CPU), [tenant("a"), tenant("b")]) == ()


def test_one_migration_at_a_time_is_proposed_for_a_pair_of_gpus() -> None:
    four = (*GPUS, Place("2", "cuda", 100, 80 * GIB), Place("3", "cuda", 100, 80 * GIB))
    tenants = [tenant(f"{gpu}{i}", gpu=gpu, demand=30.0) for gpu in "01" for i in range(3)]
    moves = propose(four, tenants)
    assert len(moves) == 2
    assert len({end for move in moves for end in (move.source, move.target)}) == 4


def test_a_busy_vm_gets_idle_elements() -> None:
    (move,) = propose([CPU], [on_cpu("a", 2, 2.0), on_cpu("b", 2, 0.1)])
    assert (move.vm, move.kind, move.pes) == ("a", "resize", 4)


def test_a_busy_vm_gets_no_more_than_its_quota() -> None:
    (move,) = propose([CPU], [on_cpu("a", 2, 2.0, most_pes=3)])
    assert move.pes == 3
    assert propose([CPU], [on_cpu("a", 2, 2.0, most_pes=2)]) == ()


def test_unused_elements_of_a_vm_are_taken_if_others_need_them() -> None:
    (move,) = propose([CPU], [on_cpu("a", 8, 7.9), on_cpu("b", 8, 0.5)])
    assert (move.vm, move.pes) == ("b", 1)


def test_an_idle_host_leaves_everything_as_it_is() -> None:
    assert propose([CPU], [on_cpu("a", 8, 1.0), on_cpu("b", 8, 0.0)]) == ()


# ---- whatever the loads are ----------------------------------------------------------------------

PLACES = st.lists(
    st.builds(
        Place, st.sampled_from("012345"), st.sampled_from(["cuda", "cpu"]), st.integers(1, 132), st.integers(0, 99)
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda place: place.gpu,
)


@st.composite
def systems(draw: st.DrawFn) -> tuple[tuple[Place, ...], tuple[Tenant, ...]]:
    places = tuple(draw(PLACES))
    tenants = []
    for number in range(draw(st.integers(0, 8))):
        place = draw(st.sampled_from(places))
        pes = draw(st.integers(1, place.pes))
        share = draw(st.floats(0, 1))
        tenants.append(
            Tenant(
                f"vm{number}",
                place.gpu,
                pes,
                draw(st.integers(pes, 200)),
                draw(st.integers(1, 50)),
                draw(st.sampled_from([None, pes * share, pes * share])),
                movable=draw(st.booleans()),
                rested_ns=draw(st.sampled_from([0, 10**12])),
            )
        )
    return places, tuple(tenants)


@given(systems())
def test_proposals_fit_and_concern_vms_that_may_be_migrated(
    system: tuple[tuple[Place, ...], tuple[Tenant, ...]],
) -> None:
    places, tenants = system
    by_gpu, by_vm = {place.gpu: place for place in places}, {item.vm: item for item in tenants}
    moves = propose(places, tenants)
    assert len({move.vm for move in moves}) == len(moves)
    for move in moves:
        before, target = by_vm[move.vm], by_gpu[move.target]
        assert before.movable
        assert before.rested_ns >= DEFAULT.rest_ns
        assert before.demand is not None
        assert 1 <= move.pes <= before.most_pes
        assert (move.target, move.pes) != (before.gpu, before.pes)
        if move.kind == "spread":
            others = sum(item.memory_bytes for item in tenants if item.gpu == target.gpu)
            assert before.memory_bytes + others <= target.memory_bytes
            assert by_gpu[before.gpu].kind == target.kind
            assert move.pes <= target.pes


@given(systems())
def test_each_migration_between_gpus_lowers_the_higher_load(
    system: tuple[tuple[Place, ...], tuple[Tenant, ...]],
) -> None:
    places, tenants = system
    for move in propose(places, tenants):
        if move.kind == "spread":
            before, after = loads(places, tenants), loads(places, done(tenants, (move,)))
            ends = (move.source, move.target)
            assert max(after[end] for end in ends) <= max(before[end] for end in ends) - DEFAULT.gain + 1e-9


@given(systems())
def test_with_constant_demands_proposals_come_to_an_end(system: tuple[tuple[Place, ...], tuple[Tenant, ...]]) -> None:
    """No VM is migrated to and fro: no state of the system occurs twice."""
    places, tenants = system
    tenants = tuple(replace(item, rested_ns=10**12) for item in tenants)
    seen = {tenants}
    for _ in range(200):
        moves = propose(places, tenants)
        if not moves:
            return
        tenants = done(tenants, moves)
        assert tenants not in seen
        seen.add(tenants)
    pytest.fail("it never comes to rest")


@given(systems(), st.lists(st.floats(-0.04, 0.04), min_size=8, max_size=8))
def test_noise_does_not_undo_a_migration(
    system: tuple[tuple[Place, ...], tuple[Tenant, ...]], noise: list[float]
) -> None:
    """Small changes of demands right after a migration do not reverse it."""
    places, tenants = system
    moves = [move for move in propose(places, tenants) if move.kind == "spread"]
    after = done(tenants, tuple(moves))
    shaken = tuple(
        replace(item, rested_ns=10**12, demand=None if item.demand is None else max(0.0, item.demand * (1 + part)))
        for item, part in zip(after, noise, strict=False)
    )
    back = {(move.vm, move.target) for move in propose(places, shaken) if move.kind == "spread"}
    assert not back & {(move.vm, move.source) for move in moves}
