"""Results of operations that are undefined in C++: those of a GPU, as the table in the engine's README says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, compile_image, rig

INTEGERS: Final[dict[str, tuple[str, Any]]] = {
    "s32": ("int", np.int32),
    "u32": ("unsigned", np.uint32),
    "s64": ("long long", np.int64),
    "u64": ("unsigned long long", np.uint64),
}
FLOATS: Final[dict[str, tuple[str, Any]]] = {"f32": ("float", np.float32), "f64": ("double", np.float64)}


def source() -> str:
    parts = []
    for name, (c, _dtype) in INTEGERS.items():
        parts.append(
            f'extern "C" __global__ void {name}(const {c} *a, const {c} *b, const int *n, {c} *o) {{\n'
            f"    const int i = threadIdx.x; o += 4 * i;\n"
            f"    o[0] = a[i] / b[i]; o[1] = a[i] % b[i]; o[2] = a[i] << n[i]; o[3] = a[i] >> n[i];\n}}\n"
        )
        for short, (real, _dtype) in FLOATS.items():
            parts.append(
                f'extern "C" __global__ void {short}_{name}(const {real} *x, {c} *o) {{ o[threadIdx.x] = ({c})x[threadIdx.x]; }}\n'
            )
    for short, (real, _dtype) in FLOATS.items():
        parts.append(
            f'extern "C" __global__ void {short}_rounded(const {real} *x, long long *o) {{\n'
            f"    const int i = threadIdx.x; o[4 * i] = llrint(x[i]); o[4 * i + 1] = llround(x[i]);\n"
            f"    o[4 * i + 2] = lrint(x[i]); o[4 * i + 3] = lround(x[i]);\n}}\n"
        )
    parts.append(
        'extern "C" __global__ void extremes(const float *a, const float *b, float *o) {\n'
        "    const int i = threadIdx.x; o[4 * i] = fminf(a[i], b[i]); o[4 * i + 1] = fmaxf(a[i], b[i]);\n"
        "    o[4 * i + 2] = (float)fmin((double)a[i], (double)b[i]); o[4 * i + 3] = max(a[i], b[i]);\n}\n"
        'extern "C" __global__ void constants(int *o, int zero) { o[0] = 5 / zero; o[1] = zero ? 1 : 7 % zero; o[2] = 1 << (zero + 40); }\n'
        'extern "C" __global__ void outside(const int *in, int *o) { o[threadIdx.x] = __shfl_sync(0xffffu, in[threadIdx.x], 20); }\n'
    )
    return "".join(parts)


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(source(), ("-w",))[0]


@pytest.fixture
def gpu(image: bytes) -> Iterator[Rig]:
    with rig(pes=1) as made:
        made.load_image(image)
        yield made


def run(gpu: Rig, name: str, out: Any, times: int, *inputs: Any) -> Any:
    arrays = [gpu.array(len(values), values.dtype, values) for values in inputs]
    result = gpu.array((len(inputs[0]), times), out)
    gpu.launch(name, 1, len(inputs[0]), *arrays, result)
    return result


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(gpu: Rig, name: str) -> None:
    """Division by zero gives ones. The least number by -1 is itself. Shifts by too much leave zeroes, or the sign."""
    dtype = INTEGERS[name][1]
    limits = np.iinfo(dtype)
    rows = [
        (a, b, n)
        for a in (7, limits.max, limits.min)
        for b in (0, 3, -1)
        for n in (0, limits.bits - 1, limits.bits, 100, -1)
    ]
    a, b = (np.array([row[i] % (1 << limits.bits) for row in rows], np.uint64).astype(dtype) for i in (0, 1))
    n = np.array([row[2] for row in rows])
    got = run(gpu, name, dtype, 4, a, b, n.astype(np.int32))
    for row, x, y, by in zip(got, a, b, n, strict=True):
        assert [int(v) for v in row] == [
            int(np.uint64(v % (1 << 64)).astype(dtype)) for v in defined(int(x), int(y), int(by), limits)
        ]


def defined(a: int, b: int, by: int, limits: Any) -> list[int]:
    quotient = -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    rest = -1 if b == 0 else a - quotient * b
    fits = 0 <= by < limits.bits
    return [quotient, rest, a << by if fits else 0, a >> by if fits else (-1 if a < 0 else 0)]


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("from_", FLOATS)
def test_conversions_of_floats(gpu: Rig, from_: str, to: str) -> None:
    """Saturated. Not-a-number becomes 0 from float to 32 bits, otherwise the highest bit."""
    dtype, real = INTEGERS[to][1], FLOATS[from_][1]
    limits = np.iinfo(dtype)
    x = np.array(
        [
            0,
            -0.0,
            1.9,
            -1.9,
            2.0**31,
            -(2.0**31) - 1,
            2.0**32,
            2.0**63,
            2.0**64,
            -(2.0**63),
            1e30,
            -1e30,
            np.inf,
            -np.inf,
            np.nan,
            -np.nan,
        ],
        real,
    )
    got = [int(v) for v in run(gpu, f"{from_}_{to}", dtype, 1, x)[:, 0]]
    of_nan = 0 if (from_, limits.bits) == ("f32", 32) else int(np.uint64(1 << (limits.bits - 1)).astype(dtype))
    wanted = [
        of_nan if np.isnan(v) else min(max(int(v) if np.isfinite(v) else int(np.sign(v)) << 70, limits.min), limits.max)
        for v in x
    ]
    assert got == wanted


@pytest.mark.parametrize("from_", FLOATS)
def test_rounding_to_integers(gpu: Rig, from_: str) -> None:
    """Saturated, and the least integer for not-a-number, as conversions are."""
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    x = np.array([2.5, -2.5, 0.49, 2.0**62, 2.0**63, 1e30, -1e30, np.inf, -np.inf, np.nan], FLOATS[from_][1])
    extremes = [2**62, most, most, least, most, least, least]
    rint, round_ = [2, -2, 0, *extremes], [3, -3, 0, *extremes]
    got = run(gpu, f"{from_}_rounded", np.int64, 4, x)
    assert [list(column) for column in got.T] == [rint, round_, rint, round_]


def test_minimum_and_maximum_take_the_number(gpu: Rig) -> None:
    a, b = np.array([np.nan, 1, np.nan, 2, -np.inf], np.float32), np.array([1, np.nan, np.nan, 3, np.nan], np.float32)
    got = run(gpu, "extremes", np.float32, 4, a, b)
    assert np.array_equal(got[:, 0], np.fmin(a, b), equal_nan=True)
    assert np.array_equal(got[:, 2], np.fmin(a, b), equal_nan=True)
    assert np.array_equal(got[:, 1], np.fmax(a, b), equal_nan=True)
    assert np.array_equal(got[:, 3], np.fmax(a, b), equal_nan=True)


def test_what_the_optimiser_sees_is_defined_too(gpu: Rig) -> None:
    out = gpu.array(3, np.int32)
    gpu.launch("constants", 1, 1, out, np.int32(0))
    assert list(out) == [-1, -1, 0]


def test_division_by_literal_zero() -> None:
    source = 'extern "C" __global__ void f(int *x, unsigned long long *y) { x[0] = x[1] / 0; y[0] = y[1] % 0; x[2] = x[3] << 40; }\n'
    with rig(pes=1) as gpu:
        gpu.load(source, ("-w",))
        x, y = gpu.array(4, np.int32, 5), gpu.array(2, np.uint64, 6)
        gpu.launch("f", 1, 1, x, y)
        assert list(x) == [-1, 5, 0, 5]
        assert list(y) == [2**64 - 1, 6]


def test_shuffle_from_a_lane_outside_of_the_mask(gpu: Rig) -> None:
    """A lane that does not take part gives no value of its own: one's own is taken."""
    values = gpu.array(16, np.int32, np.arange(16) + 100)
    out = gpu.array(16, np.int32)
    gpu.launch("outside", 1, 16, values, out)
    assert list(out) == list(range(100, 116))


UNWRITTEN = r"""
__device__ void store(int value, bool use, int *to) { *to = use ? value : -1; }
extern "C" __global__ void passed(int *o) {
    const int x = threadIdx.x; int value;
    if (x % 2) value = 3 * x;
    store(value, x % 2, &o[x]);
}
extern "C" __global__ void received(int *count, int *o) { // as libraries add up the atomics of a warp
    const int x = threadIdx.x;
    if (x % 3 == 0) {
        const unsigned active = __activemask(), before = __popc(active & ((1u << x) - 1));
        int place;
        if (before == 0) place = atomicAdd(count, __popc(active));
        place = __shfl_sync(active, place, __ffs(active) - 1);
        o[place + before] = x;
    }
}
"""


@pytest.fixture(scope="module")
def unwritten() -> Iterator[Rig]:
    with rig(pes=1) as made:
        made.load(UNWRITTEN, ("-w",))
        yield made


def test_variables_without_a_value_are_passed(unwritten: Rig) -> None:
    """Threads that do not use such a value are not held to be impossible."""
    out = unwritten.array(32, np.int32)
    unwritten.launch("passed", 1, 32, out)
    assert list(out) == [3 * x if x % 2 else -1 for x in range(32)]


def test_lanes_without_a_value_receive_one(unwritten: Rig) -> None:
    count, out = unwritten.array(1, np.int32, 2), unwritten.array(32, np.int32, -1)
    unwritten.launch("received", 1, 32, count, out)
    assert count[0] == 2 + 11
    assert list(out) == [-1, -1, *range(0, 32, 3), *[-1] * 19]


PUNNED = r"""
extern "C" __global__ void shared_halves(const unsigned char *in, unsigned *o) {
    __shared__ unsigned cells[64];
    const int x = threadIdx.x;
    cells[x] = 0;
    ((unsigned short *)cells)[2 * x] = in[x];
    ((unsigned short *)cells)[2 * x + 1] = in[x + 1];
    o[x] = cells[x];
}
extern "C" __global__ void global_words(const unsigned char *in, unsigned long long *o) {
    const int x = threadIdx.x;
    unsigned *words = (unsigned *)&o[x];
    o[x] = 7;
    words[1] += in[x];
    o[x] *= 2;
}
"""


@pytest.mark.parametrize(("name", "dtype", "high"), [("shared_halves", np.uint32, 16), ("global_words", np.uint64, 32)])
def test_memory_is_accessed_as_another_type(name: str, dtype: Any, high: int) -> None:
    """Stores through a pointer to another type are seen by loads of the memory's own type, as with nvcc."""
    values = np.arange(65)
    with rig(pes=1) as gpu:
        gpu.load(PUNNED)
        out = gpu.array(64, dtype)
        gpu.launch(name, 1, 64, gpu.array(65, np.uint8, values), out)
        expected = {
            "shared_halves": values[:64] + (values[1:] << high),
            "global_words": 14 + (2 * values[:64] << high),
        }
        assert np.array_equal(out, expected[name])
