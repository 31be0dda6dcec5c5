"""Both sides of a ring in two threads: nobody sleeps while there is work, and no entry is seen half-written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REQUESTS = 50_000


def build(folder: Path, *flags: str) -> Path:
    program = folder / "vring_threads"
    sources = [HERE / "vring_threads.c", ROOT / "virtio_proto/src/vring.c"]
    include = f"-I{ROOT / 'virtio_proto/include'}"
    command = ["cc", "-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, include, "-pthread"]
    subprocess.run([*command, "-o", program, *sources], check=True, timeout=60)
    return program


def run(program: Path, requests: int, *, event_idx: bool) -> tuple[int, int]:
    """Sleeps of device and driver."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [program, str(requests), str(int(event_idx))],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    device, driver = done.stdout.split()
    return int(device), int(driver)


@pytest.mark.parametrize("event_idx", [False, True], ids=["flags", "event_idx"])
def test_two_threads_lose_no_wake_up(tmp_path: Path, event_idx: bool) -> None:
    device, driver = run(build(tmp_path), REQUESTS, event_idx=event_idx)

    assert device > 0, "the device never slept: nothing was shown"
    assert driver > 0, "the driver never slept: nothing was shown"


@pytest.mark.parametrize("event_idx", [False, True], ids=["flags", "event_idx"])
def test_two_threads_have_no_data_race(tmp_path: Path, event_idx: bool) -> None:
    """ThreadSanitizer sees every plain access that the atomics do not order. It does not know fences; the code needs
    those for notifications only, whose words are atomic.
    """
    program = build(tmp_path, "-fsanitize=thread", "-Wno-error=tsan")

    run(program, REQUESTS // 10, event_idx=event_idx)
