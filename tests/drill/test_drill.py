"""A share of the fault drill: all the kinds of faults are drawn from, and each guest's results stay right."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.drill.drill import Drill
from tests.drill.faults import FAULTS, schedule
from tests.protocol.worker_rig import needs_walls

SEED: Final = 2849
"""Order in which daemon, spare, worker and control centre are killed, the daemon is replaced, and the recorder's disk is full."""
COUNT: Final = 8

pytestmark = needs_walls


@pytest.mark.slow
def test_guests_go_on_after_faults_of_the_host(tmp_path: Path) -> None:
    said: list[str] = []
    with Drill(tmp_path, SEED, said.append) as drill:
        wrong = drill.run(COUNT)
        events = list(drill.host.vgcd.events)
    assert not wrong, "\n".join([*map(str, events[-30:]), *said, wrong])
    assert sum(row.times for row in drill.rows.values()) == COUNT


def test_schedule_has_each_kind_of_fault_before_any_comes_again() -> None:
    names = [fault.name for fault in schedule(SEED, 2 * len(FAULTS))]
    assert set(names[: len(FAULTS)]) == set(names[len(FAULTS) :]) == {fault.name for fault in FAULTS}
    assert names == [fault.name for fault in schedule(SEED, 2 * len(FAULTS))]
