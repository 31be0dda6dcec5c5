"""cuBLAS's batches of matrices beside numpy's: products with vectors, triangles, LU and QR decompositions."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cublas import BLAS, INVALID_VALUE, NOT_SUPPORTED, TYPES, assert_close, numbers, operated
from tests.cuda_libraries.toolkit import DeviceArray, main


class Batch(DeviceArray):
    """Matrices on the device, column by column, and the table of where they lie."""

    def __init__(self, matrices: NDArray[Any]) -> None:
        super().__init__(np.swapaxes(matrices, 1, 2) if matrices.ndim == 3 else matrices)
        first = self.pointer.value or 0
        self.table = DeviceArray(np.array([first + z * self.host[0].nbytes for z in range(len(self.host))], np.uint64))

    def matrices(self) -> NDArray[Any]:
        return np.swapaxes(self.get(), 1, 2)


def solvable(letter: str, count: int, n: int) -> NDArray[Any]:
    made: NDArray[Any] = (numbers(letter, count, n, n) + 2 * n**0.5 * np.eye(n)[:, ::-1]).astype(TYPES[letter])
    return made


def integers(count: int) -> DeviceArray:
    return DeviceArray(np.full(count, 99, np.int32))


def products_with_vectors_agree() -> None:
    m, n, count, jump = 40, 17, 5, ctypes.c_longlong
    for letter, op in itertools.product("SDCZ", (0, 1, 2)):
        a, (alpha, beta) = numbers(letter, count, m, n), numbers(letter, 2)
        rows, columns = (m, n) if op == 0 else (n, m)
        x, y = numbers(letter, count, columns), numbers(letter, count, rows)
        wanted = [alpha * (operated(op, a[z]) @ x[z][::-1]) + beta * y[z] for z in range(count)]
        da, dx, dy = Batch(a), Batch(x), Batch(y)
        BLAS(f"{letter}gemvBatched", op, m, n, alpha, da.table, m, dx.table, -1, beta, dy.table, 1, count)
        assert_close(dy.get(), wanted, columns, TYPES[letter])
        dy = Batch(y)
        jumps = (jump(m * n), jump(columns), jump(rows))
        matrix, vector = (op, m, n, alpha, da, m, jumps[0]), (dx, -1, jumps[1])
        BLAS(f"{letter}gemvStridedBatched", *matrix, *vector, beta, dy, 1, jumps[2], count)
        assert_close(dy.get(), wanted, columns, TYPES[letter])


def groups_of_products_agree() -> None:
    """Sizes, operations and factors of a group's own; tables run through all groups."""
    ops, sizes = ((0, 1), (1, 0), (0, 0)), ((5, 7, 3), (16, 2, 9), (1, 1, 40))
    counts = (2, 1, 3)
    for letter, form in itertools.product(
        "SD", ("{}gemmGroupedBatched", "GemmGroupedBatchedEx", "{}gemmGroupedBatched_64")
    ):
        alpha, beta = numbers(letter, 3), numbers(letter, 3)
        size = np.int64 if form.endswith("64") else np.int32
        m, n, k = (np.array(column, size) for column in zip(*sizes, strict=True))
        lda, ldb = np.where([a for a, _ in ops], k, m).astype(size), np.where([b for _, b in ops], n, k).astype(size)
        matrices = [[numbers(letter, count, *shape) for count, shape in zip(counts, shapes, strict=True)]
            for shapes in (
                [(m[g], k[g])[:: -1 if ops[g][0] else 1] for g in range(3)],
                [(k[g], n[g])[:: -1 if ops[g][1] else 1] for g in range(3)],
                [(m[g], n[g]) for g in range(3)],
            )]  # fmt: skip
        batches = [[Batch(group) for group in side] for side in matrices]
        a, b, c = (DeviceArray(np.concatenate([batch.table.host for batch in side])) for side in batches)
        kind = {"S": 0, "D": 1}[letter]
        types, compute = ([kind], [68 + 2 * kind]) if "Ex" in form else ([], [])
        opa, opb = (np.array(column, np.int32) for column in zip(*ops, strict=True))
        groups: Any = ctypes.c_int64(3) if form.endswith("64") else 3
        end = (m, groups, np.array(counts, size), *compute)
        arguments = (opa, opb, m, n, k, alpha, a, *types, lda, b, *types, ldb, beta, c, *types, *end)
        BLAS(form.format(letter), *arguments)
        for g, batch in enumerate(batches[2]):
            for z, got in enumerate(batch.matrices()):
                product = operated(ops[g][0], matrices[0][g][z]) @ operated(ops[g][1], matrices[1][g][z])
                assert_close(got, alpha[g] * product + beta[g] * matrices[2][g][z], int(k[g]), TYPES[letter])
        wrong = (opa, opb, m, n, k, alpha, a, *types, np.zeros_like(lda), *arguments[8 + len(types) :])
        assert BLAS.status(form.format(letter), *wrong) == INVALID_VALUE


def triangles_are_solved() -> None:
    m, n, count = 9, 70, 4
    for letter, side, fill, op in itertools.product("SDCZ", (0, 1), (0, 1), (0, 1, 2)):
        size = (m, n)[side]
        full = (numbers(letter, count, size, size) / size + 2 * np.eye(size)).astype(TYPES[letter])
        b, alpha = numbers(letter, count, m, n), numbers(letter, 1)[0]
        da, db = Batch(full), Batch(b)
        BLAS(f"{letter}trsmBatched", side, fill, op, 0, m, n, alpha, da.table, size, db.table, m, count)
        for z, x in enumerate(db.matrices()):
            matrix = operated(op, np.tril(full[z]) if fill == 0 else np.triu(full[z]))
            assert_close(matrix @ x if side == 0 else x @ matrix, alpha * b[z], size, TYPES[letter])


def lower_and_upper(factors: NDArray[Any]) -> NDArray[Any]:
    made: NDArray[Any] = (np.tril(factors, -1) + np.eye(len(factors))) @ np.triu(factors)
    return made


def matrices_are_decomposed() -> None:
    count = 5
    for letter, n in itertools.product("SDCZ", (1, 7, 70)):
        a = solvable(letter, count, n)
        da, pivots, found = Batch(a), integers(count * n), integers(count)
        BLAS(f"{letter}getrfBatched", n, da.table, n, pivots, found, count)
        assert not np.any(found.get())
        at = pivots.get().reshape(count, n)
        for z, factors in enumerate(da.matrices()):
            rows = a[z].copy()
            for k, pivot in enumerate(at[z] - 1):
                rows[[k, pivot]] = rows[[pivot, k]]
            assert_close(lower_and_upper(factors), rows, 4 * n, TYPES[letter])
            assert np.all(np.abs(np.tril(factors, -1)) <= 1.5), "not the largest pivot"
        plain = (a + 4 * n * np.eye(n)).astype(TYPES[letter])
        da = Batch(plain)
        BLAS(f"{letter}getrfBatched", n, da.table, n, None, found, count)
        for z, factors in enumerate(da.matrices()):
            assert_close(lower_and_upper(factors), plain[z], 4 * n, TYPES[letter])


def systems_are_solved_and_matrices_inverted() -> None:
    count, sides, wrong = 3, 70, ctypes.c_int(9)
    for letter, n in itertools.product("SDCZ", (1, 7, 40)):
        a, b = solvable(letter, count, n), numbers(letter, count, n, sides)
        factors, pivots, found = Batch(a), integers(count * n), integers(count)
        BLAS(f"{letter}getrfBatched", n, factors.table, n, pivots, found, count)
        for op in (0, 1, 2):
            db = Batch(b)
            system = (op, n, sides, factors.table, n, pivots, db.table, n)
            BLAS(f"{letter}getrsBatched", *system, ctypes.byref(wrong), count)
            assert wrong.value == 0
            for z, x in enumerate(db.matrices()):
                assert_close(operated(op, a[z]) @ x, b[z], 16 * n, TYPES[letter])
        inverse = Batch(a * np.nan)
        BLAS(f"{letter}getriBatched", n, factors.table, n, pivots, inverse.table, n, found, count)
        for z, x in enumerate(inverse.matrices()):
            assert_close(a[z] @ x, np.eye(n), 16 * n, TYPES[letter])
        if n <= 32:
            inverse, original = Batch(a * np.nan), Batch(a)
            BLAS(f"{letter}matinvBatched", n, original.table, n, inverse.table, n, found, count)
            for z, x in enumerate(inverse.matrices()):
                assert_close(a[z] @ x, np.eye(n), 16 * n, TYPES[letter])
            assert np.array_equal(original.matrices(), a)


def singular_matrices_are_told() -> None:
    a = np.stack([np.eye(4), np.diag([1.0, 0, 3, 0]), np.eye(4)])
    da, pivots, found, inverse = Batch(a), integers(12), integers(3), Batch(a)
    BLAS("DgetrfBatched", 4, da.table, 4, pivots, found, 3)
    assert list(found.get()) == [0, 2, 0]
    BLAS("DgetriBatched", 4, da.table, 4, pivots, inverse.table, 4, found, 3)
    assert list(found.get()) == [0, 2, 0]


def least_squares_agree() -> None:
    count, wrong = 3, ctypes.c_int(9)
    for letter, (m, n), sides in itertools.product("SDCZ", ((1, 1), (12, 5), (90, 40)), (1, 6)):
        a, b = numbers(letter, count, m, n), numbers(letter, count, m, sides)
        factors, taus = Batch(a), Batch(np.zeros((count, n), TYPES[letter]))
        BLAS(f"{letter}geqrfBatched", m, n, factors.table, m, taus.table, ctypes.byref(wrong), count)
        assert wrong.value == 0
        for z, (got, tau) in enumerate(zip(factors.matrices(), taus.get(), strict=True)):
            product = np.vstack([np.triu(got)[:n], np.zeros((m - n, n))]).astype(TYPES[letter])
            for k in reversed(range(n)):
                v = np.concatenate([np.zeros(k), [1], got[k + 1 :, k]]).astype(TYPES[letter])
                product = product - tau[k] * np.outer(v, v.conj() @ product)
            assert_close(product, a[z], 4 * m, TYPES[letter])
        da, db, found = Batch(a), Batch(b), integers(count)
        system = (0, m, n, sides, da.table, m, db.table, m, ctypes.byref(wrong), found, count)
        BLAS(f"{letter}gelsBatched", *system)
        assert not np.any(found.get())
        for z, x in enumerate(db.matrices()):
            rest = a[z].conj().T @ (a[z] @ x[:n] - b[z])
            assert_close(rest, np.zeros_like(rest), 60 * m * m, TYPES[letter])


def wrong_arguments_are_refused() -> None:
    wrong, found = ctypes.c_int(9), integers(1)
    a = Batch(np.eye(4, dtype=np.float32)[None])
    assert BLAS.status("SgetrfBatched", -1, a.table, 4, None, found, 1) == INVALID_VALUE
    assert BLAS.status("SgetrfBatched", 4, a.table, 3, None, found, 1) == INVALID_VALUE
    assert BLAS.status("SmatinvBatched", 33, a.table, 33, a.table, 33, found, 1) == INVALID_VALUE
    told = ctypes.byref(wrong)
    assert BLAS.status("SgetrsBatched", 0, 4, 1, a.table, 3, None, a.table, 4, told, 1) == INVALID_VALUE
    assert wrong.value == -5
    assert BLAS.status("SgeqrfBatched", 4, -1, a.table, 4, a.table, told, 1) == INVALID_VALUE
    assert wrong.value == -2
    assert BLAS.status("SgelsBatched", 1, 4, 4, 1, a.table, 4, a.table, 4, told, found, 1) == NOT_SUPPORTED
    assert BLAS.status("SgelsBatched", 0, 2, 4, 1, a.table, 4, a.table, 4, told, found, 1) == NOT_SUPPORTED


CASES = {
    case.__name__: case
    for case in (
        products_with_vectors_agree,
        groups_of_products_agree,
        triangles_are_solved,
        matrices_are_decomposed,
        systems_are_solved_and_matrices_inverted,
        singular_matrices_are_told,
        least_squares_agree,
        wrong_arguments_are_refused,
    )
}

if __name__ == "__main__":
    main(CASES)
