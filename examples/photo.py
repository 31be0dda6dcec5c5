"""Filters a photograph on the device: Gaussian blur, Sobel edges, histogram equalisation, all checked with numpy.

    python3 examples/photo.py photo.png --output pictures/

Reads any format of Pillow, or a .npy array of shape (height, width, 3). Writes one PNG per filter.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import guest_driver as vgc
from guest_driver.steps import Steps

SIGMA = 3.0
RADIUS = 8
BLOCK = (16, 16)

SOURCE = r"""
typedef unsigned char u8;
typedef unsigned int u32;

__device__ int clamped(int at, int size) { return min(max(at, 0), size - 1); }

// One direction of a separable blur: `along_x` or down the columns. Three channels; the edge repeats.
extern "C" __global__ void blur(int width, int height, int radius, const float *weights, int along_x, const u8 *in,
                                u8 *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    for (int channel = 0; channel < 3; channel++) {
        float sum = 0;
        for (int i = -radius; i <= radius; i++) {
            int from_x = along_x ? clamped(x + i, width) : x, from_y = along_x ? y : clamped(y + i, height);
            sum += weights[i + radius] * in[(from_y * width + from_x) * 3 + channel];
        }
        out[(y * width + x) * 3 + channel] = (u8)(sum + 0.5f);
    }
}

extern "C" __global__ void brightness(int count, const u8 *in, u8 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = (77 * in[3 * i] + 150 * in[3 * i + 1] + 29 * in[3 * i + 2]) >> 8;
}

extern "C" __global__ void sobel(int width, int height, const u8 *in, u8 *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int p[3][3];
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            p[dy + 1][dx + 1] = in[clamped(y + dy, height) * width + clamped(x + dx, width)];
    int gx = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
    int gy = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
    out[y * width + x] = min(abs(gx) + abs(gy), 255);
}

// Each block counts in shared memory, then adds its counts to the totals.
extern "C" __global__ void histogram(int count, const u8 *in, u32 *bins)
{
    __shared__ u32 own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&own[in[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

// One block of 256 threads: running sum of the histogram, and from it the new value of each old one.
extern "C" __global__ void equalising_table(int count, const u32 *bins, u8 *table)
{
    __shared__ u32 sum[256];
    __shared__ u32 lowest;
    int i = threadIdx.x;
    sum[i] = bins[i];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        u32 before = i >= step ? sum[i - step] : 0;
        __syncthreads();
        sum[i] += before;
        __syncthreads();
    }
    if (sum[i] > 0 && (i == 0 || sum[i - 1] == 0))
        lowest = sum[i];
    __syncthreads();
    u32 range = count - lowest;
    table[i] = range == 0 || sum[i] < lowest ? i : (unsigned long long)(sum[i] - lowest) * 255 / range;
}

extern "C" __global__ void look_up(int count, const u8 *table, const u8 *in, u8 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = table[in[i]];
}
"""

Picture = NDArray[np.uint8]


def gaussian() -> NDArray[np.float32]:
    """Weights of the blur; their sum is 1."""
    at = np.arange(-RADIUS, RADIUS + 1)
    weights = np.exp(-(at**2) / (2 * SIGMA**2))
    normal: NDArray[np.float32] = (weights / weights.sum()).astype(np.float32)
    return normal


# ---- reference results with numpy ----------------------------------------------------------------


def numpy_blur(photo: Picture) -> Picture:
    for axis in (1, 0):
        padding = [(RADIUS, RADIUS) if one == axis else (0, 0) for one in range(3)]
        padded = np.pad(photo, padding, mode="edge").astype(np.float32)
        size = photo.shape[axis]
        parts = [w * padded.take(range(i, i + size), axis) for i, w in enumerate(gaussian())]
        blurred: NDArray[np.float32] = np.sum(parts, axis=0, dtype=np.float32)
        photo = (blurred + np.float32(0.5)).astype(np.uint8)
    return photo


def numpy_brightness(photo: Picture) -> Picture:
    weighted: NDArray[np.int64] = photo.astype(np.int64) @ np.array([77, 150, 29])
    return (weighted >> 8).astype(np.uint8)


def numpy_sobel(grey: Picture) -> Picture:
    height, width = grey.shape
    padded = np.pad(grey, 1, mode="edge").astype(np.int32)
    p = {(y, x): padded[y : y + height, x : x + width] for y in range(3) for x in range(3)}
    gx = p[0, 2] + 2 * p[1, 2] + p[2, 2] - p[0, 0] - 2 * p[1, 0] - p[2, 0]
    gy = p[2, 0] + 2 * p[2, 1] + p[2, 2] - p[0, 0] - 2 * p[0, 1] - p[0, 2]
    return np.minimum(abs(gx) + abs(gy), 255).astype(np.uint8)


def numpy_equalise(grey: Picture) -> Picture:
    sums = np.bincount(grey.ravel(), minlength=256).cumsum()
    lowest = sums[sums > 0][0]
    if lowest == grey.size:
        return grey
    table = np.maximum(sums - lowest, 0) * 255 // (grey.size - lowest)
    return np.where(sums < lowest, np.arange(256), table).astype(np.uint8)[grey]


# ---- on the device -------------------------------------------------------------------------------


@dataclass
class Filters:
    """Filters of SOURCE over pictures on the device."""

    device: vgc.Device
    program: vgc.Program
    width: int
    height: int

    def _tiles(self) -> tuple[int, int]:
        return -(-self.width // BLOCK[0]), -(-self.height // BLOCK[1])

    def _grey_array(self) -> vgc.DeviceArray:
        return self.device.empty((self.height, self.width), "uint8")

    def blur(self, photo: vgc.DeviceArray) -> vgc.DeviceArray:
        weights = self.device.to_device(gaussian())
        between, out = (self.device.empty(photo.shape, photo.dtype) for _ in range(2))
        kernel = self.program.blur[self._tiles(), BLOCK]
        kernel(self.width, self.height, RADIUS, weights, 1, photo, between)
        kernel(self.width, self.height, RADIUS, weights, 0, between, out)
        return out

    def brightness(self, photo: vgc.DeviceArray) -> vgc.DeviceArray:
        out, count = self._grey_array(), self.width * self.height
        self.program.brightness[-(-count // 256), 256](count, photo, out)
        return out

    def sobel(self, grey: vgc.DeviceArray) -> vgc.DeviceArray:
        out = self._grey_array()
        self.program.sobel[self._tiles(), BLOCK](self.width, self.height, grey, out)
        return out

    def equalise(self, grey: vgc.DeviceArray) -> vgc.DeviceArray:
        out, count = self._grey_array(), self.width * self.height
        bins, table = self.device.zeros(256, "uint32"), self.device.empty(256, "uint8")
        self.program.histogram[16, 256](count, grey, bins)
        self.program.equalising_table[1, 256](count, bins, table)
        self.program.look_up[-(-count // 256), 256](count, table, grey, out)
        return out


def compute(device: vgc.Device, photo: Picture, steps: Steps) -> dict[str, Picture]:
    """Runs all filters on the device; returns results by name."""
    where = device.info().engine_name
    height, width, _ = photo.shape
    program = steps.timed("compile", lambda: device.compile(SOURCE), "host's compiler")
    filters = Filters(device, program, width, height)
    on_device = steps.timed("copy in", lambda: device.to_device(photo), "guest -> device")
    blurred = steps.timed("launch blur", lambda: filters.blur(on_device), where)
    grey = steps.timed("launch brightness", lambda: filters.brightness(on_device), where)
    edges = steps.timed("launch sobel", lambda: filters.sobel(grey), where)
    equalised = steps.timed("launch equalise", lambda: filters.equalise(grey), where)
    results = {"blur": blurred, "sobel": edges, "equalised": equalised}
    return steps.timed("copy out", lambda: {name: array.get() for name, array in results.items()}, "device -> guest")


def check(photo: Picture, results: dict[str, Picture]) -> bool:
    """Compares results with numpy and prints the differences. A blur may be off by one, if a sum ends on a half."""
    grey = numpy_brightness(photo)
    expected = {"blur": numpy_blur(photo), "sobel": numpy_sobel(grey), "equalised": numpy_equalise(grey)}
    fine = True
    for name, picture in results.items():
        difference = int(np.abs(picture.astype(int) - expected[name].astype(int)).max())
        allowed = 1 if name == "blur" else 0
        fine = fine and difference <= allowed
        print(f"{name:<10} largest difference to numpy: {difference} ({'right' if difference <= allowed else 'WRONG'})")
    return fine


def load(path: Path) -> Picture:
    picture: Any = np.load(path) if path.suffix == ".npy" else np.asarray(Image.open(path).convert("RGB"))
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise SystemExit(f"{path}: {picture.dtype} of shape {picture.shape}; needed: uint8, (height, width, 3)")
    return np.ascontiguousarray(picture)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the results")
    arguments = parser.parse_args()
    photo = load(arguments.picture)
    steps = Steps()
    with vgc.Device() as device:
        print(f"{arguments.picture}: {photo.shape[1]} x {photo.shape[0]} pixels; {device}")
        results = compute(device, photo, steps)
    fine = check(photo, results)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, picture in {"original": photo, **results}.items():
        Image.fromarray(picture).save(arguments.output / f"{arguments.picture.stem}-{name}.png")
    print(steps)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
