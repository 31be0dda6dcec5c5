"""cuSPARSE's blocks (BSR), pruning, sparse vectors times dense matrices, and updates of analysed matrices."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cusparse import (
    CUSPARSE,
    HANDLE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    TYPES,
    Matrix,
    Sparse,
    Vector,
    assert_close,
    numbers,
    op,
    scalar,
    setup,
    sparse,
)
from tests.cuda_libraries.cusparse_legacy import Csr, about, function, ints
from tests.cuda_libraries.cusparse_products import Guarded, blocks_of
from tests.cuda_libraries.toolkit import DeviceArray, check, main


def padded(matrix: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    rows, cols = matrix.shape
    return np.pad(matrix, ((0, -rows % height), (0, -cols % width)))


def to_blocks() -> None:
    """CSR to blocks, square and not, whose last ones stand out; and back with the blocks' zeros."""
    for dtype in TYPES:
        for (height, width), direction in (((4, 4), 0), ((3, 5), 1), ((1, 2), 0)):
            a = Csr(sparse(22, 31, dtype), direction)
            dense = padded(a.matrix, height, width)
            wanted = blocks_of(dense, height, width, bool(direction))
            high, wide = dense.shape[0] // height, dense.shape[1] // width
            offsets, total = ints(np.zeros(high + 1)), ctypes.c_int()
            first = HANDLE, direction, 22, 31, about(direction)
            shape = (height, width)
            if height == width:
                end = height, about(1), offsets.pointer, ctypes.byref(total)
                check(CUSPARSE.cusparseXcsr2bsrNnz(*first, *a.arrays[1:], *end))
            else:
                tail = about(1), offsets.pointer, *shape, ctypes.byref(total), None
                check(CUSPARSE.cusparseXcsr2gebsrNnz(*first, *a.arrays[1:], *tail))
            assert total.value == len(wanted[1])
            columns, values = ints(np.zeros(total.value)), DeviceArray(np.full(len(wanted[2]), np.nan, dtype))
            made = values.pointer, offsets.pointer, columns.pointer
            if height == width:
                check(function(dtype, "csr2bsr")(*first, *a.arrays, height, about(1), *made))
            else:
                check(function(dtype, "csr2gebsr")(*first, *a.arrays, about(1), *made, *shape, None))
            assert (offsets.get() == wanted[0] + 1).all()
            assert (columns.get() == wanted[1] + 1).all()
            assert (values.get() == wanted[2]).all()
            back(dense, direction, (high, wide, len(wanted[2])), shape, made)


def back(dense: NDArray[Any], direction: int, sizes: tuple[int, int, int], shape: tuple[int, int], made: Any) -> None:
    dtype, (*count, total) = dense.dtype.type, sizes
    csr = [DeviceArray(np.zeros(total, dtype)), ints(np.zeros(len(dense) + 1)), ints(np.zeros(total))]
    pointers = [array.pointer for array in csr]
    blocks = shape[:1] if shape[0] == shape[1] else shape
    name = "bsr2csr" if shape[0] == shape[1] else "gebsr2csr"
    check(function(dtype, name)(HANDLE, direction, *count, about(1), *made, *blocks, about(0), *pointers))
    offsets, got = csr[1].get(), np.zeros_like(dense)
    for row in range(len(dense)):
        part = slice(offsets[row], offsets[row + 1])
        got[row, csr[2].get()[part]] = csr[0].get()[part]
    assert offsets[-1] == total
    assert (got == dense).all()


def transposed_blocks() -> None:
    """Blocks change places, not what they hold."""
    for dtype in TYPES:
        dense = padded(sparse(18, 20, dtype), 3, 2)
        offsets, columns, values = blocks_of(dense, 3, 2, False)
        count = len(columns)
        device = [DeviceArray(values), ints(offsets + 1), ints(columns + 1)]
        made = [DeviceArray(np.zeros_like(values)), ints(np.zeros(count)), ints(np.zeros(11))]
        first = HANDLE, 6, 10, count, *(array.pointer for array in device), 3, 2
        size = ctypes.c_size_t()
        check(function(dtype, "gebsr2gebsc_bufferSizeExt")(*first, ctypes.byref(size)))
        buffer = Guarded(size.value)
        check(function(dtype, "gebsr2gebsc")(*first, *(array.pointer for array in made), 1, 1, buffer.pointer))
        rows = np.repeat(np.arange(6), np.diff(offsets))
        order = np.lexsort((rows, columns))
        assert (made[1].get() == rows[order] + 1).all()
        assert (made[2].get() == np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=10))]) + 1).all()
        assert (made[0].get().reshape(count, 6) == values.reshape(count, 6)[order]).all()
        buffer.check()


def block_products() -> None:
    for dtype in TYPES:
        for direction in (0, 1):
            dense = padded(sparse(15, 20, dtype), 5, 5)
            device = [ints(array + 1) for array in blocks_of(dense, 5, 5, bool(direction))[:2]]
            values = DeviceArray(blocks_of(dense, 5, 5, bool(direction))[2])
            arrays = values.pointer, device[0].pointer, device[1].pointer
            count = len(device[1].host)
            x, y = numbers((20,), dtype), numbers((15,), dtype)
            device_x, device_y = DeviceArray(x), DeviceArray(y)
            factors = scalar(2, dtype), scalar(-1, dtype)
            matrix = *arrays, 5, device_x.pointer, factors[1], device_y.pointer
            call = HANDLE, direction, 0, 3, 4, count, factors[0], about(1)
            check(function(dtype, "bsrmv")(*call, *matrix))
            assert_close(device_y.get(), 2 * (dense @ x) - y)
            refused = HANDLE, direction, 1, 3, 4, count, factors[0], about(1)
            assert function(dtype, "bsrmv")(*refused, *matrix) == NOT_SUPPORTED
            for operation in (0, 1):
                b, c = numbers((20, 6), dtype), numbers((15, 6), dtype)
                stored = Matrix(op(b, operation), gap=2)
                result = Matrix(c, gap=3)
                sides = stored.array.pointer, stored.padded.shape[1], factors[1], result.array.pointer, 18
                first = HANDLE, direction, 0, operation, 3, 6, 4, count, factors[0], about(1)
                check(function(dtype, "bsrmm")(*first, *arrays, 5, *sides))
                assert_close(result.get(), 2 * (dense @ b) - c)


def sparse_vectors() -> None:
    for dtype in TYPES:
        for operation in (0, 1, 2):
            a = Matrix(numbers((40, 30), dtype), gap=2)
            left = op(a.values, operation)
            places = np.random.default_rng(3).permutation(left.shape[1])[:11]
            x, y = numbers((11,), dtype), numbers((len(left),), dtype)
            arrays = DeviceArray(x), ints(places + 1), DeviceArray(y)
            size = ctypes.c_int()
            check(function(dtype, "gemvi_bufferSize")(HANDLE, operation, 40, 30, 11, ctypes.byref(size)))
            factors = scalar(2, dtype), scalar(3, dtype)
            first = HANDLE, operation, 40, 30, factors[0], a.array.pointer, 42, 11
            end = factors[1], arrays[2].pointer, 1, None
            check(function(dtype, "gemvi")(*first, arrays[0].pointer, arrays[1].pointer, *end))
            assert_close(arrays[2].get(), 2 * (left[:, places] @ x) + 3 * y)


def kept(matrix: NDArray[Any], threshold: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows, cols = np.nonzero(np.abs(matrix) > threshold)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))])
    return offsets, cols, matrix[rows, cols]


def compression() -> None:
    for dtype in TYPES:
        a = Csr(sparse(30, 40, dtype), 1)
        wanted = kept(a.matrix, 0.5)
        complex_types: dict[Any, Any] = {np.complex64: np.float32, np.complex128: np.float64}
        part = ctypes.c_float if dtype in (np.float32, np.complex64) else ctypes.c_double
        tolerance: Any = Pair[dtype](0.5, 0) if dtype in complex_types else part(0.5)
        counts, total = ints(np.zeros(30)), ctypes.c_int()
        values, offsets = a.arrays[:2]
        check(
            function(dtype, "nnz_compress")(
                *(HANDLE, 30, about(1), values, offsets, counts.pointer, ctypes.byref(total), tolerance)
            )
        )
        assert total.value == len(wanted[1])
        made = [DeviceArray(np.zeros(total.value, dtype)), ints(np.zeros(total.value)), ints(np.zeros(31))]
        first = HANDLE, 30, 40, about(1), values, a.arrays[2], offsets, a.count, counts.pointer
        check(function(dtype, "csr2csr_compress")(*first, *(array.pointer for array in made), tolerance))
        assert (made[2].get() == wanted[0] + 1).all()
        assert (made[1].get() == wanted[1] + 1).all()
        assert (made[0].get() == wanted[2]).all()


class SinglePair(ctypes.Structure):
    _fields_ = (("re", ctypes.c_float), ("im", ctypes.c_float))


class DoublePair(ctypes.Structure):
    _fields_ = (("re", ctypes.c_double), ("im", ctypes.c_double))


Pair: dict[Any, Any] = {np.complex64: SinglePair, np.complex128: DoublePair}


def pruned(dtype: Any, name: str, source: Any, matrix: NDArray[Any]) -> None:
    limit = scalar(0.7, dtype)
    magnitudes = np.sort(np.abs(matrix[matrix != 0] if name == "Csr2csr" else matrix).ravel())
    for percentage in (None, 30.0, 100.0):
        place = 0 if percentage is None else int(np.ceil(magnitudes.size * percentage / 100)) - 1
        wanted = kept(matrix, float(np.asarray(0.7, dtype)) if percentage is None else magnitudes[place])
        suffix = "" if percentage is None else "ByPercentage"
        what: Any = limit if percentage is None else ctypes.c_float(percentage)
        info, size, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int()
        check(CUSPARSE.cusparseCreatePruneInfo(ctypes.byref(info)))
        infos = () if percentage is None else (info,)
        offsets = ints(np.zeros(len(matrix) + 1))
        first = HANDLE, *matrix.shape, *source, what, about(1)
        sizes = f"prune{name}{suffix}_bufferSizeExt"
        check(function(dtype, sizes)(*first, None, None, None, *infos, ctypes.byref(size)))
        buffer = Guarded(size.value)
        end = *infos, buffer.pointer
        check(function(dtype, f"prune{name}Nnz{suffix}")(*first, offsets.pointer, ctypes.byref(total), *end))
        assert total.value == len(wanted[1])
        assert (offsets.get() == wanted[0] + 1).all()
        values, columns = DeviceArray(np.zeros(total.value, dtype)), ints(np.zeros(total.value))
        made = values.pointer, offsets.pointer, columns.pointer
        check(function(dtype, f"prune{name}{suffix}")(*first, *made, *end))
        assert (columns.get() == wanted[1] + 1).all()
        assert (values.get() == wanted[2]).all()
        buffer.check()
        check(CUSPARSE.cusparseDestroyPruneInfo(info))


def pruning() -> None:
    for dtype in (np.float32, np.float64):
        dense = numbers((25, 30), dtype)
        stored = DeviceArray(np.pad(dense.T, ((0, 0), (0, 3)), constant_values=9))
        pruned(dtype, "Dense2csr", (stored.pointer, 28), dense)
        a = Csr(sparse(25, 30, dtype), 1)
        pruned(dtype, "Csr2csr", (a.count, about(1), *a.arrays), a.matrix)


def updates() -> None:
    """A solve with new numbers, and with a new diagonal, without another analysis."""
    dtype = np.float64
    matrix = np.tril(sparse(40, 40, dtype) / 4)
    np.fill_diagonal(matrix, 3)
    a, b, x = Sparse(matrix), Vector(numbers((40,), dtype)), Vector(np.zeros(40, dtype))
    plan, one = ctypes.c_void_p(), scalar(1, dtype)
    check(CUSPARSE.cusparseSpSV_createDescr(ctypes.byref(plan)))
    update = CUSPARSE.cusparseSpSV_updateMatrix
    values = numbers((len(np.nonzero(matrix)[0]),), dtype) / 8 + 1
    diagonal = numbers((40,), dtype) / 8 + 2
    device_values, device_diagonal = DeviceArray(values), DeviceArray(diagonal)
    assert update(HANDLE, plan, device_values.pointer, 0) == INVALID_VALUE  # not analysed
    call = HANDLE, 0, one, a.descriptor, b.descriptor, x.descriptor, 1, 0, plan
    check(CUSPARSE.cusparseSpSV_analysis(*call, None))
    new = matrix.copy()
    np.fill_diagonal(new, diagonal)
    check(update(HANDLE, plan, device_diagonal.pointer, 1))
    check(CUSPARSE.cusparseSpSV_solve(*call))
    assert np.abs(new @ x.array.get() - b.values).max() < 1e-10 * np.abs(x.array.get()).max()
    new[np.nonzero(matrix)] = values
    check(update(HANDLE, plan, device_values.pointer, 0))
    check(CUSPARSE.cusparseSpSV_solve(*call))
    assert np.abs(new @ x.array.get() - b.values).max() < 1e-10 * np.abs(x.array.get()).max()


CASES = {
    case.__name__: case
    for case in (
        to_blocks,
        transposed_blocks,
        block_products,
        sparse_vectors,
        compression,
        pruning,
        updates,
    )
}
if __name__ == "__main__":
    setup()
    main(CASES)
