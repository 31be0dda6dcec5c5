"""Figures of the data plane beside a VM's usage: the peak of its memory, failed requests by status."""

from __future__ import annotations

from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from tests.unit.test_dataplane_limits import LAUNCH
from vhost_backend.worker_protocol.protocol import MAX_FUNCTION_NAME, MAX_FUNCTIONS
from virtio_proto.schema import Opcode, Status


def test_peak_of_memory_stays_when_it_is_freed() -> None:
    with plane_rig(LIMITS) as rig:
        assert rig.plane.counts().memory_peak_bytes == 0
        context = rig.context()
        first, second = (rig.alloc(context, 100_000) for _ in range(2))
        peak = rig.plane.counts().memory_peak_bytes
        assert peak == rig.usage().memory_used_bytes >= 200_000
        for address in (first, second):
            rig.ok(Opcode.FREE, {"address": address}, context=context)
        rig.alloc(context, 100_000)
        assert rig.usage().memory_used_bytes < rig.plane.counts().memory_peak_bytes == peak


def test_refused_memory_is_no_peak() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        refused = rig.driver.request(Opcode.ALLOC, {"size": 2 * LIMITS.memory_bytes}, context=context)
        assert refused.status == Status.OUT_OF_MEMORY
        assert rig.plane.counts().memory_peak_bytes == 0


def test_failures_are_counted_by_status() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        assert rig.plane.counts().failures == ()
        for _ in range(3):
            rig.driver.request(Opcode.ALLOC, {"size": 2 * LIMITS.memory_bytes}, context=context)
        rig.driver.request(Opcode.FREE, {"address": 12345}, context=context)
        failures = rig.plane.counts().failures
        assert failures[Status.OUT_OF_MEMORY] == 3
        assert sum(failures) == rig.usage().requests_failed == 4
        assert failures[Status.OK] == 0
        assert len(failures) <= max(Status) + 1


# ---- work by function -----------------------------------------------------------------------------


def launch(rig: Rig, context: int, function: int, times: int = 1) -> None:
    for _ in range(times):
        rig.ok(Opcode.LAUNCH, LAUNCH | {"function": function}, context=context)


def launches(rig: Rig) -> dict[str, int]:
    return {tally.name: tally.launches for tally in rig.plane.functions()}


def test_launches_are_counted_by_function() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        ids = rig.load(context, "kernel one\nkernel two\nkernel never")
        assert rig.plane.functions() == ()
        launch(rig, context, ids["one"], 3)
        launch(rig, context, ids["two"])
        assert launches(rig) == {"one": 3, "two": 1}


def test_function_keeps_its_counts_when_its_program_is_loaded_again() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        launch(rig, context, rig.load(context, "kernel one")["one"])
        rig.cold(Opcode.PROGRAM_UNLOAD, {"program": rig.programs[0]}, context=context)
        launch(rig, context, rig.load(context, "kernel one")["one"])
        assert launches(rig) == {"one": 2}


def test_functions_beyond_the_table_count_together_and_get_places_with_a_look() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        names = [f"f{number}" for number in range(200)]
        ids: dict[str, int] = {}
        for at in range(0, len(names), 20):
            ids |= rig.load(context, "\n".join(f"kernel {name}" for name in names[at : at + 20]))
        for name in names:
            launch(rig, context, ids[name])
        first = launches(rig)
        assert len(first) == MAX_FUNCTIONS - 1  # graphs have a place, too, and were not launched
        assert first["(others)"] == len(names) - (MAX_FUNCTIONS - 2)
        assert sum(first.values()) == len(names)
        for name in reversed(names):
            launch(rig, context, ids[name])
        second = launches(rig)
        assert len(second) == MAX_FUNCTIONS - 1
        assert set(second) - set(first) == {f"f{number}" for number in range(199, 199 - MAX_FUNCTIONS // 4, -1)}
        assert second["(others)"] > first["(others)"]


def test_longest_names_are_cut_off_and_count_together() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        names = ["n" * 300 + "a", "n" * 300 + "b"]
        ids = rig.load(context, "\n".join(f"kernel {name}" for name in names))
        for name in names:
            launch(rig, context, ids[name])
        assert launches(rig) == {"n" * (MAX_FUNCTION_NAME - 1): 2}
