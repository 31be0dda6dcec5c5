"""cuSOLVER's dense functions beside numpy's."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.toolkit import RUNTIME, DeviceArray, check, library, main

CUSOLVER = library("libcusolver.so.11")
TYPES: Final[dict[str, Any]] = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
REAL: Final[dict[str, Any]] = {"S": np.float32, "D": np.float64, "C": np.float32, "Z": np.float64}
NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 1, 3, 9
LOWER, UPPER = 0, 1
LEFT, RIGHT = 0, 1
N, T, C = 0, 1, 2
GUARD = 1024
RANDOM = np.random.default_rng(7)


def passed(value: Any) -> Any:
    """An argument as C takes it: arrays of the device by address."""
    return value.pointer if isinstance(value, (DeviceArray, Matrix, Workspace)) else value


class Workspace:
    """Memory of the size that a function asked for, with a guard behind it."""

    def __init__(self, letter: str, size: int) -> None:
        self.size, item = size, np.dtype(TYPES[letter]).itemsize
        self.array = DeviceArray(np.full(size * item + GUARD, 0x5A, np.uint8))
        self.pointer = self.array.pointer

    def assert_guard_is_whole(self) -> None:
        assert np.all(self.array.get()[-GUARD:] == 0x5A), "written behind the workspace"


class Handle:
    """A handle of the dense functions, which are called by their names behind `cusolverDn`."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        check(CUSOLVER.cusolverDnCreate(ctypes.byref(self.handle)))
        self.info = DeviceArray(np.full(1, -77, np.int32))

    def status(self, name: str, *arguments: Any) -> int:
        return int(getattr(CUSOLVER, f"cusolverDn{name}")(self.handle, *map(passed, arguments)))

    def __call__(self, name: str, *arguments: Any) -> None:
        status = self.status(name, *arguments)
        assert status == 0, f"cusolverDn{name}: status {status}"

    def size(self, name: str, *arguments: Any) -> int:
        size = ctypes.c_int(-1)
        self(f"{name}_bufferSize", *arguments, ctypes.byref(size))
        assert size.value >= 0
        return size.value

    def get_info(self) -> int:
        return int(self.info.get()[0])


SOLVER = Handle()


def numbers(letter: str, *shape: int) -> NDArray[Any]:
    made = RANDOM.standard_normal(shape)
    if letter in "CZ":
        made = made + 1j * RANDOM.standard_normal(shape)
    return made.astype(TYPES[letter])


def by_columns(matrix: NDArray[Any], ld: int) -> NDArray[Any]:
    """The matrix as LAPACK has it: columns behind each other, `ld` numbers apart; as an array of (columns, ld)."""
    laid = np.full((matrix.shape[1], ld), 77, matrix.dtype)
    laid[:, : matrix.shape[0]] = matrix.T
    return laid


class Matrix:
    """A matrix on the device, whose columns are further apart than they are long."""

    def __init__(self, matrix: NDArray[Any], gap: int = 3) -> None:
        self.rows, self.ld = matrix.shape[0], max(matrix.shape[0] + gap, 1)
        self.device = DeviceArray(by_columns(matrix, self.ld))
        self.pointer = self.device.pointer

    def get(self) -> NDArray[Any]:
        laid = self.device.get()
        assert np.all(laid[:, self.rows :] == 77), "behind the rows"
        return laid[:, : self.rows].T.copy()


def definite(letter: str, n: int) -> NDArray[Any]:
    a = numbers(letter, n, n).astype(np.complex128)
    a = a @ a.conj().T / max(n, 1) + np.eye(n)
    return (a if letter in "CZ" else a.real).astype(TYPES[letter])


def wide(matrix: NDArray[Any]) -> NDArray[Any]:
    return matrix.astype(np.complex128)


def assert_small(error: NDArray[Any], scale: Any, letter: str, factor: float = 30) -> None:
    """The error is that of rounding, beside what was summed up."""
    size = float(np.max(np.abs(scale), initial=0)) or 1.0
    worst = float(np.max(np.abs(error), initial=0))
    n = max(error.shape, default=1)
    bound = factor * (1 + n**0.5) * float(np.finfo(REAL[letter]).eps) * size
    assert worst <= bound, (letter, n, worst, bound)


def operated(op: int, matrix: NDArray[Any]) -> NDArray[Any]:
    return {N: matrix, T: matrix.T, C: matrix.T.conj()}[op]


def run(name: str, letter: str, size: tuple[Any, ...], *arguments: Any) -> None:
    """Calls a function with the workspace that it asks for; `arguments` have `Workspace` and info in their places."""
    work = Workspace(letter, SOLVER.size(name, *size))
    filled = []
    for argument in arguments:
        filled += [work, work.size] if argument is Workspace else [argument]
    SOLVER(name, *filled, SOLVER.info)
    work.assert_guard_is_whole()


# ---- linear systems ----

SIZES = (1, 5, 33, 64, 150)


def triangle(fill: int, matrix: NDArray[Any]) -> NDArray[Any]:
    return np.tril(matrix) if fill == LOWER else np.triu(matrix)


def cholesky_agrees() -> None:
    for letter, n, fill in itertools.product("SDCZ", SIZES, (LOWER, UPPER)):
        a, b = definite(letter, n), numbers(letter, n, 9)
        mixed = triangle(fill, a) + triangle(1 - fill, np.full((n, n), 55, a.dtype)) * (1 - np.eye(n, dtype=a.dtype))
        da = Matrix(mixed)
        run(f"{letter}potrf", letter, (fill, n, da, da.ld), fill, n, da, da.ld, Workspace)
        assert SOLVER.get_info() == 0
        got = da.get()
        assert np.all(triangle(1 - fill, got - mixed) * (1 - np.eye(n)) == 0), "the other triangle"
        factor = wide(triangle(fill, got))
        made = factor @ factor.conj().T if fill == LOWER else factor.conj().T @ factor
        assert_small(made - a, a, letter)
        for count in (1, 9):
            db = Matrix(b[:, :count])
            SOLVER(f"{letter}potrs", fill, n, count, da, da.ld, db, db.ld, SOLVER.info)
            assert_small(a @ wide(db.get()) - b[:, :count], np.abs(b).max() * np.linalg.cond(a), letter)
        run(f"{letter}potri", letter, (fill, n, da, da.ld), fill, n, da, da.ld, Workspace)
        inverse = np.linalg.inv(wide(a))
        assert_small(triangle(fill, da.get() - inverse), np.abs(inverse).max() * np.linalg.cond(a), letter)


def indefinite_matrices_are_told() -> None:
    for letter, n, fill in itertools.product("SZ", (5, 64, 150), (LOWER, UPPER)):
        for bad in (0, n // 2, n - 1):
            a = definite(letter, n)
            a[bad, bad] = -1
            da = Matrix(a)
            run(f"{letter}potrf", letter, (fill, n, da, da.ld), fill, n, da, da.ld, Workspace)
            assert SOLVER.get_info() == bad + 1


def tables(matrices: list[Matrix]) -> DeviceArray:
    return DeviceArray(np.array([matrix.pointer.value for matrix in matrices], np.uint64))


def cholesky_of_batches_agrees() -> None:
    for letter, n, fill in itertools.product("SDCZ", (1, 6, 40, 80), (LOWER, UPPER)):
        wanted = [definite(letter, n) for _ in range(4)]
        sides = [numbers(letter, n, 1) for _ in wanted]
        wanted[2][n - 1, n - 1] = -5
        matrices, right = [Matrix(a) for a in wanted], [Matrix(b) for b in sides]
        infos = DeviceArray(np.full(4, 9, np.int32))
        ld = matrices[0].ld
        SOLVER(f"{letter}potrfBatched", fill, n, tables(matrices), ld, infos, 4)
        assert list(infos.get()) == [0, 0, n, 0]
        SOLVER(f"{letter}potrsBatched", fill, n, 1, tables(matrices), ld, tables(right), right[0].ld, SOLVER.info, 4)
        for z in (0, 1, 3):
            x = wide(right[z].get())
            assert_small(wanted[z] @ x - sides[z], np.abs(sides[z]).max() * np.linalg.cond(wanted[z]), letter)


def permuted(matrix: NDArray[Any], pivots: NDArray[Any]) -> NDArray[Any]:
    matrix = matrix.copy()
    for i, pivot in enumerate(pivots):
        matrix[[i, pivot - 1]] = matrix[[pivot - 1, i]]
    return matrix


def lu_agrees() -> None:
    shapes = ((1, 1), (5, 5), (33, 20), (20, 33), (64, 64), (150, 150), (150, 70), (70, 150))
    for letter, (m, n) in itertools.product("SDCZ", shapes):
        a = numbers(letter, m, n)
        da, pivots = Matrix(a), DeviceArray(np.zeros(min(m, n), np.int32))
        work = Workspace(letter, SOLVER.size(f"{letter}getrf", m, n, da, da.ld))
        SOLVER(f"{letter}getrf", m, n, da, da.ld, work, pivots, SOLVER.info)
        assert SOLVER.get_info() == 0
        work.assert_guard_is_whole()
        got = wide(da.get())
        lower = np.tril(got, -1)[:, : min(m, n)] + np.eye(m, min(m, n))
        assert np.abs(lower).max() <= 1.5, "pivots are the greatest"
        assert_small(lower @ np.triu(got)[: min(m, n)] - permuted(a, pivots.get()), a, letter)
        if m != n:
            continue
        for op, count in itertools.product((N, T, C), (1, 9)):
            b = numbers(letter, n, count)
            db = Matrix(b)
            SOLVER(f"{letter}getrs", op, n, count, da, da.ld, pivots, db, db.ld, SOLVER.info)
            x = wide(db.get())
            assert_small(operated(op, wide(a)) @ x - b, n * np.abs(a).max() * np.abs(x).max(), letter)


def lu_without_pivots_agrees() -> None:
    for letter, n in itertools.product("SDCZ", (5, 64, 150)):
        a = definite(letter, n)
        da, db = Matrix(a), Matrix(numbers(letter, n, 2))
        b = wide(db.get())
        SOLVER(f"{letter}getrf", n, n, da, da.ld, Workspace(letter, n), None, SOLVER.info)
        got = wide(da.get())
        assert_small((np.tril(got, -1) + np.eye(n)) @ np.triu(got) - a, a, letter)
        SOLVER(f"{letter}getrs", N, n, 2, da, da.ld, None, db, db.ld, SOLVER.info)
        assert_small(a @ wide(db.get()) - b, np.abs(b).max() * np.linalg.cond(a), letter)


def singular_matrices_are_told() -> None:
    for letter, n, zero in (("S", 5, 2), ("D", 64, 0), ("C", 150, 100), ("Z", 40, 39)):
        a = numbers(letter, n, n)
        a[:, zero] = 0
        da, pivots = Matrix(a), DeviceArray(np.zeros(n, np.int32))
        SOLVER(f"{letter}getrf", n, n, da, da.ld, Workspace(letter, n), pivots, SOLVER.info)
        assert SOLVER.get_info() == zero + 1


def rebuilt(factor: NDArray[Any], pivots: NDArray[Any]) -> NDArray[Any]:
    """A of LAPACK's L D L^T, from the last column to the first."""
    n, made, steps, k = len(factor), np.zeros(factor.shape, factor.dtype), [], 0
    while k < n:
        width = 2 if pivots[k] < 0 else 1
        steps.append((k, width))
        k += width
    for k, width in reversed(steps):
        end = k + width
        block = np.tril(factor[k:end, k:end])
        made[k:end, k:end] = block + np.tril(block, -1).T
        lower = np.eye(n, dtype=factor.dtype)
        lower[end:, k:end] = factor[end:, k:end]
        made = lower @ made @ lower.T
        order = np.arange(n)
        order[[end - 1, abs(pivots[k]) - 1]] = order[[abs(pivots[k]) - 1, end - 1]]
        made = made[np.ix_(order, order)]
    return made


def symmetric_decompositions_agree() -> None:
    for letter, n, fill in itertools.product("SDCZ", (1, 2, 9, 70), (LOWER, UPPER)):
        a = numbers(letter, n, n)
        a = a + a.T
        a[np.arange(0, n, 2), np.arange(0, n, 2)] = 0 if n > 1 else 1
        mixed = triangle(fill, a) + np.where(triangle(1 - fill, np.ones((n, n))) * (1 - np.eye(n)), 55, 0)
        da, pivots = Matrix(mixed.astype(a.dtype)), DeviceArray(np.zeros(n, np.int32))
        work = Workspace(letter, SOLVER.size(f"{letter}sytrf", n, da, da.ld))
        SOLVER(f"{letter}sytrf", fill, n, da, da.ld, pivots, work, work.size, SOLVER.info)
        assert SOLVER.get_info() == 0
        work.assert_guard_is_whole()
        got, places = wide(da.get()), pivots.get()
        if fill == UPPER:  # that of the matrix in reverse order
            got, places = got[::-1, ::-1], np.sign(places[::-1]) * (n + 1 - np.abs(places[::-1]))
        made = rebuilt(got, places)
        assert_small((made[::-1, ::-1] if fill == UPPER else made) - a, n * np.abs(a).max(), letter)
    a = np.diag([1.0, 0, 2, 0])
    for fill, wanted in ((LOWER, 2), (UPPER, 4)):
        da, pivots = Matrix(a), DeviceArray(np.zeros(4, np.int32))
        SOLVER("Dsytrf", fill, 4, da, da.ld, pivots, None, 0, SOLVER.info)
        assert SOLVER.get_info() == wanted


def qr_agrees() -> None:
    shapes = ((1, 1), (5, 5), (33, 20), (20, 33), (150, 150), (150, 70), (70, 150))
    for letter, (m, n) in itertools.product("SDCZ", shapes):
        name, adjoint = ("or", T) if letter in "SD" else ("un", C)
        a, k = numbers(letter, m, n), min(m, n)
        da, tau = Matrix(a), DeviceArray(np.zeros(k, TYPES[letter]))
        run(f"{letter}geqrf", letter, (m, n, da, da.ld), m, n, da, da.ld, tau, Workspace)
        assert SOLVER.get_info() == 0
        r = np.triu(da.get())
        # C is A: Q^H A = R
        dc = Matrix(a)
        common = (da, da.ld, tau, dc, dc.ld)
        run(f"{letter}{name}mqr", letter, (LEFT, adjoint, m, n, k, *common), LEFT, adjoint, m, n, k, *common, Workspace)
        assert_small(dc.get() - r, np.linalg.norm(a), letter)
        run(f"{letter}{name}mqr", letter, (LEFT, N, m, n, k, *common), LEFT, N, m, n, k, *common, Workspace)
        assert_small(dc.get() - a, np.linalg.norm(a), letter)
        if m < n:
            continue
        dq = Matrix(da.get())
        size = (m, n, k, dq, dq.ld, tau)
        run(f"{letter}{name}gqr", letter, size, *size, Workspace)
        q = wide(dq.get())
        assert_small(q.conj().T @ q - np.eye(n), 1, letter)
        assert_small(q @ r[:n] - a, np.linalg.norm(a), letter)
        for op in (N, adjoint):
            c = numbers(letter, 7, m)
            dc = Matrix(c)
            common = (da, da.ld, tau, dc, dc.ld)
            run(f"{letter}{name}mqr", letter, (RIGHT, op, 7, m, k, *common), RIGHT, op, 7, m, k, *common, Workspace)
            wanted = wide(c) @ (q if op == N else q.conj().T) if m == n else None
            if wanted is not None:
                assert_small(dc.get() - wanted, np.linalg.norm(c), letter)
            else:
                assert_small(np.linalg.norm(dc.get(), axis=1) - np.linalg.norm(c, axis=1), np.linalg.norm(c), letter)


def great_and_small_reflectors_agree() -> None:
    for letter, size in (("S", 1e25), ("S", 1e-25), ("D", 1e200), ("Z", 1e-200)):
        a = (numbers(letter, 40, 10) * size).astype(TYPES[letter])
        da, tau = Matrix(a), DeviceArray(np.zeros(10, TYPES[letter]))
        run(f"{letter}geqrf", letter, (40, 10, da, da.ld), 40, 10, da, da.ld, tau, Workspace)
        r = np.abs(wide(da.get())[:10]) / size
        assert_small(np.triu(r) - np.abs(np.linalg.qr(wide(a) / size)[1]), 10, letter)


def linear_arguments_are_checked() -> None:
    a, b = Matrix(np.eye(4)), Matrix(np.ones((4, 1)))
    size = ctypes.c_int()
    work, pivots = Workspace("D", 100), DeviceArray(np.zeros(4, np.int32))
    assert (
        CUSOLVER.cusolverDnDpotrf(None, 0, 4, a.pointer, 4, work.pointer, 100, SOLVER.info.pointer) == NOT_INITIALIZED
    )
    assert CUSOLVER.cusolverDnCreate(None) == INVALID_VALUE
    assert CUSOLVER.cusolverDnDestroy(None) == NOT_INITIALIZED
    wrong: tuple[tuple[Any, ...], ...] = (
        ("Dpotrf_bufferSize", 2, 4, a, 4, ctypes.byref(size)),
        ("Dpotrf_bufferSize", 0, -1, a, 4, ctypes.byref(size)),
        ("Dpotrf_bufferSize", 0, 4, a, 3, ctypes.byref(size)),
        ("Dpotrf", 0, 4, a, 3, work, 100, SOLVER.info),
        ("Dpotrf", 0, 4, a, 4, work, 100, None),
        ("Dpotri", 0, 4, a, 4, work, 15, SOLVER.info),
        ("Dpotrs", 0, 4, -1, a, 4, b, 4, SOLVER.info),
        ("Dgetrf", 4, -4, a, 4, work, pivots, SOLVER.info),
        ("Dgetrs", 7, 4, 1, a, 4, pivots, b, 4, SOLVER.info),
        ("Dgetrs", 0, 4, 1, a, 4, pivots, b, 3, SOLVER.info),
        ("Dgeqrf", 4, 4, a, 4, b, work, 1, SOLVER.info),
        ("Dormqr", 0, 0, 4, 1, 5, a, 4, b, b, 4, work, 100000, SOLVER.info),
        ("Dorgqr", 3, 4, 3, a, 4, b, work, 100000, SOLVER.info),
        ("Zunmqr", 0, 1, 4, 1, 4, a, 4, b, b, 4, work, 100000, SOLVER.info),
    )
    for name, *arguments in wrong:
        assert SOLVER.status(name, *arguments) == INVALID_VALUE, name


def streams_are_kept() -> None:
    stream, got = ctypes.c_void_p(), ctypes.c_void_p()
    check(RUNTIME.cudaStreamCreate(ctypes.byref(stream)))
    SOLVER("SetStream", stream)
    SOLVER("GetStream", ctypes.byref(got))
    assert got.value == stream.value
    lu_agrees()
    SOLVER("SetStream", None)
    check(RUNTIME.cudaStreamDestroy(stream))


CASES = {
    case.__name__: case
    for case in (
        cholesky_agrees,
        indefinite_matrices_are_told,
        cholesky_of_batches_agrees,
        lu_agrees,
        lu_without_pivots_agrees,
        singular_matrices_are_told,
        symmetric_decompositions_agree,
        qr_agrees,
        great_and_small_reflectors_agree,
        linear_arguments_are_checked,
        streams_are_kept,
    )
}
if __name__ == "__main__":
    main(CASES)
