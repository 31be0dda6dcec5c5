"""cuSOLVER's eigenvalues and singular values beside numpy's."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cusolver import (
    CUSOLVER,
    INVALID_VALUE,
    LOWER,
    REAL,
    SOLVER,
    UPPER,
    Matrix,
    Workspace,
    assert_small,
    by_columns,
    definite,
    numbers,
    run,
    triangle,
    wide,
)
from tests.cuda_libraries.toolkit import DeviceArray, check, main

VALUES_ONLY, VECTORS = 0, 1
ALL, BY_INDEX, BY_VALUE = 1001, 1002, 1003


def reals(letter: str, *values: float) -> list[Any]:
    kind = ctypes.c_float if letter in "SC" else ctypes.c_double
    return [kind(value) for value in values]


def assert_unitary(matrix: NDArray[Any], letter: str) -> None:
    assert_small(matrix.conj().T @ matrix - np.eye(matrix.shape[1]), 1, letter)


class Parameters:
    """Parameters of gesvdj or syevj."""

    def __init__(self, name: str = "gesvdj") -> None:
        self.name, self.info = name.capitalize(), ctypes.c_void_p()
        check(getattr(CUSOLVER, f"cusolverDnCreate{self.name}Info")(ctypes.byref(self.info)))

    def __del__(self) -> None:
        check(getattr(CUSOLVER, f"cusolverDnDestroy{self.name}Info")(self.info))


# ---- eigenvalues ----


def hermitian(letter: str, n: int) -> NDArray[Any]:
    a = numbers(letter, n, n)
    return np.asarray((a + a.conj().T) / 2)


def check_eigen(letter: str, a: NDArray[Any], fill: int, mode: int) -> None:
    n, name = len(a), f"{letter}syevd" if letter in "SD" else f"{letter}heevd"
    mixed = triangle(fill, a) + np.where(triangle(1 - fill, np.ones((n, n))) * (1 - np.eye(n)), 55, 0).astype(a.dtype)
    da, w = Matrix(mixed), DeviceArray(np.zeros(n, REAL[letter]))
    run(name, letter, (mode, fill, n, da, da.ld, w), mode, fill, n, da, da.ld, w, Workspace)
    assert SOLVER.get_info() == 0
    values = w.get()
    assert np.all(np.diff(values) >= 0)
    scale = np.abs(np.linalg.eigvalsh(wide(a))).max()
    assert_small(values - np.linalg.eigvalsh(wide(a)), scale, letter)
    if mode == VECTORS:
        v = wide(da.get())
        assert_unitary(v, letter)
        assert_small(a @ v - v * values, scale, letter)


def eigenvalues_agree() -> None:
    for letter, n, fill in itertools.product("SDCZ", (1, 2, 5, 40, 150), (LOWER, UPPER)):
        check_eigen(letter, hermitian(letter, n), fill, VECTORS)
        check_eigen(letter, hermitian(letter, n), fill, VALUES_ONLY)


def equal_eigenvalues_agree() -> None:
    for letter in "SZ":
        for a in (np.eye(40), np.zeros((40, 40)), np.ones((40, 40)), np.diag(np.arange(40.0) % 3)):
            check_eigen(letter, a.astype(numbers(letter, 1).dtype), LOWER, VECTORS)


def chosen_eigenvalues_agree() -> None:
    for letter, (kind, low, high, first, last) in itertools.product(
        "SDCZ", ((ALL, 0, 0, 0, 0), (BY_INDEX, 0, 0, 3, 7), (BY_VALUE, -2.0, 3.0, 0, 0), (BY_VALUE, 900, 901, 0, 0))
    ):
        n, a, found = 30, hermitian(letter, 30), ctypes.c_int(-1)
        name = f"{letter}syevdx" if letter in "SD" else f"{letter}heevdx"
        da, w = Matrix(a), DeviceArray(np.zeros(n, REAL[letter]))
        common = (VECTORS, kind, LOWER, n, da, da.ld, *reals(letter, low, high), first, last, ctypes.byref(found), w)
        run(name, letter, common, *common, Workspace)
        every = np.linalg.eigvalsh(wide(a))
        wanted = {ALL: every, BY_INDEX: every[2:7], BY_VALUE: every[(every > low) & (every <= high)]}[kind]
        assert found.value == len(wanted)
        assert_small(w.get()[: len(wanted)] - wanted, np.abs(every).max(), letter)
        v = wide(da.get())[:, : len(wanted)]
        assert_small(a @ v - v * wanted, np.abs(every).max(), letter)
        assert_unitary(v, letter)


def generalised_eigenvalues_agree() -> None:
    for letter, kind, fill, n in itertools.product("SDCZ", (1, 2, 3), (LOWER, UPPER), (1, 20, 70)):
        name = f"{letter}sygvd" if letter in "SD" else f"{letter}hegvd"
        a, b = hermitian(letter, n), definite(letter, n)
        da, db, w = Matrix(a), Matrix(b), DeviceArray(np.zeros(n, REAL[letter]))
        common = (kind, VECTORS, fill, n, da, da.ld, db, db.ld, w)
        run(name, letter, common, *common, Workspace)
        assert SOLVER.get_info() == 0
        v, values, a, b = wide(da.get()), w.get(), wide(a), wide(b)
        left = {1: a @ v, 2: a @ b @ v, 3: b @ a @ v}[kind]
        right = b @ v * values if kind == 1 else v * values
        assert_small(left - right, np.linalg.norm(a) * np.linalg.norm(b) * np.abs(v).max() * np.linalg.cond(b), letter)
    b = np.eye(20)
    b[4, 4] = -1
    da, db, w = Matrix(np.eye(20)), Matrix(b), DeviceArray(np.zeros(20))
    run("Dsygvd", "D", (1, 1, 0, 20, da, da.ld, db, db.ld, w), 1, 1, 0, 20, da, da.ld, db, db.ld, w, Workspace)
    assert SOLVER.get_info() == 20 + 5


def eigenvalues_by_rotations_agree() -> None:
    for letter, n, fill in itertools.product("SDCZ", (1, 2, 33, 90), (LOWER, UPPER)):
        name = f"{letter}syevj" if letter in "SD" else f"{letter}heevj"
        a, parameters = hermitian(letter, n), Parameters("syevj")
        da, w, size = Matrix(a), DeviceArray(np.zeros(n, REAL[letter])), ctypes.c_int()
        common = (VECTORS, fill, n, da, da.ld, w)
        SOLVER(f"{name}_bufferSize", *common, ctypes.byref(size), parameters.info)
        work = Workspace(letter, size.value)
        SOLVER(name, *common, work, size, SOLVER.info, parameters.info)
        work.assert_guard_is_whole()
        assert SOLVER.get_info() == 0
        values, v, scale = w.get(), wide(da.get()), np.linalg.norm(a)
        assert_small(values - np.linalg.eigvalsh(wide(a)), scale, letter)
        assert_unitary(v, letter)
        assert_small(a @ v - v * values, scale, letter)
        residual, sweeps = ctypes.c_double(-1), ctypes.c_int(-1)
        SOLVER("XsyevjGetResidual", parameters.info, ctypes.byref(residual))
        SOLVER("XsyevjGetSweeps", parameters.info, ctypes.byref(sweeps))
        assert_small(np.array([residual.value]), scale, letter)
        assert sweeps.value < 15
    parameters = Parameters("syevj")
    check(CUSOLVER.cusolverDnXsyevjSetMaxSweeps(parameters.info, 1))
    da, w, work = Matrix(hermitian("D", 20)), DeviceArray(np.zeros(20)), Workspace("D", 2000)
    SOLVER("Dsyevj", VALUES_ONLY, LOWER, 20, da, da.ld, w, work, 2000, SOLVER.info, parameters.info)
    assert SOLVER.get_info() == 21


def batches_of_eigenvalues_agree() -> None:
    for letter, n in itertools.product("SDCZ", (3, 32, 70)):
        name = f"{letter}syevjBatched" if letter in "SD" else f"{letter}heevjBatched"
        matrices, parameters, size = [hermitian(letter, n) for _ in range(3)], Parameters("syevj"), ctypes.c_int()
        da = DeviceArray(np.array([by_columns(a, n + 1) for a in matrices]))
        w, infos = DeviceArray(np.zeros((3, n), REAL[letter])), DeviceArray(np.full(3, 9, np.int32))
        common = (VECTORS, UPPER, n, da, n + 1, w)
        SOLVER(f"{name}_bufferSize", *common, ctypes.byref(size), parameters.info, 3)
        work = Workspace(letter, size.value)
        SOLVER(name, *common, work, size, infos, parameters.info, 3)
        work.assert_guard_is_whole()
        assert list(infos.get()) == [0, 0, 0]
        for a, laid, values in zip(matrices, da.get(), w.get(), strict=True):
            v, scale = wide(laid[:, :n].T), np.linalg.norm(a)
            assert_unitary(v, letter)
            assert_small(a @ v - v * values, scale, letter)
            assert np.all(np.diff(values) >= 0)


# ---- singular values ----


def with_rank(letter: str, m: int, n: int, rank: int) -> NDArray[Any]:
    return np.asarray(numbers(letter, m, rank) @ numbers(letter, rank, n))


def singular_values_agree() -> None:
    cases = (
        ((1, 1), 1, "AA"), ((9, 5), 5, "AA"), ((9, 5), 5, "SS"), ((9, 5), 3, "AA"), ((40, 40), 40, "NN"),
        ((60, 30), 30, "OS"), ((60, 30), 30, "SO"), ((70, 60), 60, "AA"), ((64, 64), 20, "AS"), ((9, 5), 0, "AA"),
    )  # fmt: skip
    for letter, ((m, n), rank, jobs) in itertools.product("SDCZ", cases):
        a = with_rank(letter, m, n, rank)
        da, u, vt = Matrix(a), Matrix(np.zeros((m, m), a.dtype)), Matrix(np.zeros((n, n), a.dtype))
        s = DeviceArray(np.zeros(n, REAL[letter]))
        size = SOLVER.size(f"{letter}gesvd", m, n)
        work = Workspace(letter, size)
        jobu, jobv = (ctypes.c_byte(ord(job)) for job in jobs)
        arguments = (jobu, jobv, m, n, da, da.ld, s, u, u.ld, vt, vt.ld, work, size, None, SOLVER.info)
        SOLVER(f"{letter}gesvd", *arguments)
        assert SOLVER.get_info() == 0
        work.assert_guard_is_whole()
        values, scale = s.get(), np.linalg.norm(a)
        assert np.all(np.diff(values) <= 0)
        assert_small(values - np.linalg.svd(wide(a), compute_uv=False), scale, letter)
        if "N" in jobs:
            continue
        left = wide((da if jobs[0] == "O" else u).get())[:, : m if jobs[0] == "A" else n]
        right = wide((da if jobs[1] == "O" else vt).get())[:n]
        assert_unitary(left, letter)
        assert_unitary(right.T, letter)
        assert_small(left[:, :n] * values @ right - a, scale, letter)


def check_svd(a: NDArray[Any], u: NDArray[Any], s: NDArray[Any], v: NDArray[Any], letter: str) -> None:
    u, v = wide(u), wide(v)
    assert_unitary(u, letter)
    assert_unitary(v, letter)
    assert_small(s - np.linalg.svd(wide(a), compute_uv=False)[: len(s)], np.linalg.norm(a), letter)
    assert_small(u[:, : len(s)] * s @ v[:, : len(s)].conj().T - a, np.linalg.norm(a), letter)


def jacobi_rotations_agree() -> None:
    for letter, (m, n), economical in itertools.product("SDCZ", ((9, 5), (5, 9), (40, 30), (60, 80)), (0, 1)):
        a, k, parameters = numbers(letter, m, n), min(m, n), Parameters()
        left, right = (k, k) if economical else (m, n)
        da, u, v = Matrix(a), Matrix(np.zeros((m, left), a.dtype)), Matrix(np.zeros((n, right), a.dtype))
        s = DeviceArray(np.zeros(k, REAL[letter]))
        common = (VECTORS, economical, m, n, da, da.ld, s, u, u.ld, v, v.ld)
        size = ctypes.c_int()
        SOLVER(f"{letter}gesvdj_bufferSize", *common, ctypes.byref(size), parameters.info)
        work = Workspace(letter, size.value)
        SOLVER(f"{letter}gesvdj", *common, work, size, SOLVER.info, parameters.info)
        work.assert_guard_is_whole()
        assert SOLVER.get_info() == 0
        check_svd(a, u.get(), s.get(), v.get(), letter)
        residual, sweeps = ctypes.c_double(-1), ctypes.c_int(-1)
        SOLVER("XgesvdjGetResidual", parameters.info, ctypes.byref(residual))
        SOLVER("XgesvdjGetSweeps", parameters.info, ctypes.byref(sweeps))
        assert_small(np.array([residual.value]), np.linalg.norm(a), letter)
        assert 1 < sweeps.value < 20


def too_few_sweeps_are_told() -> None:
    a, parameters, s = Matrix(numbers("D", 30, 20)), Parameters(), DeviceArray(np.zeros(20))
    check(CUSOLVER.cusolverDnXgesvdjSetMaxSweeps(parameters.info, 1))
    check(CUSOLVER.cusolverDnXgesvdjSetTolerance(parameters.info, ctypes.c_double(1e-12)))
    work = Workspace("D", 10000)
    SOLVER("Dgesvdj", 0, 1, 30, 20, a, a.ld, s, None, 30, None, 20, work, 10000, SOLVER.info, parameters.info)
    assert SOLVER.get_info() == 21


def great_and_small_values_agree() -> None:
    for letter, size in (("S", 1e30), ("S", 1e-30), ("D", 1e200), ("Z", 1e-200)):
        a = (numbers(letter, 20, 10) * size).astype(numbers(letter, 1).dtype)
        s, work = DeviceArray(np.zeros(10, REAL[letter])), Workspace(letter, SOLVER.size(f"{letter}gesvd", 20, 10))
        job = ctypes.c_byte(ord("N"))
        rest = (None, 20, None, 10, work, work.size, None, SOLVER.info)
        SOLVER(f"{letter}gesvd", job, job, 20, 10, Matrix(a, 0), 20, s, *rest)
        wanted = np.linalg.svd(wide(a) / size, compute_uv=False)
        assert_small(s.get().astype(np.float64) / size - wanted, wanted, letter)


def batches_of_jacobi_rotations_agree() -> None:
    for letter, (m, n) in itertools.product("SDCZ", ((6, 4), (4, 6), (32, 32))):
        count, k, parameters = 3, min(m, n), Parameters()
        matrices = [numbers(letter, m, n) for _ in range(count)]
        da = DeviceArray(np.array([by_columns(a, m + 1) for a in matrices]))
        u, v = (DeviceArray(np.zeros((count, side, side), matrices[0].dtype)) for side in (m, n))
        s, infos = DeviceArray(np.zeros((count, k), REAL[letter])), DeviceArray(np.full(count, 9, np.int32))
        common = (VECTORS, m, n, da, m + 1, s, u, m, v, n)
        size = ctypes.c_int()
        SOLVER(f"{letter}gesvdjBatched_bufferSize", *common, ctypes.byref(size), parameters.info, count)
        work = Workspace(letter, size.value)
        SOLVER(f"{letter}gesvdjBatched", *common, work, size, infos, parameters.info, count)
        work.assert_guard_is_whole()
        assert list(infos.get()) == [0] * count
        for a, one_u, one_s, one_v in zip(matrices, u.get(), s.get(), v.get(), strict=True):
            check_svd(a, one_u.T, one_s, one_v.T, letter)


def approximations_agree() -> None:
    for letter, (m, n, rank) in itertools.product("SDCZ", ((50, 8, 8), (50, 8, 3), (20, 20, 20))):
        count = 3
        matrices = [numbers(letter, m, n) for _ in range(count)]
        da = DeviceArray(np.array([by_columns(a, m) for a in matrices]))
        u = DeviceArray(np.zeros((count, rank, m), matrices[0].dtype))
        v = DeviceArray(np.zeros((count, rank, n), matrices[0].dtype))
        s, infos = DeviceArray(np.zeros((count, rank), REAL[letter])), DeviceArray(np.full(count, 9, np.int32))
        jumps = [ctypes.c_longlong(jump) for jump in (m * n, rank, rank * m, rank * n)]
        common = (VECTORS, rank, m, n, da, m, jumps[0], s, jumps[1], u, m, jumps[2], v, n, jumps[3])
        size, rests = ctypes.c_int(), (ctypes.c_double * count)()
        SOLVER(f"{letter}gesvdaStridedBatched_bufferSize", *common, ctypes.byref(size), count)
        work = Workspace(letter, size.value)
        SOLVER(f"{letter}gesvdaStridedBatched", *common, work, size, infos, rests, count)
        work.assert_guard_is_whole()
        assert list(infos.get()) == [0] * count
        for a, one_u, one_s, one_v, rest in zip(matrices, u.get(), s.get(), v.get(), rests, strict=True):
            left = np.linalg.norm(wide(a) - wide(one_u).T * one_s @ wide(one_v).conj())
            wanted = np.linalg.norm(np.linalg.svd(wide(a), compute_uv=False)[rank:])
            assert_small(np.array([left - wanted, left - rest]), np.linalg.norm(a), letter)


def spectral_arguments_are_checked() -> None:
    a, w, work, found = Matrix(np.eye(4), 0), DeviceArray(np.zeros(4)), Workspace("D", 10000), ctypes.c_int()
    n, size = ctypes.c_byte(ord("N")), ctypes.c_int()
    low, high = reals("D", 2, 1)
    wrong: tuple[tuple[Any, ...], ...] = (
        ("Dsyevd_bufferSize", 2, 0, 4, a, 4, w, ctypes.byref(size)),
        ("Dsyevd_bufferSize", 1, 0, 4, a, 3, w, ctypes.byref(size)),
        ("Dsyevd", 1, 0, 4, a, 4, w, work, 3, SOLVER.info),
        ("Dsyevd", 1, 0, 4, a, 4, w, work, 10000, None),
        ("Dsyevdx", 1, BY_VALUE, 0, 4, a, 4, low, high, 0, 0, ctypes.byref(found), w, work, 10000, SOLVER.info),
        ("Dsyevdx", 1, BY_INDEX, 0, 4, a, 4, low, high, 0, 3, ctypes.byref(found), w, work, 10000, SOLVER.info),
        ("Dsygvd", 4, 1, 0, 4, a, 4, a, 4, w, work, 10000, SOLVER.info),
        ("Dgesvd_bufferSize", 3, 4, ctypes.byref(size)),
        ("Dgesvd", n, ctypes.c_byte(66), 4, 4, a, 4, w, a, 4, a, 4, work, 10000, None, SOLVER.info),
        ("Dgesvd", n, n, 4, 4, a, 4, w, a, 4, a, 4, work, 3, None, SOLVER.info),
    )
    for name, *arguments in wrong:
        assert SOLVER.status(name, *arguments) == INVALID_VALUE, name


CASES = {
    case.__name__: case
    for case in (
        eigenvalues_agree,
        equal_eigenvalues_agree,
        chosen_eigenvalues_agree,
        generalised_eigenvalues_agree,
        eigenvalues_by_rotations_agree,
        batches_of_eigenvalues_agree,
        singular_values_agree,
        jacobi_rotations_agree,
        too_few_sweeps_are_told,
        great_and_small_values_agree,
        batches_of_jacobi_rotations_agree,
        approximations_agree,
        spectral_arguments_are_checked,
    )
}
if __name__ == "__main__":
    main(CASES)
