"""``python -m tests.gpu.sanitized [--driver PATH]``: runs the tests' kernels natively, to be watched by compute-sanitizer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from bench import workloads
from bench.cuda import work
from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu, find
from bench.cuda.native import NativeGpu, Program
from bench.cuda.work import Native
from bench.results import SkipRow
from tests.unit.test_cpu_engine_contract import SOURCE as CONTRACT

WORK = (
    workloads.saxpy(1 << 12),
    workloads.matmul_tiled(64),
    workloads.reduce(10_007, 4),
    work.stencil(67),
    work.nbody(512),
    work.busy(4, 10),
)
COUNT = 1000


def contract(gpu: Gpu, native: NativeGpu) -> None:
    """The contract's kernels that end well.

    :raise ArithmeticError: a result is wrong.
    """
    image = cubin_of(CONTRACT.encode(), gpu)
    address, host = native.alloc(4 * COUNT), native.pinned(4 * COUNT)
    host[:] = 0
    arguments = [np.uint64(address).tobytes(), np.uint32(COUNT).tobytes()]
    program = Program().copy_in(address, host)
    for name in ("add_one", "slow"):
        program.launch(native.function(image, name), (4,), (64,), arguments)
    native.round_trips(program.copy_out(address, host))
    expected = np.ones(COUNT, np.uint32)
    expected[0] += COUNT
    if not np.array_equal(host.view(np.uint32), expected):
        raise ArithmeticError("the contract's kernels compute something else")


def main() -> int:
    """Runs all kernels; returns 0 if every result is right."""
    parser = argparse.ArgumentParser(prog="tests.gpu.sanitized", description=__doc__)
    parser.add_argument("--driver", type=Path, default=None, help="libcuda (default: the system's)")
    try:
        gpu = find(parser.parse_args().driver)
        with NativeGpu(gpu) as native:
            for made in WORK:
                Native(native, made, cubin_of(made.text("cu").encode(), gpu))
            contract(gpu, native)
    except SkipRow as reason:
        print(reason, file=sys.stderr)  # noqa: T201  a program for the terminal
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
