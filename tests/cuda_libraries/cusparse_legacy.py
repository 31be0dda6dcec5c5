"""cuSPARSE's functions for CSR, BSR and diagonals with indices of 32 bits, beside dense references."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cusparse import (
    CUSPARSE,
    HANDLE,
    INVALID_VALUE,
    NOT_INITIALIZED,
    TYPES,
    assert_close,
    numbers,
    op,
    scalar,
    setup,
    sparse,
)
from tests.cuda_libraries.cusparse_products import Guarded, blocks_of
from tests.cuda_libraries.toolkit import DeviceArray, check, main

MATRIX_TYPE_NOT_SUPPORTED, ZERO_PIVOT = 8, 9
LETTERS: dict[Any, str] = {np.float32: "S", np.float64: "D", np.complex64: "C", np.complex128: "Z"}


def function(dtype: Any, name: str) -> Any:
    return getattr(CUSPARSE, f"cusparse{LETTERS[dtype]}{name}")


def about(base: int = 0, fill: int = 0, unit: int = 0) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    check(CUSPARSE.cusparseCreateMatDescr(ctypes.byref(made)))
    check(CUSPARSE.cusparseSetMatIndexBase(made, base))
    check(CUSPARSE.cusparseSetMatFillMode(made, fill))
    check(CUSPARSE.cusparseSetMatDiagType(made, unit))
    return made


def ints(values: Any) -> DeviceArray:
    return DeviceArray(np.asarray(values, np.int32))


class Csr:
    """A dense matrix's nonzeros on the device, in an order of rows that may be shuffled."""

    def __init__(self, matrix: NDArray[Any], base: int = 0, shuffled: bool = False) -> None:
        rows, cols = np.nonzero(matrix)
        if shuffled:
            order = np.lexsort((np.random.default_rng(9).random(len(rows)), rows))
            rows, cols = rows[order], cols[order]
        self.matrix, self.rows, self.cols, self.count = matrix, rows, cols, len(rows)
        counts = np.bincount(rows, minlength=len(matrix))
        self.offsets = ints(np.concatenate([[0], np.cumsum(counts)]) + base)
        self.columns, self.values = ints(cols + base), DeviceArray(matrix[rows, cols])
        self.arrays = self.values.pointer, self.offsets.pointer, self.columns.pointer


def sorting() -> None:
    """Entries by row and by column, rows' entries, each with its permutation."""
    random = np.random.default_rng(8)
    for count in (1, 17, 3000):
        places = random.permutation(90 * 70)[:count]
        rows, cols = places // 70, places % 70
        for name, order in (("Row", np.lexsort((cols, rows))), ("Column", np.lexsort((rows, cols)))):
            device = [ints(rows), ints(cols), ints(np.arange(count) + 5)]
            size = ctypes.c_size_t()
            sizes = HANDLE, 90, 70, count, device[0].pointer, device[1].pointer
            check(CUSPARSE.cusparseXcoosort_bufferSizeExt(*sizes, ctypes.byref(size)))
            buffer = Guarded(size.value)
            check(getattr(CUSPARSE, f"cusparseXcoosortBy{name}")(*sizes, device[2].pointer, buffer.pointer))
            assert (device[0].get() == rows[order]).all()
            assert (device[1].get() == cols[order]).all()
            assert (device[2].get() == order + 5).all()
            buffer.check()
    for base in (0, 1):
        a = Csr(sparse(60, 50, np.float32), base, shuffled=True)
        p = ints(np.zeros(a.count))
        check(CUSPARSE.cusparseCreateIdentityPermutation(HANDLE, a.count, p.pointer))
        shape = HANDLE, 60, 50, a.count
        check(CUSPARSE.cusparseXcsrsort_bufferSizeExt(*shape, *a.arrays[1:], ctypes.byref(size)))
        buffer = Guarded(size.value)
        check(CUSPARSE.cusparseXcsrsort(*shape, about(base), *a.arrays[1:], p.pointer, buffer.pointer))
        assert (a.columns.get() == np.nonzero(a.matrix)[1] + base).all()
        assert (a.values.get()[p.get()] == a.matrix[np.nonzero(a.matrix)]).all()
        buffer.check()


def unsorting() -> None:
    """Rows are sorted with their numbers, and brought back."""
    for dtype in TYPES:
        a = Csr(sparse(30, 40, dtype), 1, shuffled=True)
        before = a.columns.get().copy(), a.values.get().copy()
        info, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(CUSPARSE.cusparseCreateCsru2csrInfo(ctypes.byref(info)))
        call = HANDLE, 30, 40, a.count
        check(function(dtype, "csru2csr_bufferSizeExt")(*call, *a.arrays, info, ctypes.byref(size)))
        buffer = Guarded(size.value)
        assert function(dtype, "csr2csru")(*call, about(1), *a.arrays, info, buffer.pointer) == INVALID_VALUE
        check(function(dtype, "csru2csr")(*call, about(1), *a.arrays, info, buffer.pointer))
        assert (a.values.get() == a.matrix[np.nonzero(a.matrix)]).all()
        assert (a.columns.get() == np.nonzero(a.matrix)[1] + 1).all()
        check(function(dtype, "csr2csru")(*call, about(1), *a.arrays, info, buffer.pointer))
        assert (a.columns.get() == before[0]).all()
        assert (a.values.get() == before[1]).all()
        buffer.check()
        check(CUSPARSE.cusparseDestroyCsru2csrInfo(info))


def formats() -> None:
    """Rows of entries and offsets of rows, there and back; the transposed matrix."""
    for dtype, data_type in TYPES.items():
        for base in (0, 1):
            a = Csr(sparse(50, 33, dtype), base, shuffled=True)
            rows, offsets = ints(np.zeros(a.count)), ints(np.zeros(51))
            check(CUSPARSE.cusparseXcsr2coo(HANDLE, a.offsets.pointer, a.count, 50, rows.pointer, base))
            assert (rows.get() == a.rows + base).all()
            check(CUSPARSE.cusparseXcoo2csr(HANDLE, rows.pointer, a.count, 50, offsets.pointer, base))
            assert (offsets.get() == a.offsets.get()).all()
            for action in (1, 0):
                values = DeviceArray(np.full(a.count, 7, dtype))
                csc = [values, ints(np.zeros(34)), ints(np.zeros(a.count))]
                size = ctypes.c_size_t()
                pointers = [array.pointer for array in csc]
                call = HANDLE, 50, 33, a.count, *a.arrays, *pointers, data_type, action, base, 1
                check(CUSPARSE.cusparseCsr2cscEx2_bufferSize(*call, ctypes.byref(size)))
                buffer = Guarded(size.value)
                check(CUSPARSE.cusparseCsr2cscEx2(*call, buffer.pointer))
                inner, outer = np.nonzero(a.matrix.T)[::-1]
                wanted = np.concatenate([[0], np.cumsum(np.bincount(outer, minlength=33))])
                assert (csc[1].get() == wanted + base).all()
                assert (csc[2].get() == inner + base).all()
                assert (values.get() == (a.matrix[inner, outer] if action else 7)).all()
                buffer.check()


def counts() -> None:
    for dtype in TYPES:
        matrix = sparse(20, 30, dtype)
        dense, total = DeviceArray(np.pad(matrix.T, ((0, 0), (0, 3)))), ctypes.c_int()
        for direction, axis in ((0, 1), (1, 0)):
            counts = ints(np.zeros(matrix.shape[direction]))
            call = HANDLE, direction, 20, 30, about(), dense.pointer, 23, counts.pointer
            check(function(dtype, "nnz")(*call, ctypes.byref(total)))
            assert (counts.get() == (matrix != 0).sum(axis)).all()
            assert total.value == np.count_nonzero(matrix)
            on_device = ints([0])
            check(CUSPARSE.cusparseSetPointerMode(HANDLE, 1))
            check(function(dtype, "nnz")(*call, on_device.pointer))
            check(CUSPARSE.cusparseSetPointerMode(HANDLE, 0))
            assert on_device.get()[0] == total.value


def sums() -> None:
    for dtype in TYPES:
        a, b = Csr(sparse(40, 35, dtype), 0), Csr(sparse(40, 35, dtype), 1)
        offsets, total, size = ints(np.zeros(41)), ctypes.c_int(), ctypes.c_size_t()
        first = HANDLE, 40, 35, scalar(2, dtype), about(0), a.count, *a.arrays
        second = scalar(-3, dtype), about(1), b.count, *b.arrays, about(1)
        check(function(dtype, "csrgeam2_bufferSizeExt")(*first, *second, None, None, None, ctypes.byref(size)))
        buffer = Guarded(size.value)
        sides = about(0), a.count, *a.arrays[1:], about(1), b.count, *b.arrays[1:], about(1)
        end = offsets.pointer, ctypes.byref(total), buffer.pointer
        check(CUSPARSE.cusparseXcsrgeam2Nnz(HANDLE, 40, 35, *sides, *end))
        wanted = 2 * a.matrix - 3 * b.matrix
        rows, cols = np.nonzero((a.matrix != 0) | (b.matrix != 0))
        assert total.value == len(rows)
        columns, values = ints(np.zeros(total.value)), DeviceArray(np.zeros(total.value, dtype))
        arrays = values.pointer, offsets.pointer, columns.pointer
        check(function(dtype, "csrgeam2")(*first, *second, *arrays, buffer.pointer))
        assert (columns.get() == cols + 1).all()
        assert_close(values.get(), wanted[rows, cols])
        buffer.check()


def solvable(size: int, dtype: Any) -> NDArray[Any]:
    matrix = sparse(size, size, dtype)
    matrix[size // 2, : size // 2] = 0
    np.fill_diagonal(matrix, 6 + numbers((size,), dtype))
    return matrix


def lu_without_fill(matrix: NDArray[Any], pattern: NDArray[Any]) -> NDArray[Any]:
    left = matrix.astype(np.complex128 if np.dtype(matrix.dtype).kind == "c" else np.float64)
    for row in range(len(left)):
        for k in np.flatnonzero(pattern[row, :row]):
            left[row, k] /= left[k, k]
            later = np.flatnonzero(pattern[row] & pattern[k])
            later = later[later > k]
            left[row, later] -= left[row, k] * left[k, later]
    return left


def cholesky_without_fill(matrix: NDArray[Any], pattern: NDArray[Any]) -> NDArray[Any]:
    """The lower triangle is the factor, the upper one is the matrix's."""
    left = matrix.astype(np.complex128 if np.dtype(matrix.dtype).kind == "c" else np.float64)
    for row in range(len(left)):
        for k in np.flatnonzero(pattern[row, : row + 1]):
            both = np.flatnonzero(pattern[row, :k] & pattern[k, :k])
            rest = left[row, k] - left[row, both] @ left[k, both].conj()
            left[row, k] = np.sqrt(rest.real) if k == row else rest / left[k, k]
    return left


def definite(size: int, dtype: Any) -> NDArray[Any]:
    matrix = sparse(size, size, dtype) / 4
    matrix = (np.tril(matrix, -1) + np.tril(matrix, -1).conj().T).astype(dtype)
    np.fill_diagonal(matrix, 8)
    return matrix


FACTORS = (("csrilu02", "Csrilu02", lu_without_fill, solvable), ("csric02", "Csric02", cholesky_without_fill, definite))


def factors() -> None:
    for dtype in TYPES:
        for name, kind, reference, make in FACTORS:
            for base, size in ((0, 90), (1, 9)):
                a = Csr(make(size, dtype), base)
                info, bytes_needed = ctypes.c_void_p(), ctypes.c_int()
                check(getattr(CUSPARSE, f"cusparseCreate{kind}Info")(ctypes.byref(info)))
                call = HANDLE, size, a.count, about(base), *a.arrays, info
                assert function(dtype, name)(*call, 0, None) == INVALID_VALUE  # not analysed
                check(function(dtype, f"{name}_bufferSize")(*call, ctypes.byref(bytes_needed)))
                buffer = Guarded(bytes_needed.value)
                check(function(dtype, f"{name}_analysis")(*call, 1, buffer.pointer))
                check(function(dtype, name)(*call, 1, buffer.pointer))
                position = ctypes.c_int(5)
                check(getattr(CUSPARSE, f"cusparseX{name}_zeroPivot")(HANDLE, info, ctypes.byref(position)))
                assert position.value == -1
                wanted = reference(a.matrix, a.matrix != 0)
                assert_close(a.values.get(), wanted[a.rows, a.cols])
                buffer.check()
                check(getattr(CUSPARSE, f"cusparseDestroy{kind}Info")(info))


def zero_pivots() -> None:
    """A diagonal that lacks an entry is found by the analysis, one that becomes 0 by the factor."""
    dtype = np.float64
    for base in (0, 1):
        lacking, singular = solvable(12, dtype), solvable(12, dtype)
        lacking[7, 7] = 0
        singular[4:6, :] = 0
        singular[:, 4:6] = 0
        singular[4:6, 4:6] = 1  # the second of these rows is eliminated to 0
        for matrix, row in ((lacking, 7), (singular, 5)):
            a, info, position = Csr(matrix, base), ctypes.c_void_p(), ctypes.c_int()
            check(CUSPARSE.cusparseCreateCsrilu02Info(ctypes.byref(info)))
            call = HANDLE, 12, a.count, about(base), *a.arrays, info, 0, None
            check(CUSPARSE.cusparseDcsrilu02_analysis(*call))
            status = CUSPARSE.cusparseXcsrilu02_zeroPivot(HANDLE, info, ctypes.byref(position))
            assert (status, position.value) == ((ZERO_PIVOT, row + base) if row == 7 else (0, -1))
            check(CUSPARSE.cusparseDcsrilu02(*call))
            on_device = ints([0])
            check(CUSPARSE.cusparseSetPointerMode(HANDLE, 1))
            assert CUSPARSE.cusparseXcsrilu02_zeroPivot(HANDLE, info, on_device.pointer) == ZERO_PIVOT
            check(CUSPARSE.cusparseSetPointerMode(HANDLE, 0))
            assert on_device.get()[0] == row + base


def boosts() -> None:
    """A pivot that is too small is replaced."""
    dtype = np.float32
    a, info = Csr(np.array([[1, 2], [1, 2]], dtype)), ctypes.c_void_p()
    check(CUSPARSE.cusparseCreateCsrilu02Info(ctypes.byref(info)))
    tolerance, value = ctypes.c_double(1e-3), ctypes.c_float(9)
    check(CUSPARSE.cusparseScsrilu02_numericBoost(HANDLE, info, 1, ctypes.byref(tolerance), ctypes.byref(value)))
    call = HANDLE, 2, a.count, about(), *a.arrays, info, 0, None
    check(CUSPARSE.cusparseScsrilu02_analysis(*call))
    check(CUSPARSE.cusparseScsrilu02(*call))
    assert (a.values.get() == [1, 2, 1, 9]).all()
    assert CUSPARSE.cusparseXcsrilu02_zeroPivot(HANDLE, info, ctypes.byref(ctypes.c_int())) == 0


class Bsr:
    def __init__(self, matrix: NDArray[Any], block: int, by_column: bool, base: int) -> None:
        self.matrix, self.block, self.by_column, self.base = matrix, block, by_column, base
        offsets, columns, values = blocks_of(matrix, block, block, by_column)
        self.count = len(columns)
        self.offsets, self.columns = ints(offsets + base), ints(columns + base)
        self.values = DeviceArray(values)
        self.arrays = self.values.pointer, self.offsets.pointer, self.columns.pointer

    def of(self, dense: NDArray[Any]) -> NDArray[Any]:
        """Those numbers of another matrix that this one has in its blocks."""
        parts = []
        offsets, columns = self.offsets.get() - self.base, self.columns.get() - self.base
        for row in range(len(offsets) - 1):
            for at in range(offsets[row], offsets[row + 1]):
                n, col = self.block, columns[at]
                part = dense[n * row : n * row + n, n * col : n * col + n]
                parts.append((part.T if self.by_column else part).ravel())
        return np.concatenate(parts)


def in_blocks(matrix: NDArray[Any], block: int) -> NDArray[Any]:
    """The pattern, in whole blocks."""
    size = len(matrix) // block
    blocks = (matrix != 0).reshape(size, block, size, block).any((1, 3))
    return np.kron(blocks, np.ones((block, block), bool))


def block_factors() -> None:
    for dtype in TYPES:
        for name, kind, reference, make in FACTORS:
            for by_column in (False, True):
                matrix = make(24, dtype)
                blocks = np.kron(np.random.default_rng(4).random((8, 8)) < 0.4, np.ones((3, 3))).astype(bool)
                matrix[~(blocks | blocks.T | np.kron(np.eye(8), np.ones((3, 3))).astype(bool))] = 0
                a = Bsr(matrix, 3, by_column, 1)
                info = ctypes.c_void_p()
                check(getattr(CUSPARSE, f"cusparseCreate{kind.replace('Csr', 'Bsr')}Info")(ctypes.byref(info)))
                call = HANDLE, int(by_column), 8, a.count, about(1), *a.arrays, 3, info, 0, None
                check(function(dtype, name.replace("csr", "bsr") + "_analysis")(*call))
                check(function(dtype, name.replace("csr", "bsr"))(*call))
                wanted = reference(matrix, in_blocks(matrix, 3))
                assert_close(a.values.get(), a.of(wanted))


def block_solves() -> None:
    for dtype in TYPES:
        for upper, unit, operation in ((0, 0, 0), (1, 0, 1), (0, 1, 2), (1, 1, 0)):
            matrix = (sparse(20, 20, dtype) / 4).astype(dtype)
            np.fill_diagonal(matrix, 2 + numbers((20,), dtype) / 8)
            a = Bsr(matrix, 4, bool(unit), upper)
            triangle = np.triu(matrix) if upper else np.tril(matrix)
            if unit:
                np.fill_diagonal(triangle, 1)
            left = op(triangle, operation).astype(np.complex128)
            right = numbers((20, 3), dtype)
            b, x = DeviceArray(np.pad(right.T, ((0, 0), (0, 1)))), DeviceArray(np.zeros((3, 22), dtype))
            info, kind, factor = ctypes.c_void_p(), about(upper, upper, unit), scalar(2, dtype)
            check(CUSPARSE.cusparseCreateBsrsv2Info(ctypes.byref(info)))
            first = HANDLE, unit, operation, 5, a.count
            end = *a.arrays, 4, info
            check(function(dtype, "bsrsv2_analysis")(*first, kind, *end, 0, None))
            check(function(dtype, "bsrsv2_solve")(*first, factor, kind, *end, b.pointer, x.pointer, 0, None))
            assert np.abs(left @ x.get()[0, :20] - 2 * right[:, 0]).max() < 200 * np.finfo(dtype).eps * 20
            matrices = ctypes.c_void_p()
            check(CUSPARSE.cusparseCreateBsrsm2Info(ctypes.byref(matrices)))
            several = HANDLE, unit, operation, 0, 5, 3, a.count
            end = *a.arrays, 4, matrices
            check(function(dtype, "bsrsm2_analysis")(*several, kind, *end, 0, None))
            sides = b.pointer, 21, x.pointer, 22
            check(function(dtype, "bsrsm2_solve")(*several, factor, kind, *end, *sides, 0, None))
            assert np.abs(left @ x.get()[:, :20].T - 2 * right).max() < 200 * np.finfo(dtype).eps * 20
            position = ctypes.c_int()
            check(CUSPARSE.cusparseXbsrsv2_zeroPivot(HANDLE, info, ctypes.byref(position)))


def diagonals_of(m: int, count: int, dtype: Any, reach: int, weight: float) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Diagonals from the lowest one, each (systems, m), and the dense matrices."""
    all_of_them = [numbers((count, m), dtype) for _ in range(2 * reach + 1)]
    all_of_them[reach] += np.asarray(weight, dtype)
    dense = np.zeros((count, m, m), np.complex128)
    for i, values in enumerate(all_of_them):
        shift = i - reach
        for row in range(max(0, -shift), min(m, m - shift)):
            dense[:, row, row + shift] = values[:, row]
        outside = slice(0, -shift) if shift < 0 else slice(m - shift, m)
        if shift:
            values[:, outside] = 0
    return all_of_them, dense


def residual(dense: NDArray[Any], x: NDArray[Any], right: NDArray[Any], dtype: Any) -> None:
    error = np.abs(np.einsum("sij,sj->si", dense, x.astype(np.complex128)) - right).max()
    assert error < 2000 * np.finfo(dtype).eps * max(1.0, float(np.abs(x).max())), error


def tridiagonal() -> None:
    """With pivots where the diagonal is 0, and without where it is large."""
    for dtype in TYPES:
        for m in (3, 4, 9, 64, 401):
            for name, weight in (("gtsv2", 0.0), ("gtsv2_nopivot", 6.0)):
                three, dense = diagonals_of(m, 1, dtype, 1, weight)
                if not weight:
                    three[1][0, 0] = dense[0, 0, 0] = 0
                device, right = [DeviceArray(values) for values in three], numbers((5, m), dtype)
                b, size = DeviceArray(np.pad(right, ((0, 0), (0, 2)))), ctypes.c_size_t()
                call = HANDLE, m, 5, *(array.pointer for array in device), b.pointer, m + 2
                check(function(dtype, f"{name}_bufferSizeExt")(*call, ctypes.byref(size)))
                buffer = Guarded(size.value)
                check(function(dtype, name)(*call, buffer.pointer))
                residual(np.repeat(dense, 5, 0), b.get()[:, :m], right, dtype)
                assert (b.get()[:, m:] == 0).all()
                assert all((array.get() == values).all() for array, values in zip(device, three, strict=True))
                buffer.check()


def tridiagonal_batches() -> None:
    for dtype in TYPES:
        three, dense = diagonals_of(50, 7, dtype, 1, 6.0)
        right = numbers((7, 50), dtype)
        device = [DeviceArray(np.pad(values, ((0, 0), (0, 4)))) for values in (*three, right)]
        size = ctypes.c_size_t()
        call = HANDLE, 50, *(array.pointer for array in device), 7, 54
        check(function(dtype, "gtsv2StridedBatch_bufferSizeExt")(*call, ctypes.byref(size)))
        buffer = Guarded(size.value)
        check(function(dtype, "gtsv2StridedBatch")(*call, buffer.pointer))
        residual(dense, device[3].get()[:, :50], right, dtype)
        buffer.check()
        for algorithm in (0, 1, 2):
            three, dense = diagonals_of(50, 7, dtype, 1, 0.0 if algorithm else 6.0)
            device = [DeviceArray(values.T) for values in (*three, right)]
            call = HANDLE, algorithm, 50, *(array.pointer for array in device), 7
            check(function(dtype, "gtsvInterleavedBatch_bufferSizeExt")(*call, ctypes.byref(size)))
            check(function(dtype, "gtsvInterleavedBatch")(*call, None))
            residual(dense, device[3].get().T, right, dtype)


def pentadiagonal() -> None:
    for dtype in TYPES:
        for m in (1, 2, 4, 40):
            five, dense = diagonals_of(m, 6, dtype, 2, 0.5)
            right = numbers((6, m), dtype)
            device, size = [DeviceArray(values.T) for values in (*five, right)], ctypes.c_size_t()
            call = HANDLE, 0, m, *(array.pointer for array in device), 6
            check(function(dtype, "gpsvInterleavedBatch_bufferSizeExt")(*call, ctypes.byref(size)))
            check(function(dtype, "gpsvInterleavedBatch")(*call, None))
            residual(dense, device[5].get().T, right, dtype)


def refusals() -> None:
    a, info = Csr(solvable(5, np.float32)), ctypes.c_void_p()
    check(CUSPARSE.cusparseCreateCsrilu02Info(ctypes.byref(info)))
    symmetric = about()
    check(CUSPARSE.cusparseSetMatType(symmetric, 1))
    analyse = CUSPARSE.cusparseScsrilu02_analysis
    assert analyse(None, 5, a.count, about(), *a.arrays, info, 0, None) == NOT_INITIALIZED
    assert analyse(HANDLE, -1, a.count, about(), *a.arrays, info, 0, None) == INVALID_VALUE
    assert analyse(HANDLE, 5, a.count, symmetric, *a.arrays, info, 0, None) == MATRIX_TYPE_NOT_SUPPORTED
    assert CUSPARSE.cusparseXcoo2csr(HANDLE, None, 3, 3, a.offsets.pointer, 0) == INVALID_VALUE
    size = ctypes.c_size_t()
    three = (a.values.pointer,) * 4
    assert CUSPARSE.cusparseSgtsv2_bufferSizeExt(HANDLE, 2, 1, *three, 2, ctypes.byref(size)) == INVALID_VALUE


CASES = {
    case.__name__: case
    for case in (
        sorting,
        unsorting,
        formats,
        counts,
        sums,
        factors,
        zero_pivots,
        boosts,
        block_factors,
        block_solves,
        tridiagonal,
        tridiagonal_batches,
        pentadiagonal,
        refusals,
    )
}
if __name__ == "__main__":
    setup()
    main(CASES)
