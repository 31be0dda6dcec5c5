"""cuSPARSE's functions of sparse vectors, conversions of dense matrices, sampled products and products of sparse ones."""

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
    NOT_SUPPORTED,
    TYPES,
    Matrix,
    Sparse,
    Vector,
    assert_close,
    long,
    numbers,
    op,
    scalar,
    setup,
    sparse,
)
from tests.cuda_libraries.cusparse_products import FLOAT, HALF, Guarded, descriptor
from tests.cuda_libraries.toolkit import DeviceArray, check, main


def sparse_vector(values: NDArray[Any], places: NDArray[Any], size: int, base: int) -> tuple[Any, DeviceArray]:
    index = np.int64 if base else np.int32
    data, indices = DeviceArray(values), DeviceArray((places + base).astype(index))
    kind = 3 if base else 2
    data_type = TYPES.get(values.dtype.type, HALF)
    made = descriptor("SpVec", long(size), long(len(values)), indices.pointer, data.pointer, kind, base, data_type)
    KEPT.append(indices)
    return made, data


KEPT: list[Any] = []


def vector_sums() -> None:
    """Y = alpha x + beta y, also where y must not be read."""
    for dtype in TYPES:
        for base, beta in ((0, 0.5), (1, 0.0)):
            places = np.random.default_rng(1).permutation(200)[:77]
            values, old = numbers((77,), dtype), numbers((200,), dtype)
            x, _ = sparse_vector(values, places, 200, base)
            y = Vector(np.full(200, np.nan, dtype) if beta == 0 else old)
            check(CUSPARSE.cusparseAxpby(HANDLE, scalar(3, dtype), x, scalar(beta, dtype), y.descriptor))
            wanted = beta * old
            wanted[places] += 3 * values
            assert_close(y.array.get(), wanted.astype(dtype))


def vector_places() -> None:
    for dtype in TYPES:
        places = np.random.default_rng(2).permutation(300)[:100]
        old = numbers((300,), dtype)
        x, data = sparse_vector(np.zeros(100, dtype), places, 300, 1)
        y = Vector(old)
        check(CUSPARSE.cusparseGather(HANDLE, y.descriptor, x))
        assert (data.get() == old[places]).all()
        values = numbers((100,), dtype)
        other, _ = sparse_vector(values, places, 300, 0)
        check(CUSPARSE.cusparseScatter(HANDLE, other, y.descriptor))
        old[places] = values
        assert (y.array.get() == old).all()


def rotations() -> None:
    for dtype in TYPES:
        places = np.random.default_rng(4).permutation(90)[:33]
        values, old = numbers((33,), dtype), numbers((90,), dtype)
        x, data = sparse_vector(values, places, 90, 1)
        y = Vector(old)
        check(CUSPARSE.cusparseRot(HANDLE, scalar(0.6, dtype), scalar(0.8, dtype), x, y.descriptor))
        assert_close(data.get(), 0.6 * values + 0.8 * old[places])
        wanted = old.copy()
        wanted[places] = 0.6 * old[places] - 0.8 * values
        assert_close(y.array.get(), wanted)


def vector_products() -> None:
    for dtype, data_type in TYPES.items():
        for operation in (0, 2):
            places = np.random.default_rng(6).permutation(5000)[:3000]
            values = numbers((3000,), dtype)
            x, _ = sparse_vector(values, places, 5000, 0)
            y = Vector(numbers((5000,), dtype))
            result, size = np.zeros(1, dtype), ctypes.c_size_t()
            call = HANDLE, operation, x, y.descriptor, ctypes.c_void_p(result.ctypes.data), data_type
            check(CUSPARSE.cusparseSpVV_bufferSize(*call, ctypes.byref(size)))
            buffer = Guarded(size.value)
            check(CUSPARSE.cusparseSpVV(*call, buffer.pointer))
            left = values.conj() if operation else values
            assert_close(result, np.array([left @ y.values[places]], dtype))
            buffer.check()


def created(form: str, shape: tuple[int, int], base: int, wide: bool, data_type: int) -> tuple[Any, DeviceArray]:
    """A sparse matrix without entries, and its offsets."""
    outer = shape[1] if form == "Csc" else shape[0]
    offsets = DeviceArray(np.zeros(outer + 1, np.int64 if wide else np.int32))
    first = None if form == "Coo" else offsets.pointer
    kinds = (3 if wide else 2,) * (1 if form == "Coo" else 2)
    sizes = [long(size) for size in (*shape, 0)]
    return descriptor(form, *sizes, first, None, None, *kinds, base, data_type), offsets


def from_dense() -> None:
    """Conversion to each format, and back."""
    cases = [("Csr", 0, False), ("Csr", 1, True), ("Csc", 1, False), ("Coo", 0, True), ("Coo", 1, False)]
    for dtype, data_type in (*TYPES.items(), (np.float16, HALF)):
        for form, base, wide in cases:
            dense = sparse(45, 31, np.float32 if dtype is np.float16 else dtype).astype(dtype)
            dense[3, 4] = -0.0
            stored = DeviceArray(np.pad(dense, ((0, 0), (0, 2))))
            a = descriptor("DnMat", long(45), long(31), long(33), stored.pointer, data_type, 2)
            made, offsets = created(form, (45, 31), base, wide, data_type)
            size = ctypes.c_size_t()
            check(CUSPARSE.cusparseDenseToSparse_bufferSize(HANDLE, a, made, 0, ctypes.byref(size)))
            buffer = Guarded(size.value)
            check(CUSPARSE.cusparseDenseToSparse_analysis(HANDLE, a, made, 0, buffer.pointer))
            rows, cols, count = (ctypes.c_longlong() for _ in range(3))
            check(CUSPARSE.cusparseSpMatGetSize(made, *(ctypes.byref(number) for number in (rows, cols, count))))
            assert count.value == np.count_nonzero(dense)
            index = np.int64 if wide else np.int32
            inner, outer = (DeviceArray(np.zeros(count.value, index)) for _ in range(2))
            values = DeviceArray(np.zeros(count.value, dtype))
            first = outer if form == "Coo" else offsets
            check(getattr(CUSPARSE, f"cusparse{form}SetPointers")(made, first.pointer, inner.pointer, values.pointer))
            check(CUSPARSE.cusparseDenseToSparse_convert(HANDLE, a, made, 0, buffer.pointer))
            places = np.nonzero(dense.T if form == "Csc" else dense)
            assert (inner.get() == places[1] + base).all()
            assert (values.get() == (dense.T if form == "Csc" else dense)[places]).all()
            if form == "Coo":
                assert (outer.get() == places[0] + base).all()
            buffer.check()
            back = DeviceArray(np.full((31, 50), 7, dtype))
            b = descriptor("DnMat", long(45), long(31), long(50), back.pointer, data_type, 1)
            check(CUSPARSE.cusparseSparseToDense_bufferSize(HANDLE, made, b, 0, ctypes.byref(size)))
            check(CUSPARSE.cusparseSparseToDense(HANDLE, made, b, 0, None))
            assert (back.get()[:, :45] == dense.T).all()
            assert (back.get()[:, 45:] == 7).all()


def sampled() -> None:
    for dtype, data_type in TYPES.items():
        for operation_a, operation_b in ((0, 0), (1, 2), (2, 1)):
            pattern = sparse(40, 30, dtype)
            c = Sparse(pattern, index=np.int64, base=1)
            left, right = numbers((40, 12), dtype), numbers((12, 30), dtype)
            a, b = Matrix(op(left, operation_a), by_row=operation_a == 0, gap=1), Matrix(op(right, operation_b), gap=2)
            size = ctypes.c_size_t()
            factors = scalar(2, dtype), scalar(-1, dtype)
            first = HANDLE, operation_a, operation_b, factors[0], a.descriptor, b.descriptor, factors[1]
            check(CUSPARSE.cusparseSDDMM_bufferSize(*first, c.descriptor, data_type, 0, ctypes.byref(size)))
            check(CUSPARSE.cusparseSDDMM_preprocess(*first, c.descriptor, data_type, 0, None))
            check(CUSPARSE.cusparseSDDMM(*first, c.descriptor, data_type, 0, None))
            wanted = (2 * (left @ right) - pattern)[np.nonzero(pattern)]
            assert_close(c.arrays[2].get(), wanted)


def sampled_batches() -> None:
    count, pattern = 3, sparse(9, 8, np.float32) != 0
    rows, cols = np.nonzero(pattern)
    offsets = DeviceArray(np.concatenate([[0], np.cumsum(pattern.sum(1))]).astype(np.int32))
    columns = DeviceArray(np.tile(cols.astype(np.int32), (count, 1)))
    values = DeviceArray(np.full((count, len(cols)), np.nan, np.float32))
    left, right = numbers((count, 9, 5), np.float32), numbers((count, 5, 8), np.float32)
    sides = DeviceArray(left), DeviceArray(right)
    a = descriptor("DnMat", long(9), long(5), long(5), sides[0].pointer, FLOAT, 2)
    b = descriptor("DnMat", long(5), long(8), long(8), sides[1].pointer, FLOAT, 2)
    sizes = [long(size) for size in (9, 8, len(cols))]
    c = descriptor("Csr", *sizes, offsets.pointer, columns.pointer, values.pointer, 2, 2, 0, FLOAT)
    check(CUSPARSE.cusparseDnMatSetStridedBatch(a, count, long(45)))
    check(CUSPARSE.cusparseDnMatSetStridedBatch(b, count, long(40)))
    check(CUSPARSE.cusparseCsrSetStridedBatch(c, count, long(0), long(len(cols))))
    one, zero = scalar(1, np.float32), scalar(0, np.float32)
    check(CUSPARSE.cusparseSDDMM(HANDLE, 0, 0, one, a, b, zero, c, FLOAT, 0, None))
    assert_close(values.get(), np.stack([(left[i] @ right[i])[rows, cols] for i in range(count)]))


def dense_of(offsets: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], cols: int, base: int) -> Any:
    dense = np.zeros((len(offsets) - 1, cols), values.dtype)
    for row in range(len(dense)):
        part = slice(offsets[row] - base, offsets[row + 1] - base)
        assert (np.diff(columns[part]) > 0).all()
        dense[row, columns[part] - base] = values[part]
    return dense


def multiplied(a: Sparse, b: Sparse, dtype: Any, base: int, alpha: float) -> None:
    rows, cols = a.matrix.shape[0], b.matrix.shape[1]
    c, offsets = created("Csr", (rows, cols), base, False, TYPES[dtype])
    plan = ctypes.c_void_p()
    check(CUSPARSE.cusparseSpGEMM_createDescr(ctypes.byref(plan)))
    factors = scalar(alpha, dtype), scalar(0, dtype)
    call = HANDLE, 0, 0, factors[0], a.descriptor, b.descriptor, factors[1], c, TYPES[dtype], 0, plan
    assert CUSPARSE.cusparseSpGEMM_copy(*call) == INVALID_VALUE  # nothing has been computed
    buffers = []
    for step in (CUSPARSE.cusparseSpGEMM_workEstimation, CUSPARSE.cusparseSpGEMM_compute):
        size = ctypes.c_size_t()
        check(step(*call, ctypes.byref(size), None))
        buffers.append(Guarded(size.value))
        check(step(*call, ctypes.byref(size), buffers[-1].pointer))
    sizes = [ctypes.c_longlong() for _ in range(3)]
    check(CUSPARSE.cusparseSpMatGetSize(c, *(ctypes.byref(number) for number in sizes)))
    count = sizes[2].value
    assert count == np.count_nonzero((a.matrix != 0).astype(int) @ (b.matrix != 0).astype(int))
    columns, values = DeviceArray(np.zeros(count, np.int32)), DeviceArray(np.full(count, np.nan, dtype))
    check(CUSPARSE.cusparseCsrSetPointers(c, offsets.pointer, columns.pointer, values.pointer))
    check(CUSPARSE.cusparseSpGEMM_copy(*call))
    got = dense_of(offsets.get(), columns.get(), values.get(), cols, base)
    assert_close(got, alpha * (a.matrix @ b.matrix))
    for buffer in buffers:
        buffer.check()
    check(CUSPARSE.cusparseSpGEMM_destroyDescr(plan))


def sparse_products() -> None:
    for dtype in TYPES:
        multiplied(Sparse(sparse(50, 40, dtype)), Sparse(sparse(40, 60, dtype), base=1), dtype, 0, 2)
    wide = np.zeros((3, 400), np.float64)
    wide[1] = 1  # one row with many products
    multiplied(Sparse(wide), Sparse(sparse(400, 90, np.float64)), np.float64, 1, 1)


def reused_products() -> None:
    """The pattern once, numbers twice."""
    dtype = np.float32
    a, b = Sparse(sparse(30, 25, dtype), base=1), Sparse(sparse(25, 35, dtype))
    c, offsets = created("Csr", (30, 35), 1, False, FLOAT)
    plan = ctypes.c_void_p()
    check(CUSPARSE.cusparseSpGEMM_createDescr(ctypes.byref(plan)))
    call = HANDLE, 0, 0, a.descriptor, b.descriptor, c, 0, plan
    sizes = [ctypes.c_size_t() for _ in range(5)]
    ends = [ctypes.byref(size) for size in sizes]
    check(CUSPARSE.cusparseSpGEMMreuse_workEstimation(*call, ends[0], None))
    buffers = [Guarded(sizes[0].value)]
    check(CUSPARSE.cusparseSpGEMMreuse_workEstimation(*call, ends[0], buffers[0].pointer))
    check(CUSPARSE.cusparseSpGEMMreuse_nnz(*call, ends[1], None, ends[2], None, ends[3], None))
    buffers += [Guarded(size.value) for size in sizes[1:4]]
    check(
        CUSPARSE.cusparseSpGEMMreuse_nnz(
            *call, ends[1], buffers[1].pointer, ends[2], buffers[2].pointer, ends[3], buffers[3].pointer
        )
    )
    count = np.count_nonzero((a.matrix != 0).astype(int) @ (b.matrix != 0).astype(int))
    columns, values = DeviceArray(np.zeros(count, np.int32)), DeviceArray(np.zeros(count, dtype))
    check(CUSPARSE.cusparseCsrSetPointers(c, offsets.pointer, columns.pointer, values.pointer))
    check(CUSPARSE.cusparseSpGEMMreuse_copy(*call, ends[4], None))
    buffers.append(Guarded(sizes[4].value))
    check(CUSPARSE.cusparseSpGEMMreuse_copy(*call, ends[4], buffers[4].pointer))
    wanted = np.zeros((30, 35))
    for alpha, beta in ((2, 0), (-1, 3)):
        factors = scalar(alpha, dtype), scalar(beta, dtype)
        check(
            CUSPARSE.cusparseSpGEMMreuse_compute(
                *(HANDLE, 0, 0, factors[0], a.descriptor, b.descriptor, factors[1], c, FLOAT, 0, plan)
            )
        )
        wanted = alpha * (a.matrix @ b.matrix) + beta * wanted
        assert_close(dense_of(offsets.get(), columns.get(), values.get(), 35, 1), wanted)
    for buffer in buffers:
        buffer.check()


def refusals() -> None:
    dtype = np.float32
    x, _ = sparse_vector(np.ones(3, dtype), np.arange(3), 10, 0)
    y, one = Vector(np.ones(9, dtype)), scalar(1, dtype)
    assert CUSPARSE.cusparseAxpby(HANDLE, one, x, one, y.descriptor) == INVALID_VALUE  # 10 beside 9
    assert CUSPARSE.cusparseAxpby(None, one, x, one, y.descriptor) == NOT_INITIALIZED
    a, b = Sparse(sparse(9, 9, dtype)), Sparse(sparse(9, 9, dtype), "Coo")
    plan, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(CUSPARSE.cusparseSpGEMM_createDescr(ctypes.byref(plan)))
    estimate = CUSPARSE.cusparseSpGEMM_workEstimation
    end = FLOAT, 0, plan, ctypes.byref(size), None
    sides = a.descriptor, b.descriptor, one, a.descriptor
    assert estimate(HANDLE, 0, 0, one, *sides, *end) == NOT_SUPPORTED  # COO
    sides = a.descriptor, a.descriptor, one, a.descriptor
    assert estimate(HANDLE, 1, 0, one, *sides, *end) == NOT_SUPPORTED  # transposed
    made = ctypes.c_void_p()
    create = CUSPARSE.cusparseCreateSpVec
    assert create(ctypes.byref(made), long(2), long(3), None, None, 2, 0, FLOAT) == INVALID_VALUE


CASES = {
    case.__name__: case
    for case in (
        vector_sums,
        vector_places,
        rotations,
        vector_products,
        from_dense,
        sampled,
        sampled_batches,
        sparse_products,
        reused_products,
        refusals,
    )
}
if __name__ == "__main__":
    setup()
    main(CASES)
