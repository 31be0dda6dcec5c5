"""Rows from inside a virtual machine: null requests (libvgc in the guest, QEMU, our daemon), and compilations."""

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
from tests.vm.workbench import Workbench
from tools.common import REPOSITORY
from virtio_proto import build_vring

PROGRAM: Final = Path(__file__).resolve().parents[1] / "guest" / "null.c"
VECTOR_ADD: Final = PROGRAM.with_name("vector_add.cu")
LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc"
IN_GUEST: Final = "/root/null"
COMMAND_SECONDS: Final = 120
FORGET: Final = "sync && echo 3 > /proc/sys/vm/drop_caches"
"""Leaves nothing in the guest's page cache."""


def build(source: Path, folder: Path) -> Path:
    """Builds a guest's program, statically with libvgc, so that it runs with any libraries of the guest."""
    program = folder / source.stem
    includes = [f"-I{path}" for path in (LIBVGC, build_vring.INCLUDE_DIR, NATIVE)]
    flags = ["-O2", "-std=gnu11", "-static", "-pthread", "-D_GNU_SOURCE"]
    subprocess.run(["cc", *flags, *includes, "-o", program, source, LIBVGC / "build" / "libvgc.a"], check=True)
    return program


@contextmanager
def _guest(lab: Lab) -> Iterator[Guest]:
    """Boots a guest with a null device and the program.

    :raise SkipRow: no guest can be booted on this machine.
    """
    daemon = Vgcd(VmSettings("bench", extra={"engine": "null", "sandbox": "best-effort"}))
    with daemon, Guest(daemon.device("bench")) as guest:
        guest.put(build(PROGRAM, lab.own_folder("guest")), IN_GUEST)
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


def _seconds(folder: Workbench, command: str) -> float:
    """Time of a command by the guest's clock."""
    timed = f"begun=$(date +%s%N) && {command} && echo $(($(date +%s%N) - begun))"
    return int(folder.run(timed, timeout=COMMAND_SECONDS * 5).stdout.split()[-1]) / 1e9


@row("guest_mynvcc_first_s", "guest_mynvcc_s")
def guest_mynvcc(lab: Lab) -> Iterator[Outcome]:
    """A small CUDA source to an object in a development guest: a user's first compilation after boot, which precompiles
    headers and reads the compiler from disk, and later ones.
    """
    mynvcc = "mynvcc -c vector_add.cu -o a.o"
    clang = "clang++ -x c++ -isystem /usr/local/cuda/include -c vector_add.cu -o b.o"
    found: dict[str, list[float]] = {"mynvcc": [], "clang": []}
    try:
        daemon = Vgcd(VmSettings("bench", extra={"engine": "null", "sandbox": "best-effort"}))
        with daemon, Guest(daemon.device("bench"), development=True) as guest:
            folder = Workbench(guest, "/root/bench")
            folder.write("vector_add.cu", VECTOR_ADD.read_text())
            first = {}
            for name, command in (("mynvcc", mynvcc), ("clang", clang)):
                folder.run(FORGET)
                first[name] = _seconds(folder, command)
            for _ in range(lab.samples(5, 2)):
                found["mynvcc"].append(_seconds(folder, mynvcc))
                found["clang"].append(_seconds(folder, clang))
            machine = f"clang++ -c of its host code (in a guest on {guest.machine})"
    except (GuestError, SystemExit) as error:
        reason = "see the error above" if isinstance(error, SystemExit) else error
        raise SkipRow(f"no development guest: {reason}") from error
    yield outcome("guest_mynvcc_first_s", first["mynvcc"], "s", "lower", first["clang"], against=machine)
    ours, theirs = (Samples(tuple(values)) for values in found.values())
    yield outcome("guest_mynvcc_s", ours, "s", "lower", theirs, against=machine)
