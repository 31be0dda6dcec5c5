"""cuRAND's generators in plain Python: a step at a time, and jumps by powers of whole transition matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

WORD: Final = 0xFFFFFFFF
MRG_MODULI: Final = (2**32 - 209, 2**32 - 22853)
MRG_STEPS: Final = (
    ((0, 1, 0), (0, 0, 1), (MRG_MODULI[0] - 810728, 1403580, 0)),
    ((0, 1, 0), (0, 0, 1), (MRG_MODULI[1] - 1370589, 0, 527612)),
)
Matrix = tuple[tuple[int, ...], ...]


def xorwow(seed: int, subsequence: int, offset: int) -> Callable[[], int]:
    """Returns the function that draws the next integer."""
    low = ((seed & WORD) ^ 0xAAD26B49) * 1099087573 & WORD
    high = ((seed >> 32) ^ 0xF7DCEFDD) * 2591861531 & WORD
    weyl = 6615241 + high + low + 362437 * offset
    words = [123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low]
    bits = sum((word & WORD) << (32 * i) for i, word in enumerate(words))
    bits = _jump(bits, (subsequence << 67) + offset)

    def draw() -> int:
        nonlocal bits, weyl
        bits = _xorwow_step(bits)
        weyl += 362437
        return (bits >> 128) + weyl & WORD

    return draw


def _xorwow_step(bits: int) -> int:
    first, last = bits & WORD, bits >> 128
    t = first ^ first >> 2
    return bits >> 32 | ((last ^ last << 4 ^ t ^ t << 1) & WORD) << 128


def _times(columns: list[int], bits: int) -> int:
    product = 0
    for i, column in enumerate(columns):
        if bits >> i & 1:
            product ^= column
    return product


@cache
def _columns_after(k: int) -> list[int]:
    """Returns the matrix of 2^k steps."""
    if k == 0:
        return [_xorwow_step(1 << i) for i in range(160)]
    half = _columns_after(k - 1)
    return [_times(half, column) for column in half]


def _jump(bits: int, n: int) -> int:
    for k in range(n.bit_length()):
        if n >> k & 1:
            bits = _times(_columns_after(k), bits)
    return bits


def philox(seed: int, subsequence: int, offset: int) -> Callable[[], int]:
    """Returns the function that draws the next integer."""
    place = (subsequence << 64) + offset // 4 << 2 | offset % 4

    def draw() -> int:
        nonlocal place
        block = _philox_block(place >> 2, seed)
        place += 1
        return block[(place - 1) & 3]

    return draw


def _philox_block(counter: int, key: int) -> list[int]:
    c = [counter >> (32 * i) & WORD for i in range(4)]
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k0, b & WORD, a >> 32 ^ c[3] ^ k1, a & WORD]
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c


def mrg(seed: int, subsequence: int, offset: int) -> Callable[[], int]:
    """Returns the function that draws the next number, from 1 to 2^32 - 209."""
    low, high = ((seed & WORD) ^ 0x55555555, (seed >> 32) ^ 0xAAAAAAAA) if seed else (1, 1)
    states = []
    for step, modulus, factors in zip(MRG_STEPS, MRG_MODULI, ((low, high, low), (high, low, high)), strict=True):
        state = [12345 * factor % modulus for factor in factors]
        states.append(_apply(_power(step, (subsequence << 76) + offset, modulus), state, modulus))

    def draw() -> int:
        for i in range(2):
            states[i] = _apply(MRG_STEPS[i], states[i], MRG_MODULI[i])
        return (states[0][2] - states[1][2] - 1) % MRG_MODULI[0] + 1

    return draw


def _apply(matrix: Matrix, state: list[int], modulus: int) -> list[int]:
    return [sum(a * b for a, b in zip(row, state, strict=True)) % modulus for row in matrix]


def _power(matrix: Matrix, n: int, modulus: int) -> Matrix:
    result: Matrix = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    while n:
        if n & 1:
            result = _product(result, matrix, modulus)
        matrix = _product(matrix, matrix, modulus)
        n >>= 1
    return result


def _product(a: Matrix, b: Matrix, modulus: int) -> Matrix:
    return tuple(tuple(sum(a[i][k] * b[k][j] for k in range(3)) % modulus for j in range(3)) for i in range(3))


def sobol(directions: list[int], scramble: int, index: int) -> int:
    """Returns the number of `index` in the sequence."""
    gray = index ^ index >> 1
    result = scramble
    for k, direction in enumerate(directions):
        if gray >> k & 1:
            result ^= direction
    return result
