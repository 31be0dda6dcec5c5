"""Rotates a picture with a texture: the device filters between texels.

python3 examples/rotate.py [--degrees 30]
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import guest_driver as vgc

SIZE, TILE = 256, 16

SOURCE = """
extern "C" __global__ void rotate(cudaTextureObject_t picture, int size, float sine, float cosine, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = x + 0.5f - size / 2, v = y + 0.5f - size / 2;
    out[y * size + x] = tex2D<float>(picture, u * cosine - v * sine + size / 2, u * sine + v * cosine + size / 2);
}
"""


def rotated(picture: np.ndarray, sine: float, cosine: float) -> np.ndarray:
    """Same as the kernel, in numpy."""
    v, u = np.mgrid[:SIZE, :SIZE] + 0.5 - SIZE / 2
    x, y = u * cosine - v * sine + SIZE / 2 - 0.5, u * sine + v * cosine + SIZE / 2 - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right, down = x - left, y - top
    framed = np.pad(picture, SIZE)  # the border is black
    corner = [[framed[top + j + SIZE, left + i + SIZE] for i in (0, 1)] for j in (0, 1)]
    rows = [corner[j][0] * (1 - right) + corner[j][1] * right for j in (0, 1)]
    return np.asarray(rows[0] * (1 - down) + rows[1] * down)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degrees", type=float, default=30, help="angle (default: 30)")
    angle = math.radians(parser.parse_args().degrees)
    sine, cosine = math.sin(angle), math.cos(angle)
    across, down = np.meshgrid(np.linspace(0, 12, SIZE), np.linspace(0, 9, SIZE))
    picture = (np.sin(across) * np.cos(down)).astype(np.float32)
    with vgc.Device() as device:
        program = device.compile(SOURCE)
        array, out = device.texture_array((SIZE, SIZE)), device.empty((SIZE, SIZE))
        array.set(picture)
        texture = device.texture(array, linear=True, edge="border")
        program.rotate[(SIZE // TILE, SIZE // TILE), (TILE, TILE)](texture, SIZE, sine, cosine, out)
        error = float(np.abs(out.get() - rotated(picture, sine, cosine)).max())
    fine = error < 0.01  # weights of texels have 8 bits
    print(f"{SIZE} x {SIZE} pixels; largest difference to numpy: {error:.2g} ({'right' if fine else 'WRONG'})")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
