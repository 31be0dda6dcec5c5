"""Calls a function by its name, on the device or in Python, whichever is faster for the size.

A call takes its buffers along: one request has inputs, kernel and outputs. Afterwards, ``vgc explain distances`` shows what was
measured.

python3 examples/call_by_name.py [--rounds 30] [--side auto|cpu|host]
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import guest_driver as vgc

BLOCK = 128

SOURCE = """
extern "C" __global__ void distances(int n, const float *x, float *sums)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int j = 0; j < n; j++)
        sum += fabsf(x[i] - x[j]);
    sums[i] = sum;
}
"""


def distances(_n: int, x: NDArray[np.float32], sums: NDArray[np.float32]) -> None:
    """Sum of the distances of each number to all others: the local version, with the arguments of the call."""
    for i, number in enumerate(x):
        sums[i] = np.abs(number - x).sum()


def open_functions() -> vgc.NamedFunctions:
    """Functions of the first device; without one, those of this process alone."""
    try:
        device = vgc.Device()
    except vgc.NoDevice as reason:
        print(f"no device: {reason}")
        return vgc.NamedFunctions()
    device.compile(SOURCE)
    return device.functions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="calls for each size (default: 30)")
    parser.add_argument(
        "--side", choices=("auto", "cpu", "host"), default="auto", help="side to run on (default: auto)"
    )
    options = parser.parse_args()
    functions = open_functions()
    functions.register("distances", distances)
    for n in (4, 16, 64, 256, 1024):
        x = np.arange(n, dtype=np.float32)
        expected = [float(np.abs(i - x).sum()) for i in x]
        on_cpu = 0
        for _ in range(options.rounds):
            sums = np.empty_like(x)
            outcome = functions.call(
                "distances",
                np.int32(n),
                vgc.In(x),
                vgc.Out(sums),
                grid=-(-n // BLOCK),
                block=BLOCK,
                side=options.side,
                falls_back=True,
            )
            on_cpu += outcome.side == "cpu"
            if not np.allclose(sums, expected, rtol=1e-5):
                print(f"{n} numbers: wrong on the {outcome.side}")
                return 1
        print(f"{n:5} numbers: {options.rounds - on_cpu} calls on the device, {on_cpu} on the CPU: right")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
