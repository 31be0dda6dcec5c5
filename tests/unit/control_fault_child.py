"""A minimal worker whose kernel faults while a fault channel is bound.

Arguments: fd of the control area, kernel, number of blocks, threads of each.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.unit.control_rig import control_rig
from virtio_proto.control.records import Function

SOURCE = """
extern "C" __global__ void dies(int *to) {
    if (blockIdx.x == 1)
        to[threadIdx.x] = 1;
}
extern "C" __global__ void dies_late(int *to) {
    if (threadIdx.x >= 70)
        to[threadIdx.x] = 1;
}
extern "C" __global__ void dies_in_strip(int *to) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= 100)
        to[x] = 1;
}
"""


def main() -> None:
    area_fd, kernel, blocks, threads = sys.argv[1:]
    with control_rig(pes=1, fd=int(area_fd)) as made:
        made.load(SOURCE)
        made.area.open(1, Function.FAULT)
        made.area.bind(0, Function.FAULT, 1)
        made.rig.launch(kernel, int(blocks), int(threads), np.uint64(0x10))
        sys.exit("survived")


if __name__ == "__main__":
    main()
