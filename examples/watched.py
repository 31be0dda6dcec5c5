"""Computes how a plate warms up from one edge, with kernels that report to the control system.

python3 examples/watched.py [--size 256] [--sweeps 400] [--console | --keep-going]

On the host, while it runs: vgcctl tail 'vm=demo,fn=log', vgcctl watch 'vm=demo', vgcctl snap take; with --console also
vgcctl send 'vm=demo': lines typed there reach the kernel. The result does not depend on whether anyone watches.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import guest_driver as vgc

TILE = 16

SOURCE = """
#include <vgc.h>

extern "C" __global__ void sweep(int size, int number, const float *from, float *to, float *residual)
{
    __shared__ float largest;
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    bool leads = threadIdx.x == 0 && threadIdx.y == 0;
    float change = 0;
    if (leads)
        largest = 0;
    __syncthreads();
    if (x < size && y < size) {
        int at = y * size + x;
        bool edge = x == 0 || y == 0 || x == size - 1 || y == size - 1;
        to[at] = edge ? from[at] : 0.25f * (from[at - 1] + from[at + 1] + from[at - size] + from[at + size]);
        change = fabsf(to[at] - from[at]);
    }
    atomicMax((int *)&largest, __float_as_int(change));
    __syncthreads();
    if (!leads)
        return;
    atomicMax((int *)residual, __float_as_int(largest));
    vgc_count("cells", blockDim.x * blockDim.y);
    vgc_gauge("residual", largest);
    if (blockIdx.x == 0 && blockIdx.y == 0) {
        vgc_event("sweep", number);
        vgc_log(VGC_INFO, "sweep %d: the corner changes by %g", number, largest);
        if (largest > 1)
            vgc_log(VGC_WARNING, "sweep %d is far from done", number);
    }
}

extern "C" __global__ void console(int *lines)
{
    char line[80];
    int length = 0;
    while (vgc_poll() && vgc_read(line + length, 1) == 1) {
        if (line[length] != '\\n' && length < 78) {
            length++;
            continue;
        }
        line[length] = 0;
        vgc_printf("the kernel heard: %s\\n", line);
        *lines += 1;
        length = 0;
    }
}
"""


def solve(program: vgc.Program, device: vgc.Device, size: int, sweeps: int) -> tuple[np.ndarray, float]:
    """Computes `sweeps` sweeps; returns the plate and the largest change in the last sweep."""
    plate = np.zeros((size, size), np.float32)
    plate[0] = 100
    here, there = device.to_device(plate), device.to_device(plate)
    residual = device.to_device(np.zeros(1, np.float32))
    blocks = -(-size // TILE)
    launch = program.sweep[(blocks, blocks), (TILE, TILE)]
    for number in range(sweeps):
        if number == sweeps - 1:
            residual.set(np.zeros(1, np.float32))
        launch(size, number, here, there, residual)
        here, there = there, here
    return here.get(), float(residual.get()[0])


def expected(size: int, sweeps: int) -> np.ndarray:
    """Computes the plate with numpy."""
    plate = np.zeros((size, size), np.float32)
    plate[0] = 100
    for _ in range(sweeps):
        inner = plate[1:-1, :-2] + plate[1:-1, 2:] + plate[:-2, 1:-1] + plate[2:, 1:-1]
        plate[1:-1, 1:-1] = np.float32(0.25) * inner
    return plate


def converse(program: vgc.Program, device: vgc.Device) -> int:
    """Runs the console kernel until it has read lines and no more come; returns their number. Without input it ends."""
    lines, read = device.to_device(np.zeros(1, np.int32)), 0
    while True:
        program.console[1, 1](lines)
        before, read = read, int(lines.get()[0])
        if read and read == before:
            return read
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="edge of the plate in cells (default: %(default)s)")
    parser.add_argument("--sweeps", type=int, default=400, help="number of sweeps (default: %(default)s)")
    parser.add_argument("--console", action="store_true", help="then wait for lines typed on the host")
    parser.add_argument("--keep-going", action="store_true", help="repeat for ever, once the result was right")
    arguments = parser.parse_args()
    with vgc.Device() as device:
        program = device.compile(SOURCE)
        plate, residual = solve(program, device, arguments.size, arguments.sweeps)
        difference = float(np.abs(plate - expected(arguments.size, arguments.sweeps)).max())
        fine = difference < 1e-3
        print(
            f"{arguments.sweeps} sweeps of {plate.shape[0]} x {plate.shape[1]}; the last changed {residual:.4g} at most"
        )
        print(f"largest difference to numpy: {difference:.2g} ({'right' if fine else 'WRONG'})")
        while fine and arguments.keep_going:
            solve(program, device, arguments.size, arguments.sweeps)
        if arguments.console:
            print("waiting for lines; on the host: vgcctl send vm=NAME")
            print(f"the kernel heard {converse(program, device)} lines")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
