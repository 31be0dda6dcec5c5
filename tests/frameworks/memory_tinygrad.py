"""More memory than the VM has is refused, and the process goes on."""

import numpy as np
from tinygrad import Tensor

kept = Tensor(np.arange(1000, dtype=np.int32)).realize()
try:
    (Tensor.empty(1 << 30) + 1).realize()
except (MemoryError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")
assert np.array_equal((kept + 1).numpy(), np.arange(1, 1001))
print("computes after it")
