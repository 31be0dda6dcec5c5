"""Computes with PyCUDA's arrays and kernels on the host's GPU; PyCUDA is unchanged from PyPI, built with this toolkit:

vgc exec python examples/frameworks/arrays_pycuda.py
"""

from __future__ import annotations

import numpy as np
from pycuda import autoinit, driver, gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel

SMOOTH = """
__global__ void smooth(const float *x, float *y, int n) // each block has its part of x in shared memory
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
device_x, device_y = gpuarray.to_gpu(x), gpuarray.to_gpu(y)

result = (3 * device_x - device_y / 2).get()
assert np.allclose(result, 3 * x - y / 2, rtol=1e-5)

polar = ElementwiseKernel("float *x, float *y, float *radius", "radius[i] = hypotf(x[i], y[i])", "polar")
radius = gpuarray.empty_like(device_x)
polar(device_x, device_y, radius)
assert np.allclose(radius.get(), np.hypot(x, y), rtol=1e-5)

distance = ReductionKernel(
    np.float32, neutral="0", reduce_expr="fmaxf(a, b)", map_expr="fabsf(x[i] - y[i])", arguments="float *x, float *y"
)
assert distance(device_x, device_y).get() == np.abs(x - y).max()

smooth = SourceModule(SMOOTH, options=[f"-DBLOCK={BLOCK}"]).get_function("smooth")
smoothed = np.empty_like(x)
smooth(driver.In(x), driver.Out(smoothed), np.int32(x.size), block=(BLOCK, 1, 1), grid=(-(-x.size // BLOCK), 1))
assert np.allclose(smoothed, np.convolve(x, [0.25, 0.5, 0.25], "same"), rtol=1e-5)
print(f"{autoinit.device.name()}: arrays, kernels of elements, a reduction and a kernel in CUDA C are right")
