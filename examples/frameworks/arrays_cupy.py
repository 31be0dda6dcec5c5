"""Computes with CuPy's arrays and kernels on the host's GPU; CuPy is unchanged from PyPI, built with this toolkit:

vgc exec python examples/frameworks/arrays_cupy.py
"""

from __future__ import annotations

import cupy as cp
import numpy as np

SMOOTH = r"""
extern "C" __global__ void smooth(const float *x, float *y, int n) // each block has its part of x in shared memory
{
    __shared__ float part[BLOCK + 2];
    const int i = blockIdx.x * BLOCK + threadIdx.x, at = threadIdx.x + 1;
    part[at] = i < n ? x[i] : 0;
    if (threadIdx.x == 0)
        part[0] = i > 0 ? x[i - 1] : 0;
    if (threadIdx.x == BLOCK - 1)
        part[BLOCK + 1] = i + 1 < n ? x[i + 1] : 0;
    __syncthreads();
    if (i < n)
        y[i] = part[at - 1] / 4 + part[at] / 2 + part[at + 1] / 4;
}
"""
BLOCK = 128

random = np.random.default_rng(0)
x, y = random.random(10_000, np.float32), random.random(10_000, np.float32)
device_x, device_y = cp.asarray(x), cp.asarray(y)

# Operations of arrays are kernels that CuPy writes and NVRTC compiles.
result = cp.sqrt(3 * device_x + device_y**2)
assert np.allclose(result.get(), np.sqrt(3 * x + y**2), rtol=1e-5)

polar = cp.ElementwiseKernel("float32 x, float32 y", "float32 radius", "radius = hypotf(x, y)", "polar")
assert np.allclose(polar(device_x, device_y).get(), np.hypot(x, y), rtol=1e-5)

distance = cp.ReductionKernel("T x, T y", "T d", "abs(x - y)", "max(a, b)", "d = a", "0", "distance")
assert distance(device_x, device_y).get() == np.abs(x - y).max()

smooth = cp.RawModule(code=SMOOTH, options=(f"-DBLOCK={BLOCK}",)).get_function("smooth")
smoothed = cp.empty_like(device_x)
smooth((-(-x.size // BLOCK),), (BLOCK,), (device_x, smoothed, np.int32(x.size)))
assert np.allclose(smoothed.get(), np.convolve(x, [0.25, 0.5, 0.25], "same"), rtol=1e-5)

# Sums are CUB's, if CuPy was built with the host's release of it; products, decompositions and FFTs are the thin libraries'.
assert np.isclose(device_x.sum(), x.sum(), rtol=1e-4)
matrix = x.reshape(100, 100) + 10 * np.eye(100, dtype=np.float32)
device_matrix = cp.asarray(matrix)
assert np.allclose((device_matrix @ device_matrix.T).get(), matrix @ matrix.T, rtol=1e-4)
solved = cp.linalg.solve(device_matrix, device_y[:100])
assert np.allclose(matrix @ solved.get(), y[:100], atol=1e-3)
assert np.allclose(cp.fft.ifft(cp.fft.fft(device_x)).real.get(), x, atol=1e-4)

name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
print(f"{name}: arrays, kernels of elements, a reduction, CUDA C, sums, matrices and an FFT are right")
