"""More memory than the VM has is refused, and the process goes on."""

import numpy as np
from pycuda import autoinit, driver, gpuarray

kept = gpuarray.arange(1000, dtype=np.int32)
try:
    driver.mem_alloc(1 << 40)
except driver.MemoryError as error:
    print(f"{type(error).__name__}: {error}")
assert np.array_equal((kept + 1).get(), np.arange(1, 1001))
print("computes after it")
assert autoinit.context is not None
