"""A child of a process that has computed cannot use its device, which the parent goes on with."""

import os

import numpy as np
from tinygrad import Tensor

kept = Tensor(np.arange(1000, dtype=np.int32)).realize()
child = os.fork()
if child == 0:
    try:
        kept.numpy()
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.array_equal((kept + 1).numpy(), np.arange(1, 1001))
print("the parent computes")
