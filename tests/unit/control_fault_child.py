"""A minimal worker whose kernel faults while a fault channel is bound. Argument: fd of the control area."""

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
"""


def main() -> None:
    with control_rig(pes=1, fd=int(sys.argv[1])) as made:
        made.load(SOURCE)
        made.area.open(1, Function.FAULT)
        made.area.bind(0, Function.FAULT, 1)
        made.rig.launch("dies", 2, 32, np.uint64(0x10))
        sys.exit("survived")


if __name__ == "__main__":
    main()
