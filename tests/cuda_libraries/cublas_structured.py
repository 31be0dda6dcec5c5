"""cuBLAS's symmetric, Hermitian and triangular matrices beside numpy's: whole, packed and in bands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cublas import (
    BLAS,
    INVALID_VALUE,
    REAL,
    TYPES,
    assert_close,
    by_columns,
    elements,
    numbers,
    operated,
)
from tests.cuda_libraries.toolkit import DeviceArray, main

LOWER, UPPER = 0, 1
LEFT, RIGHT = 0, 1


def is_in(fill: int, i: int, j: int) -> bool:
    return i >= j if fill == LOWER else i <= j


def kept(fill: int, matrix: NDArray[Any]) -> NDArray[Any]:
    """The triangle that a function may read; the other one holds NaN."""
    mask = np.tril(np.ones(matrix.shape, bool)) if fill == LOWER else np.triu(np.ones(matrix.shape, bool))
    return np.where(mask, matrix, np.nan).astype(matrix.dtype)


def packed(fill: int, matrix: NDArray[Any]) -> NDArray[Any]:
    n = len(matrix)
    return np.array([matrix[i, j] for j in range(n) for i in range(n) if is_in(fill, i, j)], matrix.dtype)


def band(matrix: NDArray[Any], below: int, above: int) -> NDArray[Any]:
    """Diagonals of the matrix as BLAS has them in bands, one row longer than needed."""
    m, n = matrix.shape
    laid = np.full((n, below + above + 2), np.nan, matrix.dtype)
    for j in range(n):
        for i in range(max(0, j - above), min(m, j + below + 1)):
            laid[j, above + i - j] = matrix[i, j]
    return laid


def within(matrix: NDArray[Any], below: int, above: int) -> NDArray[Any]:
    i, j = np.indices(matrix.shape)
    return np.where((i - j <= below) & (j - i <= above), matrix, 0).astype(matrix.dtype)


def symmetric(letter: str, n: int, is_hermitian: bool) -> NDArray[Any]:
    half = numbers(letter, n, n)
    made: NDArray[Any] = half + (half.conj().T if is_hermitian else half.T)
    return made


def families() -> Iterator[tuple[str, bool]]:
    yield from (("S", False), ("D", False), ("C", False), ("Z", False), ("C", True), ("Z", True))


def storages(letter: str, is_hermitian: bool, fill: int, full: NDArray[Any], width: int) -> Iterator[tuple[Any, ...]]:
    """Names, what a function reads, arguments before and behind it, and the matrix meant: whole, banded, packed."""
    n = len(full)
    yield "y" if not is_hermitian else "e", (), kept(fill, full).T.copy(), (n,), full
    if is_hermitian or letter in "SD":
        below, above = (width, 0) if fill == LOWER else (0, width)
        yield "b", (width,), band(full, below, above), (below + above + 2,), within(full, width, width)
        yield "p", (), packed(fill, full), (), full


def products_with_vectors_agree() -> None:
    for (letter, is_hermitian), fill, n in itertools.product(families(), (LOWER, UPPER), (1, 9, 130)):
        full, alpha, beta = symmetric(letter, n, is_hermitian), *numbers(letter, 2)
        for kind, before, laid, behind, meant in storages(letter, is_hermitian, fill, full, min(n - 1, 5)):
            name = f"{letter}{'h' if is_hermitian else 's'}{kind}mv_v2"
            x, y = numbers(letter, 2 * n), numbers(letter, n)
            dy = DeviceArray(y)
            BLAS(name, fill, n, *before, alpha, DeviceArray(laid), *behind, DeviceArray(x), -2, beta, dy, 1)
            assert_close(dy.get(), alpha * (meant @ x[elements(n, -2)]) + beta * y, n, TYPES[letter])
            nothing, one = TYPES[letter](0), TYPES[letter](1)
            bad = DeviceArray(np.full(n, np.nan, TYPES[letter]))
            BLAS(name, fill, n, *before, nothing, DeviceArray(laid), *behind, bad, 1, one, dy, 1)
            BLAS(name, fill, n, *before, nothing, DeviceArray(laid), *behind, bad, 1, nothing, bad, 1)
            assert np.all(bad.get() == 0), "NaN where the factor is 0"


def bands_agree() -> None:
    for letter, op, (m, n), (below, above) in itertools.product(
        "SDCZ", (0, 1, 2), ((1, 1), (70, 33), (5, 90)), ((0, 0), (2, 4), (7, 1))
    ):
        full, alpha, beta = within(numbers(letter, m, n), below, above), *numbers(letter, 2)
        rows, columns = (m, n) if op == 0 else (n, m)
        x, y = numbers(letter, columns), numbers(letter, rows * 3)
        dy, laid = DeviceArray(y), DeviceArray(band(full, below, above))
        ld = below + above + 2
        BLAS(f"{letter}gbmv_v2", op, m, n, below, above, alpha, laid, ld, DeviceArray(x), 1, beta, dy, -3)
        y[elements(rows, -3)] = alpha * (operated(op, full) @ x) + beta * y[elements(rows, -3)]
        assert_close(dy.get(), y, columns, TYPES[letter])


def triangles_times_and_over_vectors_agree() -> None:
    for letter, fill, op, unit, n in itertools.product("SDCZ", (LOWER, UPPER), (0, 1, 2), (0, 1), (1, 70)):
        full = (numbers(letter, n, n) / n + 2 * np.eye(n)).astype(TYPES[letter])
        triangle = np.tril(full) if fill == LOWER else np.triu(full)
        width = min(n - 1, 6)
        below, above = (width, 0) if fill == LOWER else (0, width)
        meant = triangle.copy()
        if unit:
            np.fill_diagonal(meant, 1)
        forms: tuple[tuple[str, tuple[int, ...], NDArray[Any], tuple[int, ...], NDArray[Any]], ...] = (
            ("tr", (), kept(fill, full).T.copy(), (n,), meant),
            ("tp", (), packed(fill, full), (), meant),
            ("tb", (width,), band(triangle, below, above), (width + 2,), within(meant, width, width)),
        )
        for kind, before, laid, behind, matrix in forms:
            x, da = numbers(letter, 2 * n), DeviceArray(laid)
            at = elements(n, -2)
            dx = DeviceArray(x)
            BLAS(f"{letter}{kind}mv_v2", fill, op, unit, n, *before, da, *behind, dx, -2)
            wanted = x.copy()
            wanted[at] = operated(op, matrix) @ x[at]
            assert_close(dx.get(), wanted, n, TYPES[letter])
            BLAS(f"{letter}{kind}sv_v2", fill, op, unit, n, *before, da, *behind, dx, -2)
            assert_close(dx.get(), x, 4 * n, TYPES[letter])


def updates_agree() -> None:
    for (letter, is_hermitian), fill, n in itertools.product(families(), (LOWER, UPPER), (1, 9, 130)):
        full, x, y = symmetric(letter, n, is_hermitian), numbers(letter, 2 * n), numbers(letter, n)
        other = np.conj if is_hermitian else np.asarray
        alpha = numbers(letter, 1)[0]
        factor = REAL[letter](1.5) if is_hermitian else alpha
        left = x[elements(n, -2)]
        one = full + factor * np.outer(left, other(left))
        both = one + alpha * np.outer(left, other(y)) + other(alpha) * np.outer(y, other(left))
        dx, dy = DeviceArray(x), DeviceArray(y)
        for whole in (True, False):
            if not whole and not is_hermitian and letter in "CZ":
                continue
            kind = ("e" if is_hermitian else "y") if whole else "p"
            da = DeviceArray(kept(fill, full).T.copy() if whole else packed(fill, full))
            rest = (da, n) if whole else (da,)
            name = f"{letter}{'h' if is_hermitian else 's'}{kind}r"
            for wanted, call in (
                (one, (f"{name}_v2", fill, n, factor, dx, -2, *rest)),
                (both, (f"{name}2_v2", fill, n, alpha, dx, -2, dy, 1, *rest)),
            ):
                BLAS(*call)
                assert_kept(fill, da.get(), wanted, 2, letter)


def assert_kept(fill: int, got: Any, wanted: Any, length: int, letter: str) -> None:
    """One triangle is as wanted, and the other one, where there is one, is not written."""
    if got.ndim == 2:
        n = len(wanted)
        inside = np.array([[is_in(fill, i, j) for j in range(n)] for i in range(n)])
        assert np.all(np.isnan(got.T[~inside])), "written outside of the triangle"
        assert_close(got.T[inside], wanted[inside], length, TYPES[letter])
        return
    assert_close(got, packed(fill, wanted), length, TYPES[letter])


# ---- products of matrices ----


def symmetric_products_agree() -> None:
    for (letter, is_hermitian), side, fill, (m, n) in itertools.product(
        families(), (LEFT, RIGHT), (LOWER, UPPER), ((1, 1), (5, 70), (150, 33))
    ):
        size = (m, n)[side]
        a, b, c = symmetric(letter, size, is_hermitian), numbers(letter, m, n), numbers(letter, m, n)
        alpha, beta = numbers(letter, 2)
        dc = DeviceArray(by_columns(c, m + 1))
        name = f"{letter}{'hemm' if is_hermitian else 'symm'}_v2"
        da, db = DeviceArray(kept(fill, a).T.copy()), DeviceArray(by_columns(b, m))
        BLAS(name, side, fill, m, n, alpha, da, size, db, m, beta, dc, m + 1)
        wanted = alpha * (a @ b if side == LEFT else b @ a) + beta * c
        assert_close(dc.get()[:, :m].T, wanted, size, TYPES[letter])


def changes_of_triangles_agree() -> None:
    for (letter, is_hermitian), fill, is_turned, (n, k) in itertools.product(
        families(), (LOWER, UPPER), (False, True), ((1, 1), (9, 0), (70, 5), (150, 33))
    ):
        op = (2 if is_hermitian else 1) if is_turned else 0
        a, b = (numbers(letter, *((k, n) if is_turned else (n, k))) for _ in range(2))
        c = symmetric(letter, n, is_hermitian)
        left, right = operated(op, a), operated(op, b)
        other: Callable[[Any], Any] = (lambda x: x.conj().T) if is_hermitian else (lambda x: x.T)
        alpha = numbers(letter, 1)[0]
        real = REAL[letter] if is_hermitian else TYPES[letter]
        factor, beta = real(1.5), real(0.5)
        da, db = (DeviceArray(by_columns(one, max(len(one), 1))) for one in (a, b))
        ld = max(len(a), 1)
        square = left @ left.conj().T if is_hermitian else left @ left.T
        double = alpha * (left @ other(right)) + (np.conj(alpha) if is_hermitian else alpha) * (right @ other(left))
        kind = "he" if is_hermitian else "sy"
        for name, start, arguments, wanted in (
            (f"{kind}rk_v2", c, (factor, da, ld, beta), factor * square + beta * c),
            (f"{kind}r2k_v2", c, (alpha, da, ld, db, ld, beta), double + beta * c),
            (f"{kind}rkx", c, (TYPES[letter](1.5), da, ld, da, ld, beta), factor * square + beta * c),
            (f"{kind}rk_v2", c * np.nan, (factor, da, ld, real(0)), factor * square),
        ):
            dc = DeviceArray(kept(fill, start).T.copy())
            BLAS(f"{letter}{name}", fill, op, n, k, *arguments, dc, n)
            assert_kept(fill, dc.get(), wanted, max(k, 1), letter)


def triangles_times_matrices_agree() -> None:
    for letter, side, fill, op, unit in itertools.product("SDCZ", (LEFT, RIGHT), (LOWER, UPPER), (0, 1, 2), (0, 1)):
        for m, n in ((1, 1), (70, 33)):
            size = (m, n)[side]
            full, b, alpha = numbers(letter, size, size), numbers(letter, m, n), numbers(letter, 1)[0]
            triangle = np.tril(full) if fill == LOWER else np.triu(full)
            if unit:
                np.fill_diagonal(triangle, 1)
            matrix = operated(op, triangle)
            wanted = alpha * (matrix @ b if side == LEFT else b @ matrix)
            da, db = DeviceArray(kept(fill, full).T.copy()), DeviceArray(by_columns(b, m + 2))
            dc = DeviceArray(np.full((n, m), np.nan, TYPES[letter]))
            BLAS(f"{letter}trmm_v2", side, fill, op, unit, m, n, alpha, da, size, db, m + 2, dc, m)
            assert_close(dc.get().T, wanted, size, TYPES[letter])
            BLAS(f"{letter}trmm_v2", side, fill, op, unit, m, n, alpha, da, size, db, m + 2, db, m + 2)
            assert_close(db.get()[:, :m].T, wanted, size, TYPES[letter])


def factors_on_the_device_are_read_there() -> None:
    n, k = 20, 6
    a, c, x = numbers("C", n, k), symmetric("C", n, is_hermitian=True), numbers("C", n)
    alpha, beta = (DeviceArray(np.array([value], np.float32)) for value in (1.5, 0.5))
    both = DeviceArray(np.array([1 + 2j], np.complex64))
    dc, da, dx = DeviceArray(kept(LOWER, c).T.copy()), DeviceArray(by_columns(a, n)), DeviceArray(x)
    BLAS("SetPointerMode_v2", 1)
    try:
        BLAS("Cherk_v2", LOWER, 0, n, k, alpha, da, n, beta, dc, n)
        BLAS("Cher2k_v2", LOWER, 0, n, k, both, da, n, da, n, beta, dc, n)
        BLAS("Cher_v2", LOWER, n, alpha, dx, 1, dc, n)
    finally:
        BLAS("SetPointerMode_v2", 0)
    square = a @ a.conj().T
    wanted = 0.5 * (1.5 * square + 0.5 * c) + 2 * square + 1.5 * np.outer(x, x.conj())
    assert_kept(LOWER, dc.get(), wanted, k, "C")


def triangles_are_packed_and_unpacked() -> None:
    for letter, fill in itertools.product(TYPES, (LOWER, UPPER)):
        matrix = numbers(letter, 7, 7)
        flat = packed(fill, matrix)
        to, whole = DeviceArray(np.zeros_like(flat)), DeviceArray(by_columns(np.full((7, 7), 5, matrix.dtype), 9))
        BLAS(f"{letter}trttp", fill, 7, DeviceArray(by_columns(kept(fill, matrix), 9)), 9, to)
        assert np.array_equal(to.get(), flat)
        BLAS(f"{letter}tpttr", fill, 7, DeviceArray(flat), whole, 9)
        triangle = np.where(np.isnan(kept(fill, matrix)), 5, matrix)  # the other one stays
        assert np.array_equal(whole.get(), by_columns(triangle, 9))


def wrong_arguments_are_refused() -> None:
    x, one = DeviceArray(numbers("C", 64)), np.complex64(1)
    real = np.float32(1)
    for call in (
        ("Csymv_v2", 2, 4, one, x, 4, x, 1, one, x, 1),
        ("Csymv_v2", LOWER, -1, one, x, 4, x, 1, one, x, 1),
        ("Csymv_v2", LOWER, 4, one, x, 3, x, 1, one, x, 1),
        ("Csymv_v2", LOWER, 4, one, x, 4, x, 0, one, x, 1),
        ("Csymv_v2", LOWER, 4, None, x, 4, x, 1, one, x, 1),
        ("Chbmv_v2", LOWER, 4, 2, one, x, 2, x, 1, one, x, 1),
        ("Cgbmv_v2", 0, 4, 4, 1, 1, one, x, 2, x, 1, one, x, 1),
        ("Ctrmv_v2", LOWER, 7, 0, 4, x, 4, x, 1),
        ("Ctpsv_v2", LOWER, 0, 2, 4, x, x, 1),
        ("Cher_v2", LOWER, 4, real, x, 0, x, 4),
        ("Csyrk_v2", LOWER, 2, 4, 4, one, x, 4, one, x, 4),
        ("Cherk_v2", LOWER, 1, 4, 4, real, x, 4, real, x, 4),
        ("Cherk_v2", LOWER, 0, 4, 4, real, x, 3, real, x, 4),
        ("Chemm_v2", 2, LOWER, 4, 4, one, x, 4, x, 4, one, x, 4),
        ("Ctrmm_v2", LEFT, LOWER, 0, 0, 4, 4, one, x, 4, x, 4, x, 5),
        ("Ctrttp", 2, 4, x, 4, x),
        ("Ctpttr", LOWER, 4, x, x, 3),
    ):
        assert BLAS.status(*call) == INVALID_VALUE, call


CASES = {
    case.__name__: case
    for case in (
        products_with_vectors_agree,
        bands_agree,
        triangles_times_and_over_vectors_agree,
        updates_agree,
        symmetric_products_agree,
        changes_of_triangles_agree,
        triangles_times_matrices_agree,
        factors_on_the_device_are_read_there,
        triangles_are_packed_and_unpacked,
        wrong_arguments_are_refused,
    )
}

if __name__ == "__main__":
    main(CASES)
