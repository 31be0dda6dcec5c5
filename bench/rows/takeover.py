"""Rows of the daemon's and the worker's death: how long a guest, and QEMU, wait for what follows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import guest_driver as vgc
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, outcome
from bench.stats import alternate
from tests.fakes.attached import AttachedLink
from tests.fakes.guest import open_device
from tests.processes import launchers
from tests.protocol.kept_vgcd import KeptVgcd, kept_vgcd

WINDOW_S: Final = 0.4
"""Time after a death in which the longest wait is sought; a takeover is over long before."""
SOURCE: Final = 'extern "C" __global__ void add(int *to, int what) { atomicAdd(to, what); }'


def longest_ms(act: Callable[[], object]) -> float:
    """Longest of the calls of `act` that begin within `WINDOW_S`."""
    longest, end = 0.0, time.perf_counter() + WINDOW_S
    while (began := time.perf_counter()) < end:
        act()
        longest = max(longest, time.perf_counter() - began)
    return longest * 1e3


def after_death_ms(host: KeptVgcd, act: Callable[[], object]) -> float:
    """Longest of the calls of `act` that begin within `WINDOW_S` after the daemon was killed."""
    taken = host.count("frontend_taken_over")
    host.kill_daemon()
    longest = longest_ms(act)
    host.wait_for_takeovers(taken + 1)
    return longest


def recover_ms(host: KeptVgcd, folder: Path) -> float:
    """Time from the death of a guest's first worker until the guest, which begins anew, has a kernel's result from the next."""
    with AttachedLink(folder / "a", num_queues=4) as link:
        link.wait_ready()
        with open_device(link, folder / "guest") as device:
            device.compile(SOURCE)
            return recovers_ms(launchers(host.daemon), device)


def recovers_ms(pids: Sequence[int], device: vgc.Device) -> float:
    """Kills `pids`; returns the time until the device computes again."""
    began = time.perf_counter()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    while True:
        try:
            device.reset()
            total = device.zeros(1, "int32")
            device.compile(SOURCE)["add"][1, 1](total, 5)
            assert list(total.get()) == [5]
            return (time.perf_counter() - began) * 1e3
        except vgc.DeviceLost:
            continue


@row("daemon_restart_gap_ms", "daemon_restart_question_ms", "recover_ms_p50")
def deaths(lab: Lab) -> Iterator[Outcome]:
    """A guest sends requests, or QEMU asks for the configuration space, while the daemon is killed, or the worker."""
    folder = lab.own_folder("takeover")
    rounds = lab.samples(21, 5)
    with kept_vgcd(folder) as host, AttachedLink(folder / "a", num_queues=4) as link:
        link.wait_ready()
        with open_device(link, folder / "guest") as device:
            gaps = alternate(rounds, lambda: after_death_ms(host, device.nop), lambda: longest_ms(device.nop))
            asks = alternate(rounds, lambda: after_death_ms(host, link.refresh), lambda: longest_ms(link.refresh))
    recovered, folder = [], lab.own_folder("recovery")
    with kept_vgcd(folder) as host:
        for number in range(rounds):
            recovered.append(recover_ms(host, folder))
            host.wait_for("frontend_disconnected", number + 1)
    calm = "longest wait in as long a time, while the daemon lives"
    yield outcome("daemon_restart_gap_ms", gaps[0], "ms", "lower", gaps[1], against=calm, goal=Goal("value", "<", 5))
    yield outcome(
        "daemon_restart_question_ms", asks[0], "ms", "lower", asks[1], against=calm, goal=Goal("value", "<", 200)
    )
    yield outcome("recover_ms_p50", Samples(tuple(recovered)), "ms", "lower", goal=Goal("value", "<", 100))
