"""Runs in the guest: a kernel that spins until it is told to stop, so that work is in flight for as long as a test wants.

Writes a line to the fifo called by the first argument when the kernel runs, and reads one from the second: ``stop``
has it tell the kernel to stop. Then it prints how the launch ended, and on a lost device whether a fresh start works.
"""

import sys
from pathlib import Path

import numpy as np

import guest_driver as vgc

SOURCE = """
extern "C" __global__ void spin(volatile int *flags) {
    flags[0] = 1;
    while (flags[1] == 0) { }
    flags[0] = 2;
}
extern "C" __global__ void twice(int n, const int *in, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
"""


def main() -> None:
    started, stop = Path(sys.argv[1]), Path(sys.argv[2])
    with vgc.Device() as device:
        program = device.compile(SOURCE)
        flags = device.zeros(2, "int32")
        stream = device.stream()
        job = program["spin"].launch_async(1, 1, flags, stream=stream)
        while flags.get()[0] == 0:
            pass
        started.write_text("spinning\n")
        told = stop.read_text().strip()
        try:
            if told == "stop":
                flags.set(np.array([1, 1], np.int32))
            job.wait()
            print("finished", flags.get()[0])
        except vgc.DeviceLost as error:
            print("lost:", error)
            device.reset()
            again = device.compile(SOURCE)
            numbers = device.to_device(np.arange(100, dtype=np.int32))
            doubled = device.empty(100, "int32")
            again["twice"][1, 128](100, numbers, doubled)
            print("again", np.array_equal(doubled.get(), 2 * np.arange(100)), "generation", device.info().generation)


main()
