"""Reads a GPU's clock (``%globaltimer``) beside the host's, natively: offset, drift, steps. Also the largest ``%smid``.

The records of the control system carry that clock. This reading shares no code with the engine's calibration, so
each can check the other. It also finds out whether a program compiled here gets the control system's hooks.

``python3 -m tools.gpu.clock FILE [--driver PATH]`` writes JSON; it exits with 3 if the driver runs no code (the tests'
fake driver).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu, find
from bench.cuda.native import NativeError, NativeGpu, Program
from bench.results import SkipRow
from tools.gpu.evidence import NO_CODE_RAN
from vhost_backend.engines.cuda import cubin

TIMES: Final = 62
LARGEST_SM: Final = 62
"""Index of the word behind the times."""

WORDS: Final = 64
BLOCKS: Final = 4096
BRACKETS: Final = 8
"""Readings per round. The tightest counts: the others were delayed between the two readings of the host's clock."""

ROUNDS: Final = 5
APART_S: Final = 1.5
"""Time between rounds. All rounds take 6 s, which is enough to see a drift of a microsecond a second."""

SOURCE: Final = b"""
extern "C" __global__ void read_clock(unsigned long long *words)
{
    unsigned long long now;
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    for (int i = 0; i < 62; i++) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (blockIdx.x == 0)
            words[i] = now;
    }
    atomicMax(words + 62, (unsigned long long)sm);
}
"""
HOOKED: Final = b'extern "C" __global__ void fill(int *out) { out[blockIdx.x] = threadIdx.x; }'


class NothingRanError(Exception):
    """The driver accepted the kernel and did not run it."""


class ClockReader:
    """Kernel that reads the clock, loaded and ready; to be used during the life of `native`."""

    def __init__(self, native: NativeGpu, gpu: Gpu) -> None:
        self._native = native
        self._host = native.pinned(WORDS * 8)
        self._host[:] = 0
        device = native.alloc(WORDS * 8)
        kernel = native.function(cubin_of(SOURCE, gpu), "read_clock")
        argument = np.uint64(device).tobytes()
        native.round_trips(Program().copy_in(device, self._host))
        self._first_block = Program().launch(kernel, (1,), (1,), [argument]).copy_out(device, self._host)
        self._all_blocks = Program().launch(kernel, (BLOCKS,), (32,), [argument]).copy_out(device, self._host)

    def words(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Words that the last launch wrote."""
        return self._host.view(np.int64)

    def bracket(self) -> dict[str, Any]:
        """Takes one reading between two readings of the host's clocks; all values in ns."""
        monotonic, before = time.monotonic_ns(), time.time_ns()
        self._native.round_trips(self._first_block)
        after = time.time_ns()
        times = self.words()[:TIMES]
        if not times.all():
            raise NothingRanError("the kernel wrote nothing: this driver runs no code")
        middle = before + (after - before) // 2
        return {
            "at_ns": monotonic,
            "width_ns": after - before,
            "offset_ns": int(times[0]) - middle,  # of the GPU's clock from CLOCK_REALTIME; the error is half the width
            "steps_ns": sorted({int(step) for step in np.diff(times) if step}),
            "backwards": bool((np.diff(times) < 0).any()),
        }

    def best(self) -> dict[str, Any]:
        """Takes several readings; returns the tightest."""
        return min((self.bracket() for _ in range(BRACKETS)), key=lambda reading: int(reading["width_ns"]))

    def largest_sm(self) -> int:
        """Largest ``%smid`` that a grid over the whole GPU sees."""
        self._native.round_trips(self._all_blocks)
        return int(self.words()[LARGEST_SM])


def reading(gpu: Gpu) -> dict[str, Any]:
    """Takes all readings, in the form that ``assumptions`` judges.

    :raise NothingRanError: the driver runs no code.
    :raise SkipRow: the GPU cannot be used, or the kernel does not compile.
    """
    with NativeGpu(gpu) as native:
        reader = ClockReader(native, gpu)
        reader.bracket()  # loads the program
        rounds = []
        for number in range(ROUNDS):
            time.sleep(APART_S if number else 0)
            rounds.append(reader.best())
        largest = reader.largest_sm()
    first, last = rounds[0], rounds[-1]
    drift = (last["offset_ns"] - first["offset_ns"]) / ((last["at_ns"] - first["at_ns"]) / 1e9)
    return {
        "rounds": rounds,
        "offset_us": first["offset_ns"] / 1e3,
        "error_us": max(one["width_ns"] for one in rounds) / 2e3,
        "drift_us_per_s": drift / 1e3,
        "step_ns": min((step for one in rounds for step in one["steps_ns"]), default=0),
        "largest_sm": largest,
        "num_sms": gpu.num_pes,
    }


def hooks(gpu: Gpu) -> dict[str, Any]:
    """Checks that a program compiled with hooks has them; without ptxas the compiler leaves them out."""
    try:
        return {"hooks": cubin.parse(cubin_of(HOOKED, gpu, hooks="on")).hooks is not None}
    except (SkipRow, cubin.CubinError) as error:
        return {"hooks": False, "hooks_error": str(error)[:400]}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.gpu.clock", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--driver", type=Path, default=None, help="libcuda.so.1 (default: the system's)")
    args = parser.parse_args(argv)
    gpu = find(args.driver)
    found, code = hooks(gpu), 0
    try:
        found |= reading(gpu)
    except (NothingRanError, NativeError) as error:
        found["skipped"] = str(error)
        code = NO_CODE_RAN if isinstance(error, NothingRanError) else 1
    except SkipRow as error:
        found["skipped"], code = str(error), 1
    args.file.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "rounds"}))
    return code


if __name__ == "__main__":
    sys.exit(main())
