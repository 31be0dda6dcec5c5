"""cuSPARSE's products in formats made of blocks, of mixed types and in batches, and solves of several columns."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cusparse import (
    AS_IT_IS,
    CONJUGATED,
    CUSPARSE,
    HANDLE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    TRANSPOSED,
    TYPES,
    Matrix,
    Sparse,
    assert_close,
    long,
    numbers,
    op,
    scalar,
    setup,
    sparse,
)
from tests.cuda_libraries.toolkit import DeviceArray, check, main

HALF, BFLOAT, CHAR, FLOAT, DOUBLE, INT, COMPLEX = 2, 14, 3, 0, 1, 10, 4
GUARD = 64


class Guarded:
    """A work buffer of the size asked for, and whether what lies behind it is untouched."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.array = DeviceArray(np.full(size + GUARD, 0xA5, np.uint8))
        self.pointer = self.array.pointer

    def check(self) -> None:
        assert (self.array.get()[self.size :] == 0xA5).all(), "wrote behind the buffer"


def stored(values: NDArray[Any], data_type: int) -> NDArray[Any]:
    """Numbers as the device stores them; bfloat16 as integers of 16 bits."""
    if data_type == BFLOAT:
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    kinds: dict[int, Any] = {HALF: np.float16, CHAR: np.int8, INT: np.int32, FLOAT: np.float32, DOUBLE: np.float64}
    return values.astype(kinds.get(data_type, np.complex64))


def loaded(values: NDArray[Any], data_type: int) -> NDArray[Any]:
    if data_type == BFLOAT:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def descriptor(create: str, *arguments: Any) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    check(getattr(CUSPARSE, f"cusparseCreate{create}")(ctypes.byref(made), *arguments))
    return made


def blocks_of(matrix: NDArray[Any], height: int, width: int, by_column: bool) -> list[NDArray[Any]]:
    """Offsets, columns and values of BSR."""
    offsets, columns, values = [0], [], []
    for row in range(0, len(matrix), height):
        for col in range(0, matrix.shape[1], width):
            block = matrix[row : row + height, col : col + width]
            if block.any():
                columns.append(col // width)
                values.append(block.T.ravel() if by_column else block.ravel())
        offsets.append(len(columns))
    return [np.array(offsets, np.int32), np.array(columns, np.int32), np.concatenate(values)]


def block_sparse(rows: int, cols: int, block: tuple[int, int], dtype: Any) -> NDArray[Any]:
    matrix = numbers((rows * block[0], cols * block[1]), dtype)
    matrix *= np.kron(np.random.default_rng(5).random((rows, cols)) < 0.4, np.ones(block)).astype(bool)
    matrix[block[0] : 2 * block[0]] = 0  # an empty row of blocks
    return matrix


def multiply(a: ctypes.c_void_p, dense: NDArray[Any], by_row: bool, beta: complex = 0.5, operation: int = 0) -> None:
    """Compares with the product of `dense`, in one column and in several."""
    dtype = dense.dtype.type
    left, data_type = op(dense, operation), TYPES[dtype]
    for cols in (1, 20):
        b, c = Matrix(numbers((left.shape[1], cols), dtype), by_row), Matrix(numbers((len(left), cols), dtype), by_row)
        factors = scalar(2, dtype), scalar(beta, dtype)
        check(
            CUSPARSE.cusparseSpMM(
                *(HANDLE, operation, 0, factors[0], a, b.descriptor, factors[1], c.descriptor, data_type, 0, None)
            )
        )
        assert_close(c.get(), 2 * (left @ b.values) + beta * c.values)


def blocks() -> None:
    for dtype in TYPES:
        for block, by_column, base in (((3, 3), False, 0), ((2, 4), True, 1)):
            matrix = block_sparse(7, 5, block, dtype)
            offsets, columns, values = blocks_of(matrix, *block, by_column)
            arrays = [DeviceArray(offsets + base), DeviceArray(columns + base), DeviceArray(values)]
            sizes = [long(size) for size in (7, 5, len(columns), *block)]
            pointers = [array.pointer for array in arrays]
            a = descriptor("Bsr", *sizes, *pointers, 2, 2, base, TYPES[dtype], 1 if by_column else 2)
            for operation in (AS_IT_IS, TRANSPOSED, CONJUGATED):
                multiply(a, matrix, by_row=not by_column, operation=operation)


def blocked_ell() -> None:
    for dtype in (np.float32, np.complex128):
        block, matrix = 4, block_sparse(6, 5, (4, 4), np.float32).astype(dtype)
        kept = [[col for col in range(5) if matrix[4 * r : 4 * r + 4, 4 * col : 4 * col + 4].any()] for r in range(6)]
        width = max(len(columns) for columns in kept)
        columns = np.full((6, width), -1, np.int64)
        values = np.full((24, width * block), 7, dtype)  # what stands in blocks that are missing does not count
        for row, present in enumerate(kept):
            for slot, col in enumerate(present):
                columns[row, slot] = col
                part = matrix[4 * row : 4 * row + 4, 4 * col : 4 * col + 4]
                values[4 * row : 4 * row + 4, 4 * slot : 4 * slot + 4] = part
        arrays = [DeviceArray(columns), DeviceArray(values)]
        sizes = [long(size) for size in (24, 20, block, width * block)]
        a = descriptor("BlockedEll", *sizes, *(array.pointer for array in arrays), 3, 0, TYPES[dtype])
        multiply(a, matrix, by_row=True)
        multiply(a, matrix, by_row=False, operation=TRANSPOSED)


def slices_of(matrix: NDArray[Any], height: int, base: int) -> list[NDArray[Any]]:
    """Offsets, columns and values of sliced ELL, by column within each slice; -1 is no column."""
    offsets, columns, values = [base], [], []
    for first in range(0, len(matrix), height):
        rows = [np.flatnonzero(row) for row in matrix[first : first + height]] + [np.array([], int)] * height
        for at in range(max(len(row) for row in rows)):
            for i, row in enumerate(rows[:height]):
                columns.append(int(row[at]) + base if at < len(row) else -1)
                values.append(matrix[first + i, row[at]] if at < len(row) else 9)
        offsets.append(len(columns) + base)
    return [np.array(offsets, np.int32), np.array(columns, np.int32), np.array(values, matrix.dtype)]


def slices() -> None:
    for base in (0, 1):
        matrix = sparse(27, 19, np.float64)
        arrays = [DeviceArray(array) for array in slices_of(matrix, 4, base)]
        count = len(arrays[1].host)
        sizes = [long(size) for size in (27, 19, int(np.count_nonzero(matrix)), count, 4)]
        a = descriptor("SlicedEll", *sizes, *(array.pointer for array in arrays), 2, 2, base, DOUBLE)
        multiply(a, matrix, by_row=False)
        multiply(a, matrix, by_row=False, operation=TRANSPOSED)


def mixed() -> None:
    """Types of A, x, y and of the computation, with half an ulp of each result's type."""
    combinations = [
        (HALF, HALF, HALF, FLOAT, 1e-3),
        (HALF, HALF, FLOAT, FLOAT, 1e-6),
        (BFLOAT, BFLOAT, BFLOAT, FLOAT, 1e-2),
        (BFLOAT, BFLOAT, FLOAT, FLOAT, 1e-6),
        (CHAR, CHAR, INT, INT, 0.0),
        (CHAR, CHAR, FLOAT, FLOAT, 1e-6),
        (FLOAT, COMPLEX, COMPLEX, COMPLEX, 1e-6),
        (FLOAT, DOUBLE, DOUBLE, DOUBLE, 1e-12),
    ]
    for type_a, type_x, type_y, compute, error in combinations:
        for operation in (AS_IT_IS, TRANSPOSED):
            matrix = np.round(sparse(60, 40, np.float32) * 8)
            left = op(matrix, operation)
            rows, cols = np.nonzero(matrix)
            offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=60))]).astype(np.int32)
            arrays = [DeviceArray(offsets), DeviceArray(cols.astype(np.int32))]
            arrays.append(DeviceArray(stored(matrix[rows, cols], type_a)))
            sizes = [long(size) for size in (60, 40, len(cols))]
            a = descriptor("Csr", *sizes, *(array.pointer for array in arrays), 2, 2, 0, type_a)
            x, y = np.round(numbers((left.shape[1],), np.float32) * 4), np.round(numbers((len(left),), np.float32) * 4)
            device_x, device_y = DeviceArray(stored(x, type_x)), DeviceArray(stored(y, type_y))
            vector_x = descriptor("DnVec", long(len(x)), device_x.pointer, type_x)
            vector_y = descriptor("DnVec", long(len(y)), device_y.pointer, type_y)
            factors = DeviceArray(stored(np.array([3.0, 2.0]), compute)).host
            ends = [ctypes.c_void_p(factors[i:].ctypes.data) for i in (0, 1)]
            call = HANDLE, operation, ends[0], a, vector_x, ends[1], vector_y, compute, 0
            size = ctypes.c_size_t()
            check(CUSPARSE.cusparseSpMV_bufferSize(*call, ctypes.byref(size)))
            buffer = Guarded(size.value)
            check(CUSPARSE.cusparseSpMV(*call, buffer.pointer))
            wanted = 3 * (left @ x) + 2 * y
            got = loaded(device_y.get(), type_y)
            assert np.abs(got - wanted).max() <= error * np.abs(wanted).max(), (type_a, type_y, operation)
            buffer.check()


def batches() -> None:
    """Each batch with its own matrix, all with one matrix, and dense sides that are shared."""
    count, rows, cols, width = 3, 12, 10, 4
    pattern = sparse(rows, cols, np.float32) != 0
    outer, inner = np.nonzero(pattern)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(outer, minlength=rows))]).astype(np.int32)
    values = numbers((count, len(inner)), np.float32)
    b, c = numbers((count, width, cols), np.float32), numbers((count, width, rows), np.float32)
    columns = DeviceArray(np.tile(inner.astype(np.int32), (count, 1)))
    arrays = [DeviceArray(offsets), columns, DeviceArray(values), DeviceArray(b), DeviceArray(c)]
    sizes = [long(size) for size in (rows, cols, len(inner))]
    a = descriptor("Csr", *sizes, *(array.pointer for array in arrays[:3]), 2, 2, 0, FLOAT)
    dense_b = descriptor("DnMat", long(cols), long(width), long(cols), arrays[3].pointer, FLOAT, 1)
    dense_c = descriptor("DnMat", long(rows), long(width), long(rows), arrays[4].pointer, FLOAT, 1)
    check(CUSPARSE.cusparseDnMatSetStridedBatch(dense_b, count, long(cols * width)))
    call = HANDLE, 0, 0, scalar(1, np.float32), a, dense_b, scalar(0, np.float32), dense_c, FLOAT, 0, None
    assert CUSPARSE.cusparseSpMM(*call) == INVALID_VALUE  # c is one matrix
    check(CUSPARSE.cusparseDnMatSetStridedBatch(dense_c, count, long(rows * width)))
    for own in (False, True):
        if own:
            check(CUSPARSE.cusparseCsrSetStridedBatch(a, count, long(0), long(len(inner))))
        check(CUSPARSE.cusparseSpMM(*call))
        got = arrays[4].get().copy()
        for i in range(count):
            matrix = np.zeros((rows, cols), np.float32)
            matrix[pattern] = values[i if own else 0]
            assert_close(got[i].T, matrix @ b[i].T)


def several_columns() -> None:
    for dtype in (np.float32, np.complex128):
        for upper in (0, 1):
            for operation, operation_b in ((0, 0), (1, 0), (2, 2), (0, 1)):
                matrix = sparse(60, 60, dtype) / 4
                np.fill_diagonal(matrix, 2 + numbers((60,), dtype) / 8)
                a = Sparse(matrix.astype(dtype), "Coo" if upper else "Csr", base=1)
                a.attribute(0, upper)
                triangle = op(np.triu(a.matrix) if upper else np.tril(a.matrix), operation)
                wanted = numbers((60, 5), dtype)
                right = (triangle.astype(np.complex128) @ wanted).astype(dtype)
                b = Matrix(op(right, operation_b), by_row=upper == 0, gap=2)
                x = Matrix(np.zeros((60, 5), dtype), by_row=True)
                plan, size = ctypes.c_void_p(), ctypes.c_size_t()
                check(CUSPARSE.cusparseSpSM_createDescr(ctypes.byref(plan)))
                factor = scalar(0.5, dtype)
                call = (HANDLE, operation, operation_b, factor, a.descriptor, b.descriptor, x.descriptor)
                end = TYPES[dtype], 0, plan
                check(CUSPARSE.cusparseSpSM_bufferSize(*call, *end, ctypes.byref(size)))
                check(CUSPARSE.cusparseSpSM_analysis(*call, *end, None))
                check(CUSPARSE.cusparseSpSM_solve(*call, *end))
                error = np.abs(triangle @ x.get().astype(np.complex128) - right / 2).max()
                assert error < 100 * np.finfo(dtype).eps * np.abs(right).max(), (dtype, upper, operation, error)
                check(CUSPARSE.cusparseSpSM_destroyDescr(plan))


def refusals() -> None:
    matrix = sparse(8, 8, np.float32)
    a = Sparse(matrix)
    b, c = Matrix(numbers((8, 2), np.float64)), Matrix(numbers((8, 2), np.float32))
    one = scalar(1, np.float32)
    call = HANDLE, 0, 0, one, a.descriptor, b.descriptor, one, c.descriptor, FLOAT, 0, None
    assert CUSPARSE.cusparseSpMM(*call) == NOT_SUPPORTED
    made = ctypes.c_void_p()
    sizes = [long(size) for size in (9, 8, 4, 4)]
    pointers = a.arrays[1].pointer, a.arrays[2].pointer
    create = CUSPARSE.cusparseCreateBlockedEll
    assert create(ctypes.byref(made), *sizes, *pointers, 2, 0, FLOAT) == INVALID_VALUE  # 9 rows of blocks of 4


CASES = {
    case.__name__: case
    for case in (
        blocks,
        blocked_ell,
        slices,
        mixed,
        batches,
        several_columns,
        refusals,
    )
}
if __name__ == "__main__":
    setup()
    main(CASES)
