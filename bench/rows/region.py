"""Rows of the region: copies that are larger than it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.lab import Lab
from bench.native.build import HERE as NATIVE
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from bench.rows import cudart

PROGRAM: Final = Path(__file__).resolve().parents[1] / "guest" / "copies.c"
MIB: Final = 1 << 20
REGION_MIB: Final = 16
TIMES: Final = 16
"""Size of the copies, in regions (bench/guest/copies.c)."""


def _build(folder: Path) -> Path:
    """Builds the program against libvgc.

    :raise SkipRow: it cannot be built here.
    """
    program = folder / PROGRAM.stem
    flags = ["-O2", "-std=gnu11", f"-I{NATIVE}", f"-I{cudart.GUEST / 'libvgc'}"]
    words = ["cc", *flags, PROGRAM, cudart.LIBVGC / "libvgc.so", f"-Wl,-rpath,{cudart.LIBVGC}", "-o", program]
    try:
        subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkipRow(f"{PROGRAM.name}: {getattr(error, 'stderr', None) or error}") from error
    return program


@row("copy_16x_region_in_gbps", "copy_16x_region_out_gbps")
def beyond_the_region(lab: Lab) -> Iterator[Outcome]:
    """Copies of sixteen times the region from and to ordinary memory, through libvgc."""
    folder = lab.own_folder("region")
    program = _build(folder)
    with cudart.device(folder, lab.threads, "cpu", region_mib=REGION_MIB) as link:
        found = cudart.run(link, folder, [program, str(lab.samples(15, 5))])
    size = TIMES * REGION_MIB * MIB
    for direction in ("in", "out"):
        whole, parts = (
            Samples(tuple(size / (us * 1e3) for us in found[direction, subject].values))
            for subject in ("whole", "parts")
        )
        goal = Goal("ratio", ">=", 0.9)
        name = f"copy_16x_region_{direction}_gbps"
        yield outcome(name, whole, "GB/s", "higher", parts, against="copies of half the region", goal=goal)
