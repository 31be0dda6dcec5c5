"""Random kernels with traps, early returns, switches and pointers to shared memory compute what their model computes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.unit.cpu_odd_random import Thread, source_of, statements
from tests.unit.cpu_rig import rig

THREADS = 64
BATCH = 20


@pytest.mark.parametrize("first", range(0, 120, BATCH))
def test_random_control_flow_computes_as_its_model(first: int) -> None:
    bodies = {
        f"k{seed}": statements(random.Random(seed)) + statements(random.Random(~seed))
        for seed in range(first, first + BATCH)
    }
    source = "".join(
        f'extern "C" __global__ void {name}(unsigned *out, const unsigned *in) {{\n'
        "    __shared__ unsigned s[64], t[64];\n    unsigned x = threadIdx.x, a = in[x], *p = s;\n"
        f"    s[x] = a; t[x] = 3 * a; __syncthreads();\n{source_of(body)}    out[x] = a;\n}}\n"
        for name, body in bodies.items()
    )
    values = np.random.default_rng(first).integers(0, 1000, THREADS).astype(np.uint32)
    with rig(pes=1) as gpu:
        gpu.load(source)
        given = gpu.array(THREADS, np.uint32, values)
        for name, body in bodies.items():
            out = gpu.array(THREADS, np.uint32)
            gpu.launch(name, 1, THREADS, out, given)
            expected = [Thread(x, values.tolist()).result(body) for x in range(THREADS)]
            assert out.tolist() == expected, f"{name}:\n{source_of(body)}"
