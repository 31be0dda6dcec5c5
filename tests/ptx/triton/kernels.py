"""Kernels in Triton, of which the folder keeps the PTX that Triton made: tests and rows of the bench run it.

``python -m tests.ptx.triton.kernels`` compiles them anew, without a GPU, and needs Triton (`pip install triton`); the version
stands in modules.json, beside threads of a block and bytes of shared memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

with suppress(ModuleNotFoundError):  # where the modules only run
    import triton
    import triton.language as tl

HERE = Path(__file__).resolve().parent
ADD_BLOCK, SOFTMAX_BLOCK, MATMUL_TILE, MATMUL_DEPTH = 1024, 1024, 64, 32
SORT_SIZE, BINS, HEAD = 128, 64, 32


def add(x: tl.tensor, y: tl.tensor, out: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


def softmax(x: tl.tensor, out: tl.tensor, columns: tl.tensor, block: tl.constexpr) -> None:
    at = tl.arange(0, block)
    place = tl.program_id(0) * columns + at
    values = tl.load(x + place, at < columns, -float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + place, powers / tl.sum(powers, 0), at < columns)


def matmul(
    a: tl.tensor, b: tl.tensor, c: tl.tensor, n: tl.tensor, k: tl.tensor, tile: tl.constexpr, depth: tl.constexpr
) -> None:
    rows = tl.program_id(0) * tile + tl.arange(0, tile)[:, None]
    columns = tl.program_id(1) * tile + tl.arange(0, tile)[None, :]
    total = tl.zeros((tile, tile), tl.float32)
    for at in range(0, k, depth):
        steps = at + tl.arange(0, depth)
        total = tl.dot(tl.load(a + rows * k + steps[None, :]), tl.load(b + steps[:, None] * n + columns), total)
    tl.store(c + rows * n + columns, total)


def attention(q: tl.tensor, k: tl.tensor, v: tl.tensor, out: tl.tensor, n: tl.tensor, head: tl.constexpr) -> None:
    steps, of_head = tl.arange(0, 32), tl.arange(0, head)
    rows = tl.program_id(0) * 32 + steps
    query = tl.load(q + rows[:, None] * head + of_head[None, :])
    most = tl.full((32,), -float("inf"), tl.float32)
    weights, total = tl.zeros((32,), tl.float32), tl.zeros((32, head), tl.float32)
    for at in range(0, n, 32):
        keys = tl.load(k + (at + steps)[None, :] * head + of_head[:, None])
        scores = tl.dot(query, keys)
        above = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp(scores - above[:, None])
        rescale = tl.exp(most - above)
        values = tl.load(v + (at + steps)[:, None] * head + of_head[None, :])
        total = tl.dot(powers.to(tl.float16), values, total * rescale[:, None])
        weights = weights * rescale + tl.sum(powers, 1)
        most = above
    tl.store(out + rows[:, None] * head + of_head[None, :], total / weights[:, None])


def sort(x: tl.tensor, out: tl.tensor, size: tl.constexpr) -> None:
    at = tl.arange(0, size)
    tl.store(out + at, tl.sort(tl.load(x + at)))


def histogram(x: tl.tensor, counts: tl.tensor, n: tl.tensor, block: tl.constexpr, bins: tl.constexpr) -> None:
    at = tl.program_id(0) * block + tl.arange(0, block)
    found = tl.histogram(tl.load(x + at, at < n, 0), bins, mask=at < n)
    tl.atomic_add(counts + tl.arange(0, bins), found)


def random(out: tl.tensor, seed: tl.tensor, block: tl.constexpr) -> None:
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.rand(seed, at))


def prints(x: tl.tensor, n: tl.tensor, block: tl.constexpr) -> None:
    at = tl.arange(0, block)
    value = tl.load(x + at, at < n, 0)
    tl.device_print("value", value)
    tl.device_assert(value < 100, "too large", mask=at < n)


def _compile(function: Callable[..., None], types: str, options: dict[str, int], **constants: int) -> dict[str, int]:
    """Writes a kernel's module; returns its launch. A type that ends with ``:16`` is that of multiples of 16."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = triton.jit(function)
    words = [*types.split(), *["constexpr"] * len(constants)]
    signature = {name: word.removesuffix(":16") for name, word in zip(kernel.arg_names, words, strict=True)}
    multiples = {(at,): [["tt.divisibility", 16]] for at, word in enumerate(words) if word.endswith(":16")}
    source = ASTSource(kernel, signature, constants, multiples)
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
    (HERE / f"{function.__name__}.ptx").write_text(made.asm["ptx"])
    return {"block": 32 * made.metadata.num_warps, "shared_bytes": made.metadata.shared}


def main() -> None:
    triton.knobs.compilation.disable_line_info = True  # which has this machine's folders in it
    float32, int32, float16 = "*fp32:16", "*i32:16", "*fp16:16"
    four, pipeline = {"num_warps": 4}, {"num_warps": 4, "num_stages": 3}
    products = f"{float16} {float16} {float32} i32:16 i32:16"
    launches: dict[str, object] = {
        "made_with": f"Triton {triton.__version__}",
        "add": _compile(add, f"{float32} {float32} {float32} i32", four, block=ADD_BLOCK),
        "softmax": _compile(softmax, f"{float32} {float32} i32", four, block=SOFTMAX_BLOCK),
        "matmul": _compile(matmul, products, pipeline, tile=MATMUL_TILE, depth=MATMUL_DEPTH),
        "attention": _compile(attention, f"{float16} {float16} {float16} {float32} i32", four, head=HEAD),
        "sort": _compile(sort, f"{float32} {float32}", {"num_warps": 1}, size=SORT_SIZE),
        "histogram": _compile(histogram, f"{int32} {int32} i32", four, block=256, bins=BINS),
        "random": _compile(random, f"{float32} i32", four, block=256),
        "prints": _compile(prints, f"{float32} i32", {"num_warps": 1, "debug": True}, block=32),
    }
    (HERE / "modules.json").write_text(json.dumps(launches, indent=1) + "\n")


if __name__ == "__main__":
    main()
