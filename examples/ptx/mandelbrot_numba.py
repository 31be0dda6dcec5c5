"""The Mandelbrot set by a numba kernel that another machine compiled, without a GPU there.

python3 examples/ptx/mandelbrot_numba.py compile     with `pip install numba-cuda[cu13]`: writes mandelbrot_numba.ptx
python3 examples/ptx/mandelbrot_numba.py run         in the guest, where there is no numba

A kernel of numba's takes an array as several parameters: two pointers that device code does not read, number of elements,
bytes of an element, address, extents, and bytes from element to element along each axis.
"""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

with suppress(ModuleNotFoundError):  # in the guest
    from numba import cuda, types

if TYPE_CHECKING:
    import guest_driver as vgc

MODULE = Path(__file__).with_suffix(".ptx")
WIDTH, HEIGHT, MOST = 300, 200, 50


def mandelbrot(steps: Any, most: int) -> None:
    """Kernel: how many steps each point of the plane stays near 0."""
    x, y = cuda.grid(2)
    height, width = steps.shape
    if x < width and y < height:
        point = complex(-2 + 3 * x / width, -1 + 2 * y / height)
        z = 0j
        count = 0
        while count < most and z.real * z.real + z.imag * z.imag <= 4:
            z = z * z + point
            count += 1
        steps[y, x] = count


def compile_kernel() -> None:
    """Writes the module."""
    text, _ = cuda.compile_ptx(mandelbrot, (types.int32[:, ::1], types.int32), cc=(8, 0))
    MODULE.write_text(text)


def array(of: vgc.DeviceArray) -> list[Any]:
    """Parameters of an array by rows."""
    bytes_to_next = [of.nbytes // of.shape[0], of.dtype.itemsize]
    return [0, 0, of.size, of.dtype.itemsize, of, *of.shape, *bytes_to_next]


def expected() -> Any:
    """The result by numpy."""
    import numpy as np

    x, y = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    point = (-2 + 3 * x / WIDTH) + 1j * (-1 + 2 * y / HEIGHT)
    z, count = np.zeros_like(point), np.zeros(point.shape, np.int32)
    for _ in range(MOST):
        near = z.real * z.real + z.imag * z.imag <= 4
        z[near] = z[near] * z[near] + point[near]
        count += near
    return count


def run() -> int:
    """Computes the set on the device, and checks the result with numpy."""
    import guest_driver as vgc

    found = re.search(r"\.entry (\w+)", MODULE.read_text())  # numba's name has all types in it
    assert found is not None
    with vgc.Device() as device:
        kernel = device.load_ptx(MODULE)[found.group(1)]
        steps = device.zeros((HEIGHT, WIDTH), "int32")
        kernel[(-(-WIDTH // 16), -(-HEIGHT // 16)), (16, 16)](*array(steps), MOST)
        differing = int((steps.get() != expected()).sum())
    is_right = differing <= WIDTH * HEIGHT // 1000  # products are rounded twice in numpy, once in the kernel
    print(f"{WIDTH} x {HEIGHT} points: {'right' if is_right else 'wrong'}")
    return 0 if is_right else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=["compile", "run"])
    if parser.parse_args().half == "run":
        return run()
    compile_kernel()
    return 0


if __name__ == "__main__":
    sys.exit(main())
