"""cuRAND's host functions beside sequences made here, and beside the properties of their distributions."""

from __future__ import annotations

import ctypes
import functools
import operator
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.toolkit import LIB64, DeviceArray, check, library, main

CURAND = library("libcurand.so.10")
XORWOW, MRG32K3A, MTGP32, MT19937, PHILOX = 101, 121, 141, 142, 161
SOBOL32, SCRAMBLED32, SOBOL64, SCRAMBLED64 = 201, 202, 203, 204
LEGACY, SEEDED = 103, 102
TYPE_ERROR, OUT_OF_RANGE, NOT_MULTIPLE, NOT_INITIALIZED = 103, 104, 105, 101
NUMBERS: dict[str, Any] = {
    "": np.uint32,
    "LongLong": np.uint64,
    "Uniform": np.float32,
    "UniformDouble": np.float64,
    "Normal": np.float32,
    "NormalDouble": np.float64,
    "LogNormal": np.float32,
    "LogNormalDouble": np.float64,
    "Poisson": np.uint32,
}


class Generator:
    def __init__(self, kind: int, *, host: bool = False, seed: int | None = None, offset: int = 0) -> None:
        self.handle, self.host = ctypes.c_void_p(), host
        create = CURAND.curandCreateGeneratorHost if host else CURAND.curandCreateGenerator
        check(create(ctypes.byref(self.handle), kind))
        if seed is not None:
            check(CURAND.curandSetPseudoRandomGeneratorSeed(self.handle, ctypes.c_ulonglong(seed)))
        check(CURAND.curandSetGeneratorOffset(self.handle, ctypes.c_ulonglong(offset)))

    def __del__(self) -> None:
        CURAND.curandDestroyGenerator(self.handle)

    def dimensions(self, count: int) -> Generator:
        check(CURAND.curandSetQuasiRandomGeneratorDimensions(self.handle, count))
        return self

    def draw(self, shape: str, count: int, *parameters: float) -> NDArray[Any]:
        dtype = NUMBERS[shape]
        real = ctypes.c_double if shape.endswith("Double") or shape == "Poisson" else ctypes.c_float
        values = [real(value) for value in parameters]
        function = getattr(CURAND, f"curandGenerate{shape}")
        if self.host:
            result = np.zeros(count, dtype)
            check(function(self.handle, ctypes.c_void_p(result.ctypes.data), ctypes.c_size_t(count), *values))
            return result
        target = DeviceArray(np.zeros(count, dtype))
        check(function(self.handle, target.pointer, ctypes.c_size_t(count), *values))
        return target.get()

    def binomial(self, count: int, n: int, p: float) -> NDArray[Any]:
        target = DeviceArray(np.zeros(count, np.uint32))
        check(
            CURAND.curandGenerateBinomial(
                self.handle, target.pointer, ctypes.c_size_t(count), ctypes.c_uint(n), ctypes.c_double(p)
            )
        )
        return target.get()


def xorwow_numbers(seed: int, count: int) -> list[int]:
    """Subsequence 0 of XORWOW."""
    mask = 0xFFFFFFFF
    low = ((seed & mask) ^ 0xAAD26B49) * 1099087573 & mask
    high = ((seed >> 32) ^ 0xF7DCEFDD) * 2591861531 & mask
    d = (6615241 + high + low) & mask
    v = [(123456789 + low) & mask, 362436069 ^ low, (521288629 + high) & mask, 88675123 ^ high, (5783321 + low) & mask]
    numbers = []
    for _ in range(count):
        t = v[0] ^ v[0] >> 2
        v = [*v[1:], v[4] ^ v[4] << 4 & mask ^ t ^ t << 1 & mask]
        d = (d + 362437) & mask
        numbers.append((v[4] + d) & mask)
    return numbers


def philox_block(seed: int, stream: int, block: int) -> list[int]:
    mask = 0xFFFFFFFF
    x, y, z, w, k0, k1 = block, 0, stream, 0, seed & mask, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * x, 0xCD9E8D57 * z
        x, y, z, w = (b >> 32) ^ y ^ k0, b & mask, (a >> 32) ^ w ^ k1, a & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return [x, y, z, w]


def order() -> None:
    """XORWOW: 4096 subsequences, a number from each; Philox: 65536, four from each."""
    seed = 0x123456789AB
    numbers = Generator(XORWOW, seed=seed).draw("", 3 * 4096)
    assert numbers[::4096].tolist() == xorwow_numbers(seed, 3)
    numbers = Generator(PHILOX, seed=seed).draw("", 4 * 65536 + 8)
    for group in (0, 1, 777, 65535):
        assert numbers[4 * group : 4 * group + 4].tolist() == philox_block(seed, group, 0)
    assert numbers[-8:].tolist() == philox_block(seed, 0, 1) + philox_block(seed, 1, 1)


def calls_continue() -> None:
    for kind in (XORWOW, MRG32K3A, PHILOX):
        whole = Generator(kind, seed=5).draw("", 100_000)
        generator = Generator(kind, seed=5)
        parts = [generator.draw("", count) for count in (4, 5000, 96, 94_900)]
        assert (np.concatenate(parts) == whole).all()
        assert (Generator(kind, seed=5, offset=90_000).draw("", 1000) == whole[90_000:91_000]).all()
        assert (Generator(kind, seed=5, host=True).draw("", 1000) == whole[:1000]).all()
        assert (Generator(kind, seed=6).draw("", 1000) != whole[:1000]).any()


def pseudo_distributions() -> None:
    count = 100_000
    for kind in (XORWOW, MRG32K3A, PHILOX, MT19937, MTGP32):
        for kind_of_number in ("", "Double"):
            uniform = Generator(kind, seed=1).draw(f"Uniform{kind_of_number}", count)
            assert uniform.min() > 0
            assert uniform.max() <= 1
            assert abs(uniform.mean() - 0.5) < 0.005
            assert abs(uniform.var() - 1 / 12) < 0.002
            normal = Generator(kind, seed=2).draw(f"Normal{kind_of_number}", count, 3, 2)
            assert abs(normal.mean() - 3) < 0.03
            assert abs(normal.std() - 2) < 0.02
            assert abs(np.mean(np.abs(normal - 3) < 2) - 0.6827) < 0.007
            logs = Generator(kind, seed=2).draw(f"LogNormal{kind_of_number}", count, 3, 2)
            assert np.allclose(np.log(logs), normal, rtol=1e-4, atol=1e-4)
        for mean in (3.5, 200.0, 5000.0):
            poisson = Generator(kind, seed=3).draw("Poisson", count, mean)
            assert abs(poisson.mean() / mean - 1) < 0.01
            assert abs(poisson.var() / mean - 1) < 0.03
        for n, p in ((1, 0.3), (40, 0.9), (100_000, 0.25)):
            numbers = Generator(kind, seed=4).binomial(count, n, p)
            assert numbers.max() <= n
            assert abs(numbers.mean() / (n * p) - 1) < 0.01
            assert abs(numbers.var() / (n * p * (1 - p)) - 1) < 0.03


def twister() -> None:
    """MT19937 is the published sequence; calls continue it, also across its blocks of 624 words."""
    for seed in (0, 5489):
        expected = np.random.RandomState(seed)._bit_generator.random_raw(3000).astype(np.uint32)
        generator = Generator(MT19937, seed=seed)
        pieces = [generator.draw("", count) for count in (1, 1000, 623, 1, 1375)]
        assert np.array_equal(np.concatenate(pieces), expected)
        words = expected[:1000].astype(np.float64)
        assert np.allclose(Generator(MT19937, seed=seed).draw("Uniform", 1000), words / 2**32, atol=1e-7)
    wide = Generator(MT19937, seed=0x300000002).draw("", 700)
    by_array = np.random.RandomState([2, 3])._bit_generator.random_raw(700).astype(np.uint32)
    assert np.array_equal(wide, by_array)
    assert np.array_equal(Generator(MT19937, seed=7, host=True).draw("", 100), Generator(MT19937, seed=7).draw("", 100))


def mtgp_words(which: int, seed: int, count: int) -> NDArray[Any]:
    """Words of the published recursion with the toolkit's parameters number `which`."""
    text = (LIB64.parent / "include" / "curand_mtgp32dc_p_11213.h").read_text()
    rows = re.findall(r"__VGC_MTGP__\((\d+), (\d+), (\d+), ((?:0x\w{8}u(?:, |,\s))+)", text)
    pos, shift1, shift2 = (int(word) for word in rows[which][:3])
    basis = [int(word, 16) for word in re.findall(r"0x\w{8}", rows[which][3])]
    table, temper = (
        [functools.reduce(operator.xor, (part[bit] for bit in range(4) if k >> bit & 1), 0) for k in range(16)]
        for part in (basis[:4], basis[4:])
    )
    hidden = table[4] ^ table[8] << 16 & 0xFFFFFFFF
    mixed = hidden + (hidden >> 16)
    filler = ((mixed + (mixed >> 8 & 0xFFFFFF)) & 0xFF) * 0x01010101
    state = [seed, hidden] + [filler] * 349
    for i in range(1, 351):
        state[i] ^= 1812433253 * (state[i - 1] ^ state[i - 1] >> 30) + i & 0xFFFFFFFF
    words = []
    for i in range(count):
        x = state[i] & 0xFFF80000 ^ state[i + 1]
        x ^= x << shift1 & 0xFFFFFFFF
        y = x ^ state[i + pos] >> shift2
        state.append(y ^ table[y & 15])
        t = state[i + pos - 1]
        t ^= t >> 16
        t ^= t >> 8
        words.append(state[-1] ^ temper[t & 15])
    return np.array(words, np.uint32)


def mtgp() -> None:
    """64 sequences give 256 numbers in turn; a call begins with the next sequence."""
    turns = Generator(MTGP32, seed=9).draw("", 3 * 64 * 256).reshape(3, 64, 256)
    for which in (0, 1, 63):
        assert np.array_equal(turns[:, which].ravel(), mtgp_words(which, 9 + which + 1, 768))
    generator = Generator(MTGP32, seed=9)
    assert np.array_equal(generator.draw("", 300), turns[0].ravel()[:300])
    assert np.array_equal(generator.draw("", 512), turns[0].ravel()[512:1024])
    assert np.array_equal(Generator(MTGP32, seed=9, host=True).draw("", 1000), turns[0].ravel()[:1000])
    assert (Generator(MTGP32, seed=10).draw("", 1000) != turns[0].ravel()[:1000]).any()
    assert CURAND.curandSetGeneratorOffset(generator.handle, ctypes.c_ulonglong(1)) == TYPE_ERROR


def binomial_bounds() -> None:
    assert set(Generator(XORWOW).binomial(64, 9, 0.0)) == {0}
    assert set(Generator(XORWOW).binomial(64, 9, 1.0)) == {9}
    assert set(Generator(SOBOL32).binomial(4096, 2, 0.5)) == {0, 1, 2}
    chances = np.bincount(Generator(PHILOX).binomial(200_000, 3, 0.5), minlength=4) / 200_000
    assert np.allclose(chances, [1 / 8, 3 / 8, 3 / 8, 1 / 8], atol=0.005)


def sobol() -> None:
    first = [[0, 0.5, 0.75, 0.25, 0.375], [0, 0.5, 0.25, 0.75, 0.375], [0, 0.5, 0.25, 0.75, 0.625]]
    points = Generator(SOBOL32).dimensions(3).draw("", 15).reshape(3, 5)
    assert (points / 2.0**32 == first).all()
    length, dimensions = 256, 1111
    plain = Generator(SOBOL32).dimensions(dimensions).draw("", dimensions * length).reshape(dimensions, length)
    wide = Generator(SOBOL64).dimensions(dimensions).draw("LongLong", dimensions * length).reshape(dimensions, length)
    assert (plain == wide >> np.uint64(32)).all()
    mixed = Generator(SCRAMBLED32).dimensions(dimensions).draw("", dimensions * length).reshape(dimensions, length)
    assert (mixed != plain).any(axis=1).all()
    for points in (plain, mixed):  # one point in each of as many equal parts
        assert (np.sort(points >> 24, axis=1) == np.arange(256)).all()
    generator = Generator(SOBOL32).dimensions(2)
    parts = [generator.draw("", 2 * count).reshape(2, count) for count in (100, 3, 153)]
    assert (np.concatenate(parts, axis=1) == plain[:2]).all()
    shifted = Generator(SOBOL32, offset=200).dimensions(2).draw("", 100).reshape(2, 50)
    assert (shifted == plain[:2, 200:250]).all()


def quasi_distributions() -> None:
    count = 2 * 8192
    for kind in (SOBOL32, SCRAMBLED32, SOBOL64, SCRAMBLED64):
        for kind_of_number in ("", "Double"):
            uniform = Generator(kind).dimensions(2).draw(f"Uniform{kind_of_number}", count).reshape(2, 8192)
            assert np.abs(uniform.mean(axis=1) - 0.5).max() < 1e-3
            inside = np.mean((uniform**2).sum(axis=0) <= 1)
            assert abs(4 * inside - np.pi) < 5e-3
            normal = Generator(kind, offset=1).draw(f"Normal{kind_of_number}", 8191, 1, 3)
            assert abs(normal.mean() - 1) < 0.01
            assert abs(normal.std() - 3) < 0.02
        poisson = Generator(kind, offset=1).draw("Poisson", 8191, 12.0)
        assert abs(poisson.mean() - 12) < 0.05
        assert abs(poisson.var() - 12) < 0.2


def directions() -> None:
    vectors = ctypes.POINTER(ctypes.c_uint32)()
    check(CURAND.curandGetDirectionVectors32(ctypes.byref(vectors), 101))
    assert [vectors[k] for k in range(32)] == [1 << (31 - k) for k in range(32)]
    assert [vectors[32 + k] >> (31 - k) for k in range(4)] == [1, 3, 5, 15]
    wide = ctypes.POINTER(ctypes.c_uint64)()
    check(CURAND.curandGetDirectionVectors64(ctypes.byref(wide), 103))
    assert wide[64 * 7 + 20] >> 32 == vectors[32 * 7 + 20]
    assert CURAND.curandGetDirectionVectors32(ctypes.byref(vectors), 103) == OUT_OF_RANGE


def errors() -> None:
    handle = ctypes.c_void_p()
    create = CURAND.curandCreateGenerator
    for missing in (7, 205):
        assert create(ctypes.byref(handle), missing) == TYPE_ERROR
    assert CURAND.curandGenerate(None, None, ctypes.c_size_t(1)) == NOT_INITIALIZED
    assert CURAND.curandDestroyGenerator(None) == NOT_INITIALIZED
    pseudo, quasi = Generator(XORWOW), Generator(SOBOL32).dimensions(3)
    data, size = DeviceArray(np.zeros(16)), ctypes.c_size_t
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    assert CURAND.curandGenerateNormal(pseudo.handle, data.pointer, size(3), zero, one) == NOT_MULTIPLE
    assert CURAND.curandGenerateLongLong(pseudo.handle, data.pointer, size(2)) == TYPE_ERROR
    assert CURAND.curandGenerate(quasi.handle, data.pointer, size(4)) == NOT_MULTIPLE
    assert CURAND.curandSetQuasiRandomGeneratorDimensions(pseudo.handle, 2) == TYPE_ERROR
    assert CURAND.curandSetQuasiRandomGeneratorDimensions(quasi.handle, 1112) == OUT_OF_RANGE
    assert CURAND.curandSetPseudoRandomGeneratorSeed(quasi.handle, ctypes.c_ulonglong(1)) == TYPE_ERROR
    assert CURAND.curandSetGeneratorOrdering(pseudo.handle, SEEDED) == OUT_OF_RANGE
    check(CURAND.curandSetGeneratorOrdering(pseudo.handle, LEGACY))
    one_sequence = Generator(MT19937)
    assert CURAND.curandSetGeneratorOffset(one_sequence.handle, ctypes.c_ulonglong(1)) == TYPE_ERROR
    half = ctypes.c_double(1.5)
    assert CURAND.curandGenerateBinomial(pseudo.handle, data.pointer, size(4), 3, half) == OUT_OF_RANGE
    assert CURAND.curandCreatePoissonDistribution(ctypes.c_double(400001), ctypes.byref(handle)) == OUT_OF_RANGE
    assert CURAND.curandDestroyDistribution(None) == NOT_INITIALIZED
    assert CURAND.curandGeneratePoisson(pseudo.handle, data.pointer, size(4), ctypes.c_double(0)) == OUT_OF_RANGE


CASES = {
    case.__name__: case
    for case in (
        order,
        calls_continue,
        pseudo_distributions,
        twister,
        mtgp,
        binomial_bounds,
        sobol,
        quasi_distributions,
        directions,
        errors,
    )
}
if __name__ == "__main__":
    main(CASES)
