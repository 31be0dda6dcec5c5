"""Both sides of a ring in two threads: no side sleeps while it has work, and no entry is seen half-written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "litmus"


def run(folder: Path, name: str, count: int, *flags: str, event_idx: bool) -> list[int]:
    """Compile tests/litmus/NAME.c with vring.c, run it, and return the numbers that it prints."""
    program = folder / name
    sources = [PROGRAMS / f"{name}.c", ROOT / "virtio_proto/src/vring.c"]
    include = f"-I{ROOT / 'virtio_proto/include'}"
    command = ["cc", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, include, "-pthread"]
    subprocess.run([*command, "-o", program, *sources], check=True, timeout=HANGS_AFTER_S)
    done = subprocess.run(
        [program, str(count), str(int(event_idx))],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
    )
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


event_idx_on_and_off = pytest.mark.parametrize("event_idx", [False, True], ids=["flags", "event_idx"])


@event_idx_on_and_off
def test_either_side_sees_the_other(tmp_path: Path, event_idx: bool) -> None:
    """Without a full fence on both sides this fails within a few thousand rounds."""
    outcomes = run(tmp_path, "lost_wakeups", 100_000, event_idx=event_idx)

    assert sum(outcomes) == 200_000


@event_idx_on_and_off
def test_two_threads_lose_no_wake_up(tmp_path: Path, event_idx: bool) -> None:
    device_sleeps, driver_sleeps = run(tmp_path, "sleeping_sides", 50_000, event_idx=event_idx)

    assert device_sleeps > 0, "the device never slept: nothing was shown"
    assert driver_sleeps > 0, "the driver never slept: nothing was shown"


@event_idx_on_and_off
def test_two_threads_have_no_data_race(tmp_path: Path, event_idx: bool) -> None:
    """ThreadSanitizer sees every plain access that no acquire and release order.

    It does not support fences (hence the warning), but the accesses that they order are atomic anyway.
    """
    run(tmp_path, "sleeping_sides", 5_000, "-fsanitize=thread", "-Wno-error=tsan", event_idx=event_idx)
