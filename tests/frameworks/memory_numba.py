"""More memory than the VM has is refused, and the process goes on."""

import numpy as np
from numba import cuda


@cuda.jit
def add_one(x: np.ndarray) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


kept = cuda.to_device(np.arange(1000))
try:
    cuda.device_array(1 << 40, np.uint8)
except cuda.cudadrv.driver.CudaAPIError as error:
    print(f"{type(error).__name__}: {error}")
add_one[8, 128](kept)
assert np.array_equal(kept.copy_to_host(), np.arange(1, 1001))
print("computes after it")
