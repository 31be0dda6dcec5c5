"""curand_kernel.h on the CPU engine: cuRAND's own sequences, and the distributions made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import curand_reference as reference
from tests.unit.cpu_rig import Rig, rig

GENERATORS: Final[dict[str, tuple[str, Callable[[int, int, int], Callable[[], int]]]]] = {
    "xorwow": ("curandStateXORWOW_t", reference.xorwow),
    "philox": ("curandStatePhilox4_32_10_t", reference.philox),
    "mrg": ("curandStateMRG32k3a_t", reference.mrg),
}
STARTS: Final = ((0, 0, 0), (1234, 1, 0), (0x123456789ABCDEF, (1 << 40) + 77, (1 << 50) + 3), (5, (1 << 63) + 9, 2))
DRAWS: Final = {
    "bits": ("unsigned", "curand(&s)"),
    "uniform": ("float", "curand_uniform(&s)"),
    "uniform_double": ("double", "curand_uniform_double(&s)"),
    "normal": ("float", "curand_normal(&s)"),
    "normal_double": ("double", "curand_normal_double(&s)"),
    "normal2": ("float2", "curand_normal2(&s)"),
    "log_normal": ("float", "curand_log_normal(&s, 0.5f, 0.25f)"),
    "log_normal_double": ("double", "curand_log_normal_double(&s, 0.5, 0.25)"),
    "poisson_5": ("unsigned", "curand_poisson(&s, 5.5)"),
    "poisson_100": ("unsigned", "curand_poisson(&s, 100.25)"),
    "poisson_5000": ("unsigned", "curand_poisson(&s, 5000.0)"),
    "skipped": ("unsigned", "(skipahead(12345678901ull, &s), curand(&s))"),
    "next_sequence": ("unsigned", "(skipahead_sequence(5, &s), curand(&s))"),
}
PHILOX_DRAWS: Final = {
    "bits4": ("uint4", "curand4(&s)"),
    "uniform4": ("float4", "curand_uniform4(&s)"),
    "normal4": ("float4", "curand_normal4(&s)"),
}
SOBOL: Final = {
    "Sobol32": ("unsigned", 32, "curand_init(v, first, &s)"),
    "ScrambledSobol32": ("unsigned", 32, "curand_init(v, scramble, first, &s)"),
    "Sobol64": ("unsigned long long", 64, "curand_init(v, first, &s)"),
    "ScrambledSobol64": ("unsigned long long", 64, "curand_init(v, scramble, first, &s)"),
}
SOBOL_DRAWS: Final = {
    "bits": ("{word}", "curand(&s)"),
    "uniform_double": ("double", "curand_uniform_double(&s)"),
    "normal_double": ("double", "curand_normal_double(&s)"),
    "poisson": ("unsigned", "curand_poisson(&s, 7.5)"),
}
LIBRARY: Final = {
    "xorwow": [3522650202, 3978931785, 2198015705],
    "philox": [3507855656, 1392278645, 3354607383],
    "mrg": [653317650, 2890950871, 2749090064],
}
LIBRARY_POISSON: Final = {
    "poisson_5": [5, 4, 8, 4],
    "poisson_100": [109, 99, 108, 89],
    "poisson_5000": [4994, 4973, 4808, 5061],
}
THREADS: Final = 32
COUNT: Final = 16


def source() -> str:
    parts = ["#include <curand_kernel.h>\n"]
    for name, (state, _) in GENERATORS.items():
        for draw, (type_, expression) in (DRAWS | (PHILOX_DRAWS if name == "philox" else {})).items():
            parts.append(
                f'extern "C" __global__ void {name}_{draw}({type_} *out, unsigned long long seed, '
                "unsigned long long first, unsigned long long offset, int n) {\n"
                f"    {state} s;\n    curand_init(seed, first + threadIdx.x, offset, &s);\n"
                f"    for (int i = 0; i < n; i++) out[threadIdx.x * n + i] = {expression};\n}}\n"
            )
    for name, (word, bits, start) in SOBOL.items():
        for draw, (type_, expression) in SOBOL_DRAWS.items():
            parts.append(
                f'extern "C" __global__ void {name}_{draw}({type_.format(word=word)} *out, const {word} *directions, '
                f"{word} scramble, int n) {{\n"
                f"    curandState{name}_t s;\n    curandDirectionVectors{bits}_t v;\n"
                f"    for (int i = 0; i < {bits}; i++) v[i] = directions[i];\n"
                f"    const {word} first = threadIdx.x * n;\n    {start};\n"
                f"    for (int i = 0; i < n; i++) out[threadIdx.x * n + i] = {expression};\n}}\n"
            )
    return "".join(parts)


@pytest.fixture(scope="module")
def device() -> Iterator[Rig]:
    with rig() as made:
        made.load(source())
        yield made


def drawn(device: Rig, name: str, dtype: Any, start: tuple[int, int, int], lanes: int = 1) -> np.ndarray[Any, Any]:
    """Numbers of `THREADS` subsequences, `COUNT` of each."""
    out = device.array((THREADS, COUNT * lanes), dtype)
    device.launch(name, (1,), (THREADS,), out, *(np.uint64(word) for word in start), np.int32(COUNT))
    return out


def expected_bits(name: str, start: tuple[int, int, int], count: int = COUNT) -> np.ndarray[Any, Any]:
    seed, first, offset = start
    rows = []
    for thread in range(THREADS):
        draw = GENERATORS[name][1](seed, (first + thread) % (1 << 64), offset)
        rows.append([draw() for _ in range(count)])
    return np.array(rows, np.uint64)


@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("name", GENERATORS)
def test_integers_are_those_of_the_published_generators(device: Rig, name: str, start: tuple[int, int, int]) -> None:
    expected = expected_bits(name, start)
    if name == "mrg":
        expected = (expected * 1.000000048662).astype(np.uint64)
    assert np.array_equal(drawn(device, f"{name}_bits", np.uint32, start), expected)


def test_integers_are_those_of_the_library(device: Rig) -> None:
    # Drawn with NVIDIA's headers of version 10.3: seed 1234, subsequence 1.
    first = {name: list(drawn(device, f"{name}_bits", np.uint32, (1234, 1, 0))[0, :3]) for name in GENERATORS}
    assert first == LIBRARY


def test_blocks_of_four_continue_where_single_draws_stopped(device: Rig) -> None:
    for start in ((9, 2, 0), (9, 2, 1), (9, 2, 6), (9, 2, 7)):
        four = drawn(device, "philox_bits4", np.uint32, start, 4)
        assert np.array_equal(four, expected_bits("philox", start, 4 * COUNT))
        uniform = drawn(device, "philox_uniform4", np.float32, start, 4)
        assert np.allclose(uniform, (four + 0.5) / 2**32, rtol=1e-6)


@pytest.mark.parametrize("name", GENERATORS)
def test_skips_are_as_many_draws(device: Rig, name: str) -> None:
    skipped = drawn(device, f"{name}_skipped", np.uint32, (3, 4, 5))
    sequence = drawn(device, f"{name}_next_sequence", np.uint32, (3, 4, 5))
    make = GENERATORS[name][1]
    for i in range(3):
        assert skipped[0, i] == scaled(name, make(3, 4, 5 + (i + 1) * 12345678901 + i)())
        far = (i + 1) * 5
        if name == "mrg":  # Its sequences lie 2^127 steps apart, its subsequences 2^76.
            assert sequence[0, i] == scaled(name, make(3, 4 + (far << 51), 5 + i)())
        else:
            assert sequence[0, i] == make(3, 4 + far, 5 + i)()


def scaled(name: str, draw: int) -> int:
    return int(draw * 1.000000048662) if name == "mrg" else draw


@pytest.mark.parametrize("name", GENERATORS)
def test_uniform_numbers(device: Rig, name: str) -> None:
    start = (77, 5, 0)
    bits = expected_bits(name, start, 2 * COUNT)
    single, double = (
        drawn(device, f"{name}_uniform", np.float32, start),
        drawn(device, f"{name}_uniform_double", np.float64, start),
    )
    if name == "mrg":
        assert np.allclose(single, bits[:, :COUNT] * 2.3283065498378288e-10, rtol=1e-7)
        assert np.allclose(double, bits[:, :COUNT] * 2.3283065498378288e-10, rtol=1e-15)
        return
    assert np.allclose(single, (bits[:, :COUNT] + 0.5) / 2**32, rtol=1e-6)
    if name == "philox":
        assert np.array_equal(double, (bits[:, :COUNT] + 1.0) / 2**32)
    else:
        assert np.array_equal(double, ((bits[:, ::2] ^ bits[:, 1::2] << np.uint64(21)) + 0.5) / 2**53)
    assert 0 < single.min() <= single.max() <= 1


def pairs(u: np.ndarray[Any, Any], v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    radius = np.sqrt(-2 * np.log(u))
    made = np.stack([np.sin(2 * np.pi * v) * radius, np.cos(2 * np.pi * v) * radius], axis=-1)
    return made.reshape(u.shape[0], -1)


@pytest.mark.parametrize("name", GENERATORS)
def test_normal_numbers_come_in_pairs(device: Rig, name: str) -> None:
    start = (99, 0, 0)
    bits = expected_bits(name, start, 2 * COUNT).astype(np.float64)
    uniform = bits * 2.3283065498378288e-10 if name == "mrg" else (bits + 0.5) / 2**32
    normal = pairs(uniform[:, ::2], uniform[:, 1::2])
    assert np.allclose(drawn(device, f"{name}_normal2", np.float32, start, 2), normal, atol=2e-5)
    assert np.allclose(drawn(device, f"{name}_normal", np.float32, start), normal[:, :COUNT], atol=2e-5)
    log_normal = drawn(device, f"{name}_log_normal", np.float32, start)
    assert np.allclose(log_normal, np.exp(0.5 + 0.25 * normal[:, :COUNT]), rtol=2e-5)


@pytest.mark.parametrize("name", GENERATORS)
def test_normal_numbers_in_double_precision(device: Rig, name: str) -> None:
    start = (98, 1, 0)
    bits = expected_bits(name, start, 2 * COUNT)
    if name == "mrg":
        uniform = bits[:, :COUNT] * 2.3283065498378288e-10
    else:
        uniform = ((bits[:, ::2] ^ bits[:, 1::2] << np.uint64(21)) + 0.5) / 2**53
    normal = pairs(uniform[:, ::2], uniform[:, 1::2])
    assert np.allclose(drawn(device, f"{name}_normal_double", np.float64, start), normal, rtol=1e-12, atol=1e-12)
    log_normal = drawn(device, f"{name}_log_normal_double", np.float64, start)
    assert np.allclose(log_normal, np.exp(0.5 + 0.25 * normal), rtol=1e-12)


@pytest.mark.parametrize(("draw", "mean"), [("poisson_5", 5.5), ("poisson_100", 100.25), ("poisson_5000", 5000.0)])
@pytest.mark.parametrize("name", GENERATORS)
def test_poisson_numbers_have_their_mean_and_variance(device: Rig, name: str, draw: str, mean: float) -> None:
    numbers = np.concatenate(
        [drawn(device, f"{name}_{draw}", np.uint32, (seed, 0, 0)).ravel() for seed in range(20)]
    ).astype(np.float64)
    # Five standard errors: the seeds are fixed, so that this holds or does not for good.
    assert abs(numbers.mean() - mean) < 5 * math.sqrt(mean / numbers.size)
    assert abs(numbers.var() - mean) < 5 * mean * math.sqrt(2 / numbers.size) + mean / numbers.size
    if name == "xorwow":
        assert list(drawn(device, f"{name}_{draw}", np.uint32, (1234, 1, 0))[0, :4]) == LIBRARY_POISSON[draw]


@pytest.mark.parametrize("name", SOBOL)
def test_sobol_numbers_follow_their_directions(device: Rig, name: str) -> None:
    word, bits, _ = SOBOL[name]
    dtype: Any = np.uint32 if word == "unsigned" else np.uint64
    random = np.random.default_rng(bits)
    # Column k of a lower triangular matrix of ones on its diagonal: what makes the numbers a permutation.
    columns = [(1 << (bits - 1 - k)) | (int(random.integers(1 << 31)) << (bits - k)) % (1 << bits) for k in range(bits)]
    scramble = int(random.integers(1 << 31)) if name.startswith("Scrambled") else 0
    directions = device.array(bits, dtype, np.array(columns, dtype))

    def run(draw: str, kind: Any) -> np.ndarray[Any, Any]:
        out = device.array(THREADS * COUNT, kind)
        device.launch(f"{name}_{draw}", (1,), (THREADS,), out, directions, dtype(scramble), np.int32(COUNT))
        return out

    expected = np.array([reference.sobol(columns, scramble, i) for i in range(THREADS * COUNT)], dtype)
    assert np.array_equal(run("bits", dtype), expected)
    uniform = (expected + 1.0) / 2**32 if bits == 32 else ((expected >> np.uint64(11)) + 0.5) / 2**53
    assert np.array_equal(run("uniform_double", np.float64), uniform)
    middle = (expected + 0.5) / 2**32 if bits == 32 else uniform
    normal = [NormalDist().inv_cdf(float(u)) for u in middle]
    assert np.allclose(run("normal_double", np.float64), normal, rtol=1e-9, atol=1e-9)
    counts = run("poisson", np.uint32)
    below = np.cumsum([math.exp(-7.5) * 7.5**k / math.factorial(k) for k in range(60)])
    assert np.array_equal(counts, np.searchsorted(below, middle))


def test_twister_of_a_block(device: Rig) -> None:
    parameters = np.random.default_rng(5).integers(0, 1 << 32, 10201, dtype=np.uint32)
    parameters[:200] = 60  # Where the second word lies, then tables and shifts.
    parameters[-401:-201], parameters[-201:-1] = 13, 4
    state = np.random.default_rng(6).integers(0, 1 << 32, 1028, dtype=np.uint32)
    state[1024:] = (0, 2, 0, 0)
    device.load(
        "#include <curand_kernel.h>\n"
        'extern "C" __global__ void twister(curandStateMtgp32_t *s, mtgp32_kernel_params_t *k, unsigned *out, int n) {\n'
        "    s->k = k;\n    __syncthreads();\n"
        "    for (int i = 0; i < n; i++) out[i * blockDim.x + threadIdx.x] = curand(s);\n}\n"
    )
    threads, rounds = 200, 8
    memory, table = device.array(1028, np.uint32, state), device.array(10201, np.uint32, parameters)
    out = device.array(threads * rounds, np.uint32)
    device.launch("twister", (1,), (threads,), memory, table, out, np.int32(rounds))
    expected = []
    recursion, tempering = (parameters[200 + 3200 * i + 16 * 2 :][:16].astype(int) for i in range(2))
    mask = int(parameters[-1])
    words = [int(word) for word in state[:1024]]
    for i in range(threads * rounds):
        x = (words[i % 1024] & mask) ^ words[(i + 1) % 1024]
        x ^= x << 13 & 0xFFFFFFFF
        y = x ^ words[(i + 60) % 1024] >> 4
        fresh = y ^ int(recursion[y & 15])
        t = words[(i + 59) % 1024]
        t ^= t >> 16
        t ^= t >> 8
        words[(i + 351) % 1024] = fresh
        expected.append(fresh ^ int(tempering[t & 15]))
    assert np.array_equal(out, expected)


def test_discrete_distributions_of_the_host(device: Rig) -> None:
    device.load(
        "#include <curand_kernel.h>\n"
        'extern "C" __global__ void histogram(double *v, unsigned *k, int m2, unsigned *out, int n) {\n'
        "    curandHistogramM2_st h = {};\n    h.V = v;\n    h.K = k;\n"
        "    curandDistributionM2Shift_st shifted = {};\n"
        "    shifted.histogram = &h;\n    shifted.shift = 10;\n    shifted.length = 4;\n"
        "    curandDiscreteDistribution_st d = {};\n    d.M2 = &shifted;\n    d.mean = 50;\n    d.stddev = 3;\n"
        "    d.method = m2 ? CURAND_M2 : CURAND_DISCRETE_GAUSS;\n"
        "    curandStatePhilox4_32_10_t s;\n    curand_init(1, threadIdx.x, 0, &s);\n"
        "    for (int i = 0; i < n; i++) out[threadIdx.x * n + i] = curand_discrete(&s, &d);\n}\n"
    )
    v, k = device.array(4, np.float64, [0.2, 0.35, 0.75, 0.9]), device.array(4, np.uint32, [3, 2, 0, 1])
    out = device.array((THREADS, COUNT), np.uint32)
    device.launch("histogram", (1,), (THREADS,), v, k, np.int32(1), out, np.int32(COUNT))
    u = (expected_bits("philox", (1, 0, 0)) + 1.0) / 2**32
    j = np.minimum((4 * u).astype(int), 3)
    assert np.array_equal(out, 10 + np.where(u < v[j], j, k[j]))
    device.launch("histogram", (1,), (THREADS,), v, k, np.int32(0), out, np.int32(COUNT))
    normal = drawn(device, "philox_normal_double", np.float64, (1, 0, 0))
    assert np.array_equal(out, (3 * normal + 50.5).astype(np.uint32))
