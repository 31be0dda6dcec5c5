"""Random kernels in three ways: CUDA C on the software GPU, NVRTC's PTX of it there, and that PTX in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tests.ptx_reference.machine import Machine
from tests.ptx_reference.programs import CELLS, OUTPUTS, PRELUDE, THREADS, inputs, kernel
from tests.unit.cpu_rig import Rig, rig
from tests.unit.ptx_compilers import nvrtc_ptx

BLOCKS: Final = 2
ROUNDS: Final = 3
"""Argument `n` of the kernels."""
Words = list[int]


def source(seeds: Sequence[int]) -> str:
    return PRELUDE + "".join(kernel(seed) for seed in seeds)


def on_the_engine(gpu: Rig, seed: int) -> Words:
    given = np.array(inputs(seed), np.uint32)
    out = gpu.array(BLOCKS * THREADS * OUTPUTS + CELLS, np.uint32)
    gpu.launch(f"k{seed}", BLOCKS, THREADS, gpu.array(len(given), np.uint32, given), out, np.uint32(ROUNDS))
    return [int(word) for word in out]


def in_the_reference(machine: Machine, seed: int) -> Words:
    size = 4 * (BLOCKS * THREADS * OUTPUTS + CELLS)
    given, out = machine.buffer(np.array(inputs(seed), np.uint32).tobytes()), machine.buffer(bytes(size))
    arguments = [given.to_bytes(8, "little"), out.to_bytes(8, "little"), ROUNDS.to_bytes(4, "little")]
    machine.launch(f"k{seed}", (BLOCKS, 1, 1), (THREADS, 1, 1), arguments)
    return [int(word) for word in np.frombuffer(machine.memory.read(out, size), np.uint32)]


def differences(seeds: Sequence[int]) -> list[str]:
    """Compares some kernels, compiled together; a line for each whose results differ."""
    return differences_in(source(seeds), seeds)


def differences_in(text: str, seeds: Sequence[int]) -> list[str]:
    """Like `differences`, for a source that has the kernels of these seeds."""
    ptx = nvrtc_ptx(text, "--fmad=false")
    machine = Machine(ptx)
    with rig(pes=1) as from_source, rig(pes=1) as from_ptx:
        from_source.load(text, ("-w", "-fmad=false"))
        from_ptx.load_ptx(ptx)
        return [line for seed in seeds for line in compared(from_source, from_ptx, machine, seed)]


def compared(from_source: Rig, from_ptx: Rig, machine: Machine, seed: int) -> list[str]:
    expected = in_the_reference(machine, seed)
    wrong = []
    for way, gpu in (("CUDA C", from_source), ("PTX", from_ptx)):
        found = on_the_engine(gpu, seed)
        places = [place for place, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]]
        if places:
            first = places[0]
            wrong.append(
                f"k{seed} as {way}: {len(places)} words differ, first thread {first // OUTPUTS} word {first % OUTPUTS}: "
                f"{found[first]:#x}, expected {expected[first]:#x}"
            )
    return wrong
