"""cuSOLVER's functions for sparse matrices beside numpy's."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cusolver import (
    CUSOLVER,
    INVALID_VALUE,
    NOT_INITIALIZED,
    NOT_SUPPORTED,
    REAL,
    TYPES,
    assert_small,
    definite,
    numbers,
    wide,
)
from tests.cuda_libraries.toolkit import DeviceArray, check, library, main

CUSPARSE = library("libcusparse.so.12")
MATRIX_TYPE_NOT_SUPPORTED, ZERO_PIVOT = 8, 10
RANDOM = np.random.default_rng(11)
KEPT: list[Any] = []


def at(array: NDArray[Any]) -> ctypes.c_void_p:
    KEPT.append(array)
    return ctypes.c_void_p(array.ctypes.data)


def created(function: str) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    check(getattr(CUSOLVER, function)(ctypes.byref(made)))
    return made


class Sparse:
    """A matrix in CSR form, on the host and on the device."""

    def __init__(self, matrix: NDArray[Any], base: int = 0) -> None:
        self.matrix, (self.m, self.n), self.base = matrix, matrix.shape, base
        rows, columns = np.nonzero(matrix)
        self.columns = (columns + base).astype(np.int32)
        self.values = np.ascontiguousarray(matrix[rows, columns])
        self.nnz = len(self.values)
        counts = np.bincount(rows, minlength=self.m)
        self.offsets = (np.concatenate([[0], np.cumsum(counts)]) + base).astype(np.int32)
        self.descriptor = ctypes.c_void_p()
        check(CUSPARSE.cusparseCreateMatDescr(ctypes.byref(self.descriptor)))
        check(CUSPARSE.cusparseSetMatIndexBase(self.descriptor, base))
        self.device = [DeviceArray(array) for array in (self.values, self.offsets, self.columns)]

    def pattern(self, place: str = "Host") -> tuple[Any, ...]:
        if place == "Host":
            return at(self.offsets), at(self.columns)
        return self.device[1].pointer, self.device[2].pointer

    def arrays(self, place: str = "Host") -> tuple[Any, ...]:
        return (at(self.values) if place == "Host" else self.device[0].pointer, *self.pattern(place))

    def sizes(self) -> tuple[Any, ...]:
        return self.n, self.nnz, self.descriptor


class Vector:
    """A vector where a function wants it."""

    def __init__(self, values: NDArray[Any], place: str = "Host") -> None:
        self.values = np.array(values)
        self.device = None if place == "Host" else DeviceArray(self.values)
        self.pointer = at(self.values) if self.device is None else self.device.pointer

    def get(self) -> NDArray[Any]:
        return wide(self.values if self.device is None else self.device.get())


def real(letter: str, value: float) -> Any:
    return ctypes.c_float(value) if letter in "SC" else ctypes.c_double(value)


class ComplexSingle(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float))


class ComplexDouble(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


def by_value(letter: str, value: float) -> Any:
    return {"C": ComplexSingle, "Z": ComplexDouble}[letter](value, 0) if letter in "CZ" else real(letter, value)


def general(letter: str, n: int) -> NDArray[Any]:
    a = numbers(letter, n, n)
    a[RANDOM.random((n, n)) > 4 / n] = 0
    a[np.arange(n), RANDOM.permutation(n)] = 3 + numbers(letter, n) / 4
    return a


def positive(letter: str, n: int) -> NDArray[Any]:
    a = wide(general(letter, n))
    a = a @ a.conj().T + np.eye(n)
    return np.asarray((a if letter in "CZ" else a.real).astype(TYPES[letter]))


HANDLE = ctypes.c_void_p()
SOLVERS = (("lu", "Host"), ("qr", "Host"), ("chol", "Host"), ("qr", ""), ("chol", ""))


def solutions_agree() -> None:
    for letter, (kind, place), n, reorder in itertools.product("SDCZ", SOLVERS, (1, 7, 90), (0, 1, 2, 3)):
        a = Sparse(positive(letter, n) if kind == "chol" else general(letter, n), base=reorder % 2)
        b, x, singularity = Vector(numbers(letter, n), place), Vector(numbers(letter, n), place), ctypes.c_int(9)
        function = getattr(CUSOLVER, f"cusolverSp{letter}csrlsv{kind}{place}")
        common = (HANDLE, *a.sizes(), *a.arrays(place), b.pointer, real(letter, 1e-12))
        check(function(*common, reorder, x.pointer, ctypes.byref(singularity)))
        assert singularity.value == -1
        scale = np.linalg.norm(wide(a.matrix), 2) * np.linalg.norm(x.get()) + np.linalg.norm(b.get())
        assert_small(a.matrix @ x.get() - b.get(), scale, letter)


def singular_matrices_are_told() -> None:
    for letter, (kind, place) in itertools.product("SZ", SOLVERS):
        matrix = definite(letter, 12)
        matrix[5, :] = matrix[:, 5] = 0
        a, x, singularity = Sparse(matrix), Vector(numbers(letter, 12), place), ctypes.c_int(9)
        function = getattr(CUSOLVER, f"cusolverSp{letter}csrlsv{kind}{place}")
        common = (HANDLE, *a.sizes(), *a.arrays(place), x.pointer, real(letter, 1e-6))
        check(function(*common, 0, x.pointer, ctypes.byref(singularity)))
        assert singularity.value == 5, (kind, place)


def eigenvalues_agree() -> None:
    for letter, place in itertools.product("SDCZ", ("Host", "")):
        a = Sparse(positive(letter, 40))
        every = np.linalg.eigvalsh(wide(a.matrix))
        mu0 = by_value(letter, float(every[-1] + 0.3))
        mu, x = Vector(np.zeros(1, TYPES[letter]), place), Vector(np.zeros(40, TYPES[letter]), place)
        x0 = Vector(numbers(letter, 40), place)
        function = getattr(CUSOLVER, f"cusolverSp{letter}csreigvsi{place}")
        common = (HANDLE, *a.sizes(), *a.arrays(place), mu0, x0.pointer, 300)
        check(function(*common, real(letter, 1e-4 if letter in "SC" else 1e-9), mu.pointer, x.pointer))
        assert_small(mu.get() - every[-1], every[-1], letter)
        assert np.linalg.norm(a.matrix @ x.get() - mu.get() * x.get()) < 1e-3


def grid(side: int) -> NDArray[Any]:
    line = np.eye(side) * 2 - np.eye(side, k=1) - np.eye(side, k=-1)
    return np.asarray(np.kron(line, np.eye(side)) + np.kron(np.eye(side), line))


def fill_of(matrix: NDArray[Any]) -> int:
    return int(np.count_nonzero(np.abs(np.linalg.cholesky(matrix)) > 1e-14))


def orders_keep_factors_sparse() -> None:
    side = 12
    shuffled = RANDOM.permutation(side * side)
    a = Sparse(grid(side)[np.ix_(shuffled, shuffled)])
    plain = fill_of(a.matrix)
    for name in ("symrcm", "symmdq", "symamd", "metisnd"):
        order = np.full(side * side, -1, np.int32)
        options = (None,) if name == "metisnd" else ()
        function = getattr(CUSOLVER, f"cusolverSpXcsr{name}Host")
        check(function(HANDLE, *a.sizes(), *a.pattern(), *options, at(order)))
        assert sorted(order) == list(range(side * side))
        assert fill_of(a.matrix[np.ix_(order, order)]) < plain, name


def permutations_agree() -> None:
    for base in (0, 1):
        a = Sparse(general("D", 30), base)
        p, q = (RANDOM.permutation(30).astype(np.int32) for _ in range(2))
        size, place = ctypes.c_size_t(), np.arange(a.nnz, dtype=np.int32)
        common = (HANDLE, a.m, *a.sizes(), *a.pattern(), at(p), at(q))
        check(CUSOLVER.cusolverSpXcsrperm_bufferSizeHost(*common, ctypes.byref(size)))
        values = a.values.copy()
        check(CUSOLVER.cusolverSpXcsrpermHost(*common, at(place), at(np.zeros(size.value, np.uint8))))
        wanted = Sparse(a.matrix[np.ix_(p, q)], base)
        assert np.array_equal(a.offsets, wanted.offsets)
        assert np.array_equal(a.columns, wanted.columns)
        assert np.array_equal(values[place], wanted.values)


def symmetric_patterns_are_told() -> None:
    for matrix, wanted in ((grid(4), 1), (np.triu(grid(4)), 0)):
        a, symmetric = Sparse(matrix, 1), ctypes.c_int(9)
        ends = np.array(a.offsets[1:])
        common = (HANDLE, *a.sizes(), at(a.offsets), at(ends), at(a.columns))
        check(CUSOLVER.cusolverSpXcsrissymHost(*common, ctypes.byref(symmetric)))
        assert symmetric.value == wanted


# ---- in steps ----


def step(letter: str, name: str, *arguments: Any) -> None:
    function = getattr(CUSOLVER, f"cusolverSp{letter}csr{name}")
    assert function(HANDLE, *arguments) == 0, name


def steps_of_cholesky_and_qr_agree() -> None:
    for letter, place, kind in itertools.product("SD", ("Host", ""), ("qr", "chol")):
        a = Sparse(positive(letter, 50), base=1)
        b, x = Vector(numbers(letter, 50), place), Vector(np.zeros(50, TYPES[letter]), place)
        sizes = (a.m, *a.sizes()) if kind == "qr" else a.sizes()
        name = "Csrqr" if kind == "qr" else "Csrchol"
        info = created(f"cusolverSpCreate{name}Info{place}")
        internal, size, position = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int(9)
        step("X", f"{kind}Analysis{place}", *sizes, *a.pattern(place), info)
        both = (ctypes.byref(internal), ctypes.byref(size))
        step(letter, f"{kind}BufferInfo{place}", *sizes, *a.arrays(place), info, *both)
        if kind == "qr":
            step(letter, f"qrSetup{place}", *sizes, *a.arrays(place), real(letter, 0), info)
            step(letter, f"qrFactor{place}", a.m, a.n, a.nnz, None, None, info, None)
        else:
            step(letter, f"cholFactor{place}", *sizes, *a.arrays(place), info, None)
        step(letter, f"{kind}ZeroPivot{place}", info, real(letter, 1e-12), ctypes.byref(position))
        assert position.value == -1
        order = (a.m, a.n) if kind == "qr" else (a.n,)
        step(letter, f"{kind}Solve{place}", *order, b.pointer, x.pointer, info, None)
        scale = np.linalg.norm(wide(a.matrix), 2) * np.linalg.norm(x.get()) + 1
        assert_small(a.matrix @ x.get() - b.get(), scale, letter)
        check(getattr(CUSOLVER, f"cusolverSpDestroy{name}Info{place}")(info))


def least_squares_agree() -> None:
    matrix = np.concatenate([general("D", 20), general("D", 20)])
    a, b, x = Sparse(matrix), Vector(numbers("D", 40)), Vector(np.zeros(20))
    info = created("cusolverSpCreateCsrqrInfoHost")
    step("D", "qrSetupHost", a.m, *a.sizes(), *a.arrays(), ctypes.c_double(0), info)
    step("D", "qrFactorHost", a.m, a.n, a.nnz, b.pointer, x.pointer, info, None)
    wanted = np.linalg.lstsq(matrix, b.get().real, rcond=None)[0]
    assert_small(x.get() - wanted, np.abs(wanted).max() * np.linalg.cond(matrix) ** 2, "D")


def decomposed(a: Sparse, letter: str, threshold: float) -> tuple[Any, Any, list[Any], ctypes.c_void_p]:
    """P, Q, the arrays of L and U, and what they were taken from."""
    info, n = created("cusolverSpCreateCsrluInfoHost"), a.n
    step("X", "luAnalysisHost", *a.sizes(), *a.pattern(), info)
    step(letter, "luFactorHost", *a.sizes(), *a.arrays(), info, real(letter, threshold), None)
    counts = ctypes.c_int(), ctypes.c_int()
    step("X", "luNnzHost", ctypes.byref(counts[0]), ctypes.byref(counts[1]), info)
    p, q = np.zeros(n, np.int32), np.zeros(n, np.int32)
    parts = [
        (np.zeros(count.value, TYPES[letter]), np.zeros(n + 1, np.int32), np.zeros(count.value, np.int32))
        for count in counts
    ]
    flat = [[a.descriptor, *map(at, part)] for part in parts]
    step(letter, "luExtractHost", at(p), at(q), *flat[0], *flat[1], info, None)
    return p, q, parts, info


def extracted_factors_agree() -> None:
    for letter, threshold in itertools.product("SDCZ", (1, 0.1)):
        a = Sparse(general(letter, 60))
        p, q, parts, info = decomposed(a, letter, threshold)
        n = a.n
        dense = [np.zeros((n, n), np.complex128) for _ in parts]
        for matrix, (values, offsets, columns) in zip(dense, parts, strict=True):
            for i in range(n):
                matrix[i, columns[offsets[i] : offsets[i + 1]]] = values[offsets[i] : offsets[i + 1]]
        assert np.array_equal(dense[0], np.tril(dense[0], -1))
        assert np.array_equal(dense[1], np.triu(dense[1]))
        made = (dense[0] + np.eye(n)) @ dense[1]
        assert_small(made - a.matrix[np.ix_(p, q)], np.abs(dense[0]).max() * np.abs(dense[1]).max(), letter)
        b, x = Vector(numbers(letter, n)), Vector(np.zeros(n, TYPES[letter]))
        step(letter, "luSolveHost", n, b.pointer, x.pointer, info, None)
        error = np.linalg.norm(a.matrix @ x.get() - b.get())
        assert error < 1e4 * np.finfo(REAL[letter]).eps * np.linalg.norm(x.get()), (letter, error)


def refactored_matrices_agree() -> None:
    a, handle = Sparse(general("D", 60)), created("cusolverRfCreate")
    p, q, parts, _ = decomposed(a, "D", 1)
    check(CUSOLVER.cusolverRfSetMatrixFormat(handle, 0, 2))
    assert CUSOLVER.cusolverRfSetMatrixFormat(handle, 1, 2) == NOT_SUPPORTED
    assert CUSOLVER.cusolverRfRefactor(handle) == NOT_INITIALIZED
    flat = [(len(values), at(offsets), at(columns), at(values)) for values, offsets, columns in parts]
    first = (a.n, a.nnz, at(a.offsets), at(a.columns), at(a.values))
    check(CUSOLVER.cusolverRfSetupHost(*first, *flat[0], *flat[1], at(p), at(q), handle))
    check(CUSOLVER.cusolverRfAnalyze(handle))
    orders = DeviceArray(p), DeviceArray(q)
    places = (orders[0].pointer, orders[1].pointer)
    changed = a.matrix * (1 + RANDOM.random(a.matrix.shape) / 8)
    for matrix in (a.matrix, changed):
        values = DeviceArray(matrix[np.nonzero(a.matrix)])
        arrays = (a.device[1].pointer, a.device[2].pointer, values.pointer)
        check(CUSOLVER.cusolverRfResetValues(a.n, a.nnz, *arrays, *places, handle))
        check(CUSOLVER.cusolverRfRefactor(handle))
        b = numbers("D", 2, a.n)
        x, temp = DeviceArray(b), DeviceArray(b)
        check(CUSOLVER.cusolverRfSolve(handle, *places, 2, temp.pointer, a.n, x.pointer, a.n))
        assert_small(matrix @ x.get().T - b.T, np.linalg.cond(matrix), "D")
    zeros = DeviceArray(np.zeros(a.nnz))
    arrays = (a.device[1].pointer, a.device[2].pointer, zeros.pointer)
    check(CUSOLVER.cusolverRfResetValues(a.n, a.nnz, *arrays, *places, handle))
    assert CUSOLVER.cusolverRfRefactor(handle) == ZERO_PIVOT
    check(CUSOLVER.cusolverRfDestroy(handle))


def sparse_arguments_are_checked() -> None:
    a, x, singularity = Sparse(np.eye(4)), Vector(np.ones(4)), ctypes.c_int()
    solve = CUSOLVER.cusolverSpDcsrlsvluHost
    rest = (ctypes.c_double(0), 0, x.pointer, ctypes.byref(singularity))
    assert solve(None, *a.sizes(), *a.arrays(), x.pointer, *rest) == NOT_INITIALIZED
    assert solve(HANDLE, -1, 4, a.descriptor, *a.arrays(), x.pointer, *rest) == INVALID_VALUE
    assert solve(HANDLE, 4, 3, a.descriptor, *a.arrays(), x.pointer, *rest) == INVALID_VALUE
    assert solve(HANDLE, 4, 4, None, *a.arrays(), x.pointer, *rest) == INVALID_VALUE
    assert solve(HANDLE, *a.sizes(), *a.arrays(), None, *rest) == INVALID_VALUE
    columns = np.array([0, 1, 2, 4], np.int32)
    arrays = (at(a.values), at(a.offsets), at(columns))
    assert solve(HANDLE, *a.sizes(), *arrays, x.pointer, *rest) == INVALID_VALUE
    check(CUSPARSE.cusparseSetMatType(a.descriptor, 1))
    assert solve(HANDLE, *a.sizes(), *a.arrays(), x.pointer, *rest) == MATRIX_TYPE_NOT_SUPPORTED


CASES = {
    case.__name__: case
    for case in (
        solutions_agree,
        singular_matrices_are_told,
        eigenvalues_agree,
        orders_keep_factors_sparse,
        permutations_agree,
        symmetric_patterns_are_told,
        steps_of_cholesky_and_qr_agree,
        least_squares_agree,
        extracted_factors_agree,
        refactored_matrices_agree,
        sparse_arguments_are_checked,
    )
}
if __name__ == "__main__":
    check(CUSOLVER.cusolverSpCreate(ctypes.byref(HANDLE)))
    main(CASES)
