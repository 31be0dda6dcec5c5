"""Runs in the guest: scales numbers on the device, as often as the second argument says, and checks every result.

The first argument is the factor, which is in the program; prints it and the VM's name when all was right.
"""

import sys

import numpy as np

import guest_driver as vgc

SOURCE = """
extern "C" __global__ void scale(int n, float *data) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= FACTOR;
}
"""
COUNT = 10_000


def main() -> None:
    factor, rounds = float(sys.argv[1]), int(sys.argv[2])
    with vgc.Device() as device:
        program = device.compile(SOURCE, [f"-DFACTOR={factor}f"])
        numbers = np.arange(COUNT, dtype=np.float32)
        for _ in range(rounds):
            data = device.to_device(numbers)
            program["scale"][(COUNT + 255) // 256, 256](COUNT, data)
            np.testing.assert_array_equal(data.get(), numbers * np.float32(factor))
        print(f"{factor:g} {device.info().vm_name}")


main()
