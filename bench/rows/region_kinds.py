"""Rows of the kinds of regions, in guests: huge pages and an NVDIMM, each beside an ordinary ivshmem region."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Better, Samples, SkipRow, outcome
from bench.rows.guest import COMMAND_SECONDS, build
from tests import huge_pages
from tests.vm.harness import Guest, GuestError
from tests.vm.huge_device import HugeDevice
from tests.vm.vgcd import Vgcd, VmSettings
from tools.machine import Device

PROGRAM: Final = Path(__file__).resolve().parents[1] / "guest" / "region.c"
MIB: Final = 1 << 20
REGION_BYTES: Final = 64 * MIB
TOUCHED_MIB: Final = 16
COPIED_BYTES: Final = 8 * MIB
"""Sizes of the memory that the program touches, and of that which it copies and reads (bench/guest/region.c)."""

BASE: Final = "ivshmem, pages of 4 KiB"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a region, from what the program prints."""

    unit: str
    better: Better
    printed: str
    value: Callable[[float], float]


FIGURES: Final = {
    "copy_in_gbps": Figure("GB/s", "higher", "copy_in_ns", lambda ns: COPIED_BYTES / ns),
    "copy_out_gbps": Figure("GB/s", "higher", "copy_out_ns", lambda ns: COPIED_BYTES / ns),
    "read_gbps": Figure("GB/s", "higher", "read_ns", lambda ns: COPIED_BYTES / ns),
    "touch_us_per_mib": Figure("us/MiB", "lower", "touch_ns", lambda ns: ns / 1e3 / TOUCHED_MIB),
    "faults_per_mib": Figure("/MiB", "lower", "faults", lambda count: count / TOUCHED_MIB),
}


def _names(kind: str) -> list[str]:
    return [f"region_{kind}_{figure}" for figure in FIGURES]


@contextmanager
def _guest(program: Path, make: Callable[[Device], Device], region_bytes: int, *prepare: str) -> Iterator[Guest]:
    with (
        Vgcd(VmSettings("bench", region_bytes, extra={"sandbox": "best-effort"})) as daemon,
        Guest(make(daemon.device("bench"))) as guest,
    ):
        for command in prepare:
            guest.run(command)
        guest.put(program, "/root/region")
        yield guest


def _measure(guests: list[Guest], rounds: int) -> list[dict[str, list[float]]]:
    """Runs the program in each guest in turn. Returns what each has printed, by name."""
    found: list[dict[str, list[float]]] = [defaultdict(list) for _ in guests]
    for _ in range(rounds):
        for guest, numbers in zip(guests, found, strict=True):
            for line in guest.run("/root/region 3", timeout=COMMAND_SECONDS).stdout.splitlines():
                name, number = line.split()
                numbers[name].append(float(number))
    return found


def _compare(
    lab: Lab, kind: str, make: Callable[[Device], Device], *prepare: str, region_bytes: int = REGION_BYTES
) -> Iterator[Outcome]:
    program = build(PROGRAM, lab.own_folder("region-kinds"))
    with ExitStack() as stack:
        try:
            guests = [
                stack.enter_context(_guest(program, lambda device: device, region_bytes)),
                stack.enter_context(_guest(program, make, region_bytes, *prepare)),
            ]
            base, own = _measure(guests, lab.samples(7, 3))
            machine = guests[0].machine
        except (GuestError, huge_pages.NoHugePagesError, SystemExit) as error:
            reason = "see the error above" if isinstance(error, SystemExit) else error
            raise SkipRow(f"no guest with such a region: {reason}") from error
    for name, figure in FIGURES.items():
        ours, theirs = (Samples(tuple(figure.value(one) for one in found[figure.printed])) for found in (own, base))
        against = f"{BASE} (in guests on {machine})"
        yield outcome(f"region_{kind}_{name}", ours, figure.unit, figure.better, theirs, against=against)


@row(*_names("nvdimm"))
def nvdimm(lab: Lab) -> Iterator[Outcome]:
    """A region that is an NVDIMM in devdax mode."""
    modules = "modprobe nfit && modprobe nd_pmem"
    yield from _compare(lab, "nvdimm", lambda device: replace(device, is_nvdimm=True), modules, "vgc region --devdax")


@row(*_names("huge"))
def huge(lab: Lab) -> Iterator[Outcome]:
    """An ivshmem region in huge pages of 2 MiB."""
    yield from _compare_huge(lab, "huge", huge_pages.OF_2_MIB, REGION_BYTES)


@row(*_names("huge_1g"))
def huge_1g(lab: Lab) -> Iterator[Outcome]:
    """An ivshmem region of 1 GiB in one huge page."""
    yield from _compare_huge(lab, "huge_1g", huge_pages.OF_1_GIB, huge_pages.OF_1_GIB.size)


def _compare_huge(lab: Lab, kind: str, pages: huge_pages.Kind, region_bytes: int) -> Iterator[Outcome]:
    with ExitStack() as stack:
        try:
            stack.enter_context(pages.lent(region_bytes // pages.size))
        except huge_pages.NoHugePagesError as error:
            raise SkipRow(str(error)) from error
        yield from _compare(lab, kind, lambda device: HugeDevice.of(device, pages), region_bytes=region_bytes)
