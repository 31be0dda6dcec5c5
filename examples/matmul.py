"""Multiplies matrices in tiles of shared memory, and checks the result with numpy.

python3 examples/matmul.py [--size 512]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import guest_driver as vgc
from guest_driver.steps import Steps

TILE = 16

SOURCE = f"""
#define TILE {TILE}
extern "C" __global__ void matmul(int rows, int inner, int columns, const float *a, const float *b, float *c)
{{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int at = 0; at < inner; at += TILE) {{
        int from_a = at + threadIdx.x, from_b = at + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && from_a < inner ? a[row * inner + from_a] : 0;
        tile_b[threadIdx.y][threadIdx.x] = from_b < inner && column < columns ? b[from_b * columns + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }}
    if (row < rows && column < columns)
        c[row * columns + column] = sum;
}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, help="rows of the first matrix (default: 512)")
    rows = parser.parse_args().size
    inner, columns = rows // 2 + 3, rows + 5  # neither square nor a multiple of the tile
    random = np.random.default_rng(0)
    a = random.standard_normal((rows, inner), np.float32)
    b = random.standard_normal((inner, columns), np.float32)
    steps = Steps()
    with vgc.Device() as device:
        where = device.info().engine_name
        print(f"({rows} x {inner}) @ ({inner} x {columns}); {device}")
        program = steps.timed("compile", lambda: device.compile(SOURCE), "host's compiler")
        on_a, on_b = steps.timed("copy in", lambda: (device.to_device(a), device.to_device(b)), "guest -> device")
        on_c = device.empty((rows, columns))
        kernel = program.matmul[(-(-columns // TILE), -(-rows // TILE)), (TILE, TILE)]
        steps.timed("launch", lambda: kernel(rows, inner, columns, on_a, on_b, on_c), where)
        c = steps.timed("copy out", on_c.get, "device -> guest")
    reference = a @ b
    error = float(np.abs(c - reference).max())
    fine = bool(np.allclose(c, reference, rtol=1e-4, atol=1e-3))
    print(f"largest difference to numpy: {error:.2g} ({'right' if fine else 'WRONG'})")
    print(steps)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
