"""Product of matrices by a Triton kernel that another machine compiled, without a GPU there.

python3 examples/ptx/matmul_triton.py compile        with `pip install triton`: writes matmul_triton.ptx and .json
python3 examples/ptx/matmul_triton.py run [--size 300]    in the guest, where there is no Triton

A module of Triton's has one kernel. Its metadata tells how many threads a block has and how much shared memory; after the
kernel's own parameters come two pointers to scratch memory, null if the kernel needs none.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path

with suppress(ModuleNotFoundError):  # in the guest
    import triton
    import triton.language as tl

MODULE = Path(__file__).with_suffix(".ptx")
LAUNCH = MODULE.with_suffix(".json")
TILE = 32


def matmul(
    a: tl.tensor, b: tl.tensor, c: tl.tensor, m: tl.tensor, n: tl.tensor, k: tl.tensor, tile: tl.constexpr
) -> None:
    """Kernel: a tile of c = a b, of matrices of fp16 by rows, c of fp32."""
    steps = tl.arange(0, tile)
    rows = tl.program_id(0) * tile + steps[:, None]
    columns = tl.program_id(1) * tile + steps[None, :]
    total = tl.zeros((tile, tile), tl.float32)
    for at in range(0, k, tile):
        left = tl.load(a + rows * k + at + steps[None, :], (rows < m) & (at + steps[None, :] < k), 0.0)
        right = tl.load(b + (at + steps[:, None]) * n + columns, (at + steps[:, None] < k) & (columns < n), 0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows * n + columns, total, (rows < m) & (columns < n))


def compile_kernel() -> None:
    """Writes the module, and what a launch needs beside its arguments."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    triton.knobs.compilation.disable_line_info = True  # which has this machine's folders in it
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32", "tile": "constexpr"}
    source = ASTSource(triton.jit(matmul), signature, {"tile": TILE})
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 1})
    MODULE.write_text(made.asm["ptx"])
    block = 32 * made.metadata.num_warps
    launch = {"made_with": f"Triton {triton.__version__}", "block": block, "shared_bytes": made.metadata.shared}
    LAUNCH.write_text(json.dumps(launch) + "\n")


def run(size: int) -> int:
    """Multiplies matrices on the device, and checks the result with numpy."""
    import numpy as np

    import guest_driver as vgc

    launch = json.loads(LAUNCH.read_text())
    m, n, k = size, size + 5, size // 2 + 3  # no multiples of the tile
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    with vgc.Device() as device:
        kernel = device.load_ptx(MODULE).matmul
        on_a, on_b, on_c = device.to_device(a), device.to_device(b), device.empty((m, n))
        grid = -(-m // TILE), -(-n // TILE)
        kernel[grid, launch["block"], launch["shared_bytes"]](on_a, on_b, on_c, m, n, k, 0, 0)
        c = on_c.get()
    is_right = bool(np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-3))
    print(f"({m} x {k}) @ ({k} x {n}): {'right' if is_right else 'wrong'}")
    return 0 if is_right else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=["compile", "run"])
    parser.add_argument("--size", type=int, default=300, help="rows of the first matrix (default: 300)")
    given = parser.parse_args()
    if given.half == "run":
        return run(given.size)
    compile_kernel()
    return 0


if __name__ == "__main__":
    sys.exit(main())
