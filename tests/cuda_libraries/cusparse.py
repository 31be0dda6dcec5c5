"""cuSPARSE's products and triangular solves beside numpy's on dense matrices."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.toolkit import DeviceArray, check, library, main

CUSPARSE = library("libcusparse.so.12")
TYPES: dict[Any, int] = {np.float32: 0, np.float64: 1, np.complex64: 4, np.complex128: 5}
NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 1, 3, 10
AS_IT_IS, TRANSPOSED, CONJUGATED = 0, 1, 2
RANDOM = np.random.default_rng(3)


def long(value: int) -> ctypes.c_longlong:
    return ctypes.c_longlong(value)


def numbers(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    values = RANDOM.standard_normal(shape)
    return (values + 1j * RANDOM.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def sparse(rows: int, cols: int, dtype: Any) -> NDArray[Any]:
    matrix = numbers((rows, cols), dtype)
    matrix[RANDOM.random((rows, cols)) > 0.2] = 0
    matrix[rows // 2] = 0  # an empty row
    return matrix


def op(matrix: NDArray[Any], operation: int) -> NDArray[Any]:
    return matrix if operation == AS_IT_IS else matrix.T if operation == TRANSPOSED else matrix.conj().T


def assert_close(got: NDArray[Any], wanted: NDArray[Any]) -> None:
    scale = max(float(np.abs(wanted).max()), 1.0)
    assert np.abs(got - wanted).max() < 100 * np.finfo(got.dtype).eps * scale


HANDLE = ctypes.c_void_p()


def setup() -> None:
    check(CUSPARSE.cusparseCreate(ctypes.byref(HANDLE)))


@dataclass
class Sparse:
    """A dense matrix's nonzeros on the device."""

    matrix: NDArray[Any]
    form: str = "Csr"
    index: Any = np.int32
    base: int = 0

    def __post_init__(self) -> None:
        by_column = self.form == "Csc"
        outer, inner = np.nonzero(self.matrix.T if by_column else self.matrix)
        values = self.matrix.T[outer, inner] if by_column else self.matrix[outer, inner]
        count = self.matrix.shape[1 if by_column else 0]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(outer, minlength=count))])
        first = (outer if self.form == "Coo" else offsets) + self.base
        self.arrays = [DeviceArray(first.astype(self.index)), DeviceArray((inner + self.base).astype(self.index))]
        self.arrays.append(DeviceArray(values))
        self.descriptor = ctypes.c_void_p()
        kind = 2 if self.index is np.int32 else 3
        kinds = (kind,) if self.form == "Coo" else (kind, kind)
        create = getattr(CUSPARSE, f"cusparseCreate{self.form}")
        sizes = [long(size) for size in (*self.matrix.shape, len(values))]
        pointers = [array.pointer for array in self.arrays]
        data_type = TYPES[self.matrix.dtype.type]
        check(create(ctypes.byref(self.descriptor), *sizes, *pointers, *kinds, self.base, data_type))

    def attribute(self, which: int, value: int) -> None:
        data = ctypes.c_int(value)
        check(CUSPARSE.cusparseSpMatSetAttribute(self.descriptor, which, ctypes.byref(data), ctypes.c_size_t(4)))


@dataclass
class Vector:
    values: NDArray[Any]

    def __post_init__(self) -> None:
        self.array, self.descriptor = DeviceArray(self.values), ctypes.c_void_p()
        data_type = TYPES[self.values.dtype.type]
        size = long(len(self.values))
        check(CUSPARSE.cusparseCreateDnVec(ctypes.byref(self.descriptor), size, self.array.pointer, data_type))


@dataclass
class Matrix:
    values: NDArray[Any]
    by_row: bool = False
    gap: int = 0

    def __post_init__(self) -> None:
        stored = self.values if self.by_row else self.values.T
        self.padded = np.zeros((stored.shape[0], stored.shape[1] + self.gap), stored.dtype)
        self.padded[:, : stored.shape[1]] = stored
        self.array, self.descriptor = DeviceArray(self.padded), ctypes.c_void_p()
        sizes = [long(size) for size in (*self.values.shape, self.padded.shape[1])]
        data_type = TYPES[self.values.dtype.type]
        order = 2 if self.by_row else 1
        create = CUSPARSE.cusparseCreateDnMat
        check(create(ctypes.byref(self.descriptor), *sizes, self.array.pointer, data_type, order))

    def get(self) -> NDArray[Any]:
        got = self.array.get()[:, : self.padded.shape[1] - self.gap]
        return got if self.by_row else got.T


def scalar(value: complex, dtype: Any) -> ctypes.c_void_p:
    array = np.array([value if np.dtype(dtype).kind == "c" else value.real], dtype)
    SCALARS.append(array)
    return ctypes.c_void_p(array.ctypes.data)


SCALARS: list[NDArray[Any]] = []


def multiply_vector(a: Sparse, operation: int, alpha: complex, beta: complex) -> None:
    dtype = a.matrix.dtype.type
    matrix = op(a.matrix, operation)
    x, y = Vector(numbers(matrix.shape[1:], dtype)), Vector(numbers(matrix.shape[:1], dtype))
    data_type, size = TYPES[dtype], ctypes.c_size_t()
    common = HANDLE, operation, scalar(alpha, dtype), a.descriptor, x.descriptor, scalar(beta, dtype), y.descriptor
    check(CUSPARSE.cusparseSpMV_bufferSize(*common, data_type, 0, ctypes.byref(size)))
    check(CUSPARSE.cusparseSpMV(*common, data_type, 0, None))
    factors = (alpha, beta) if np.dtype(dtype).kind == "c" else (alpha.real, beta.real)
    assert_close(y.array.get(), factors[0] * (matrix @ x.values) + factors[1] * y.values)


def vectors() -> None:
    for dtype in TYPES:
        for form in ("Csr", "Csc", "Coo"):
            for operation in (AS_IT_IS, TRANSPOSED, CONJUGATED):
                multiply_vector(Sparse(sparse(70, 50, dtype), form), operation, 1.5 - 0.5j, 0.25 + 1j)


def indices() -> None:
    for form in ("Csr", "Csc", "Coo"):
        multiply_vector(Sparse(sparse(40, 300, np.float64), form, np.int64, 1), AS_IT_IS, 2, 0)
        multiply_vector(Sparse(sparse(300, 40, np.float32), form, np.int32, 1), TRANSPOSED, 1, 1)


def unread_results() -> None:
    """With a beta of 0, what y holds does not count."""
    for form in ("Csr", "Coo"):
        a = Sparse(sparse(20, 20, np.float32), form)
        x, y = Vector(numbers((20,), np.float32)), Vector(np.full(20, np.nan, np.float32))
        one, zero = scalar(1, np.float32), scalar(0, np.float32)
        check(CUSPARSE.cusparseSpMV(HANDLE, 0, one, a.descriptor, x.descriptor, zero, y.descriptor, 0, 0, None))
        assert_close(y.array.get(), a.matrix @ x.values)


def device_scalars() -> None:
    a = Sparse(sparse(20, 30, np.float64))
    x, y = Vector(numbers((30,), np.float64)), Vector(numbers((20,), np.float64))
    alpha, beta = DeviceArray(np.array([3.0])), DeviceArray(np.array([-2.0]))
    check(CUSPARSE.cusparseSetPointerMode(HANDLE, 1))
    common = HANDLE, 0, alpha.pointer, a.descriptor, x.descriptor, beta.pointer, y.descriptor
    check(CUSPARSE.cusparseSpMV(*common, 1, 0, None))
    assert_close(y.array.get(), 3 * (a.matrix @ x.values) - 2 * y.values)
    check(CUSPARSE.cusparseSetPointerMode(HANDLE, 0))


def matrices() -> None:
    dtype = np.complex64
    for form in ("Csr", "Csc", "Coo"):
        for operation in (AS_IT_IS, TRANSPOSED, CONJUGATED):
            for operation_b in (AS_IT_IS, TRANSPOSED, CONJUGATED):
                a = Sparse(sparse(33, 21, dtype), form)
                left = op(a.matrix, operation)
                shape = (left.shape[1], 9) if operation_b == AS_IT_IS else (9, left.shape[1])
                b = Matrix(numbers(shape, dtype), by_row=operation == AS_IT_IS, gap=3)
                c = Matrix(numbers((left.shape[0], 9), dtype), by_row=operation_b == AS_IT_IS, gap=1)
                factors = scalar(2j, dtype), scalar(-1, dtype)
                first = HANDLE, operation, operation_b, factors[0], a.descriptor, b.descriptor, factors[1]
                check(CUSPARSE.cusparseSpMM(*first, c.descriptor, 4, 0, None))
                assert_close(c.get(), 2j * (left @ op(b.values, operation_b)) - c.values)


def triangles() -> None:
    for dtype, data_type in TYPES.items():
        for upper in (0, 1):
            for unit in (0, 1):
                for operation in (AS_IT_IS, TRANSPOSED, CONJUGATED):
                    matrix = sparse(90, 90, dtype) / 4
                    np.fill_diagonal(matrix, 2 + numbers((90,), dtype) / 8)
                    a = Sparse(matrix.astype(dtype), base=upper)
                    a.attribute(0, upper)
                    a.attribute(1, unit)
                    triangle = np.triu(a.matrix) if upper else np.tril(a.matrix)
                    if unit:
                        np.fill_diagonal(triangle, 1)
                    x = numbers((90,), dtype)
                    wanted = op(triangle, operation).astype(np.complex128) @ x.astype(np.complex128)
                    b, result = Vector(wanted.astype(dtype)), Vector(np.zeros(90, dtype))
                    plan, size = ctypes.c_void_p(), ctypes.c_size_t()
                    check(CUSPARSE.cusparseSpSV_createDescr(ctypes.byref(plan)))
                    common = (HANDLE, operation, scalar(2, dtype), a.descriptor, b.descriptor, result.descriptor)
                    end = data_type, 0, plan
                    assert CUSPARSE.cusparseSpSV_solve(*common, *end) == INVALID_VALUE  # not analysed
                    check(CUSPARSE.cusparseSpSV_bufferSize(*common, *end, ctypes.byref(size)))
                    check(CUSPARSE.cusparseSpSV_analysis(*common, *end, None))
                    check(CUSPARSE.cusparseSpSV_solve(*common, *end))
                    got = op(triangle, operation).astype(np.complex128) @ result.array.get()
                    error = np.abs(got - 2 * wanted).max() / np.abs(result.array.get()).max()
                    assert error < 100 * np.finfo(dtype).eps, (dtype, upper, unit, operation, error)
                    check(CUSPARSE.cusparseSpSV_destroyDescr(plan))


def descriptors() -> None:
    a = Sparse(sparse(7, 5, np.float32), "Csc", base=1)
    rows, cols, count, form, base = *(ctypes.c_longlong() for _ in range(3)), ctypes.c_int(), ctypes.c_int()
    check(CUSPARSE.cusparseSpMatGetSize(a.descriptor, *(ctypes.byref(size) for size in (rows, cols, count))))
    check(CUSPARSE.cusparseSpMatGetFormat(a.descriptor, ctypes.byref(form)))
    check(CUSPARSE.cusparseSpMatGetIndexBase(a.descriptor, ctypes.byref(base)))
    assert [rows.value, cols.value, count.value] == [7, 5, int(np.count_nonzero(a.matrix))]
    assert (form.value, base.value) == (2, 1)
    CUSPARSE.cusparseGetErrorName.restype = CUSPARSE.cusparseGetErrorString.restype = ctypes.c_char_p
    assert CUSPARSE.cusparseGetErrorName(10) == b"CUSPARSE_STATUS_NOT_SUPPORTED"
    assert CUSPARSE.cusparseGetErrorString(2) == b"out of memory"


def errors() -> None:
    a, x, y = Sparse(sparse(20, 30, np.float32)), Vector(np.ones(30, np.float32)), Vector(np.ones(20, np.float32))
    one = scalar(1, np.float32)
    multiply = CUSPARSE.cusparseSpMV
    assert multiply(None, 0, one, a.descriptor, x.descriptor, one, y.descriptor, 0, 0, None) == NOT_INITIALIZED
    assert multiply(HANDLE, 0, None, a.descriptor, x.descriptor, one, y.descriptor, 0, 0, None) == INVALID_VALUE
    assert multiply(HANDLE, 1, one, a.descriptor, x.descriptor, one, y.descriptor, 0, 0, None) == INVALID_VALUE
    assert multiply(HANDLE, 9, one, a.descriptor, x.descriptor, one, y.descriptor, 0, 0, None) == INVALID_VALUE
    assert multiply(HANDLE, 0, one, a.descriptor, x.descriptor, one, y.descriptor, 1, 0, None) == NOT_SUPPORTED
    vector = ctypes.c_void_p()
    assert CUSPARSE.cusparseCreateDnVec(ctypes.byref(vector), long(-1), None, 0) == INVALID_VALUE
    assert CUSPARSE.cusparseCreateDnVec(ctypes.byref(vector), long(1), x.array.pointer, 8) == NOT_SUPPORTED
    assert CUSPARSE.cusparseDestroyDnVec(None) == INVALID_VALUE


CASES = {
    case.__name__: case
    for case in (
        vectors,
        indices,
        unread_results,
        device_scalars,
        matrices,
        triangles,
        descriptors,
        errors,
    )
}
if __name__ == "__main__":
    setup()
    main(CASES)
