"""Program of a big-endian guest: arrays, launches, built-in functions, calls, textures and the region, each checked by numpy."""

from __future__ import annotations

import sys

import numpy as np

import guest_driver as vgc

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}"""


def check(is_right: bool, what: str) -> None:
    """Ends the program if a part is wrong."""
    if not is_right:
        sys.exit(f"{what}: wrong")
    sys.stdout.write(f"{what}\n")


def main() -> None:
    numbers = np.arange(1024, dtype=np.float32)
    random = np.random.default_rng(0)
    a, b = (random.random(shape).astype(np.float32) for shape in ((32, 48), (48, 16)))
    with vgc.Device() as device:
        program = device.compile(SOURCE)
        x, y = device.to_device(numbers), device.to_device(np.ones_like(numbers))
        program.saxpy[4, 256](1024, np.float32(2), x, y)
        check(bool((y.get() == 1 + 2 * numbers).all()), "launch")
        check(bool(((x * 3 + y).get() == 1 + 5 * numbers).all()), "operators")
        product = device.blas.gemm(device.to_device(a), device.to_device(b)).get()
        check(float(np.abs(product - a @ b).max()) < 1e-4, "product of matrices")
        filled = device.empty(7, np.int64)
        filled.fill(-5)
        check(filled.get().tolist() == [-5] * 7, "fill")
        out = np.ones(32, "<f4")
        device.call("saxpy", grid=1, block=32, args=[32, 1.0, vgc.In(np.full(32, 4, np.float32)), vgc.InOut(out)])
        check(bool((out == 5).all()), "call")
        check(device.region_array(16, np.float32).dtype == np.dtype("<f4"), "region")
        texels = device.texture_array((4, 8))
        texels.set(numbers[:32].reshape(4, 8))
        check(texels.get()[3, 7] == 31, "texels")
    sys.stdout.write(f"all right, {sys.byteorder}-endian\n")


if __name__ == "__main__":
    main()
