"""Both sides of a ring in two threads, on machines other than this (for which there is unit/test_vring_threads.py).

QEMU's user mode keeps the order that the host keeps. An x86 host lets a load pass an earlier store: without the fence
between them, `lost_wakeups` ended with an error on every machine (2,000,000 rounds). It moves neither stores nor loads among
themselves: a missing release or acquire was not seen in 3,000,000 requests of `message_passing`. That takes a weakly ordered
processor, or the model (test_memory_model.py). The programs are made for such a guest, too: ``PROGRAM COUNT EVENT_IDX``,
exit status 1 and a text if an order was broken.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.ports.machines import MACHINES, WIRE

HERE: Final = Path(__file__).resolve().parent
COUNTS: Final = {"message_passing": 10_000, "lost_wakeups": 2_000, "sleeping_sides": 2_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs."""
    return tmp_path_factory.mktemp("litmus")


@pytest.mark.parametrize("event_idx", [False, True], ids=["flags", "event_idx"])
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("machine", sorted(set(MACHINES) - {"x86_64", "musl"}))
def test_no_order_is_broken(folder: Path, machine: str, name: str, event_idx: bool) -> None:
    chosen = MACHINES[machine]
    chosen.require()
    program = folder / f"{machine}-{name}"
    if not program.exists():
        chosen.compile(program, HERE / f"{name}.c", WIRE / "src" / "vring.c")
    printed = chosen.run(program, str(COUNTS[name]), str(int(event_idx)))
    assert all(int(number) >= 0 for number in printed.split())
    assert len(printed.split()) in (2, 4)


@pytest.mark.parametrize("name", COUNTS)
def test_program_says_what_it_needs(folder: Path, name: str) -> None:
    program = MACHINES["x86_64"].compile(folder / f"usage-{name}", HERE / f"{name}.c", WIRE / "src" / "vring.c")
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith(f"usage: {name} ")
