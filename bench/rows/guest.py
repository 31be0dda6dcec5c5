"""Rows of null requests from inside a virtual machine: libvgc in the guest, QEMU, our daemon."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from bench.lab import Lab
from bench.native.build import HERE as NATIVE
from bench.registry import Outcome, row
from bench.results import Samples, SkipRow, outcome
from tests.vm.harness import Guest, GuestError
from tests.vm.vgcd import Vgcd, VmSettings
from tools.common import REPOSITORY
from virtio_proto import build_vring

PROGRAM: Final = Path(__file__).resolve().parents[1] / "guest" / "null.c"
LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc"
IN_GUEST: Final = "/root/null"
COMMAND_SECONDS: Final = 120


def _build(folder: Path) -> Path:
    """Builds the guest's program, statically with libvgc, so that it runs with any libraries of the guest."""
    program = folder / "null"
    includes = [f"-I{path}" for path in (LIBVGC, build_vring.INCLUDE_DIR, NATIVE)]
    sources = [PROGRAM, *sorted((LIBVGC / "src").glob("*.c")), *build_vring.SOURCES]
    flags = ["-O2", "-std=gnu11", "-static", "-pthread", "-D_GNU_SOURCE"]
    subprocess.run(["cc", *flags, *includes, "-o", str(program), *map(str, sources)], check=True)
    return program


@contextmanager
def _guest(lab: Lab) -> Iterator[Guest]:
    """Boots a guest with a null device and the program.

    :raise SkipRow: no guest can be booted on this machine.
    """
    daemon = Vgcd(VmSettings("bench", extra={"engine": "null", "sandbox": "best-effort"}))
    with daemon, Guest(daemon.device("bench")) as guest:
        guest.put(_build(lab.own_folder("guest")), IN_GUEST)
        yield guest


def _times_us(guest: Guest, how: str, count: int) -> Samples:
    result = guest.run(f"{IN_GUEST} {how} {count}", timeout=COMMAND_SECONDS)
    return Samples(tuple(int(line) / 1e3 for line in result.stdout.split()))


@row("guest_null_us_p50", "guest_null_us_p99", "guest_null_sleeping_us_p50")
def guest_null(lab: Lab) -> Iterator[Outcome]:
    """NOPs of a C program in the guest, one at a time: spinning, and sleeping until the device's interrupt."""
    try:
        with _guest(lab) as guest:
            polled = _times_us(guest, "polled", lab.samples(20_000, 5_000))
            sleeping = _times_us(guest, "sleeping", lab.samples(2_000, 500))
            machine = f"(in a guest on {guest.machine})"
    except (GuestError, SystemExit) as error:  # tools exit if QEMU or the image is not available
        reason = "see the error above" if isinstance(error, SystemExit) else error
        raise SkipRow(f"no guest: {reason}") from error
    yield outcome("guest_null_us_p50", polled, "us", "lower", against=machine)
    yield outcome("guest_null_us_p99", float(np.percentile(polled.values, 99)), "us", "lower", against=machine)
    yield outcome("guest_null_sleeping_us_p50", sleeping, "us", "lower", against=machine)
