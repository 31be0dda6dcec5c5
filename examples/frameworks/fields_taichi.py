"""Computes with Taichi's fields and kernels on the host's GPU; Taichi is unchanged from PyPI:

vgc exec python examples/frameworks/fields_taichi.py
"""

import numpy as np
import taichi as ti

SIZE = 128
STEPS = 50

ti.init(arch=ti.cuda, device_memory_GB=0.02, enable_fallback=False)
heat = ti.field(ti.f32, (2, SIZE, SIZE))
total = ti.field(ti.f64, ())


@ti.kernel
def spread(old: ti.i32, new: ti.i32):  # type: ignore[no-untyped-def]  # noqa: ANN201  Taichi takes no None
    for i, j in ti.ndrange((1, SIZE - 1), (1, SIZE - 1)):
        around = heat[old, i - 1, j] + heat[old, i + 1, j] + heat[old, i, j - 1] + heat[old, i, j + 1]
        heat[new, i, j] = heat[old, i, j] + 0.2 * (around - 4 * heat[old, i, j])


@ti.kernel
def add_up(of: ti.i32):  # type: ignore[no-untyped-def]  # noqa: ANN201
    for i, j in ti.ndrange(SIZE, SIZE):
        total[None] += heat[of, i, j]  # atomic


plate = np.zeros((SIZE, SIZE), np.float32)
plate[SIZE // 4 : SIZE // 2, SIZE // 4 : SIZE // 2] = 100
heat.from_numpy(np.stack([plate, plate]))
for step in range(STEPS):
    spread(step % 2, 1 - step % 2)
    inner = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    plate[1:-1, 1:-1] = inner + np.float32(0.2) * (around - 4 * inner)
add_up(STEPS % 2)
result = heat.to_numpy()[STEPS % 2]
assert np.allclose(result, plate, rtol=1e-4, atol=1e-3)
assert abs(total[None] - plate.sum(dtype=np.float64)) < 1
print(f"heat after {STEPS} steps is right, and {total[None]:.0f} of it is there")
