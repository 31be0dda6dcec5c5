"""cuSOLVER's 64-bit functions, and those with refinement, beside numpy's."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Final

import numpy as np

from tests.cuda_libraries.cusolver import (
    CUSOLVER,
    GUARD,
    INVALID_VALUE,
    LOWER,
    NOT_SUPPORTED,
    REAL,
    SOLVER,
    TYPES,
    UPPER,
    C,
    Matrix,
    N,
    T,
    assert_small,
    definite,
    numbers,
    operated,
    permuted,
    triangle,
    wide,
)
from tests.cuda_libraries.toolkit import DeviceArray, check, main

DATA: Final[dict[str, int]] = {"S": 0, "D": 1, "C": 4, "Z": 5}
REAL_DATA: Final[dict[str, int]] = {"S": 0, "D": 1, "C": 0, "Z": 1}
N_OR_A = {job: ctypes.c_byte(ord(job)) for job in "NASO"}


def long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def created_parameters() -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    check(CUSOLVER.cusolverDnCreateParams(ctypes.byref(made)))
    return made


def run(name: str, *arguments: Any, sized: tuple[Any, ...] | None = None) -> None:
    """Calls a function with the workspaces that it asks for, and looks at the guard behind them."""
    device, host = ctypes.c_size_t(99), ctypes.c_size_t(99)
    size = arguments if sized is None else sized
    SOLVER(f"{name}_bufferSize", *size, ctypes.byref(device), ctypes.byref(host))
    work = DeviceArray(np.full(device.value + GUARD, 0x5A, np.uint8))
    of_host = ctypes.create_string_buffer(host.value + 1)
    SOLVER(name, *arguments, work, device, of_host, host, SOLVER.info)
    assert np.all(work.get()[-GUARD:] == 0x5A), "written behind the workspace"


def linear_systems_agree() -> None:
    parameters = created_parameters()
    check(CUSOLVER.cusolverDnSetAdvOptions(parameters, 0, 1))
    for letter, n in itertools.product("SDCZ", (5, 90)):
        kind, b = DATA[letter], numbers(letter, n, 3)
        for fill in (LOWER, UPPER):
            a = definite(letter, n)
            da, db = Matrix(a), Matrix(b)
            run("Xpotrf", parameters, fill, long(n), kind, da, long(da.ld), kind)
            assert SOLVER.get_info() == 0
            right = (kind, db, long(db.ld), SOLVER.info)
            SOLVER("Xpotrs", parameters, fill, long(n), long(3), kind, da, long(da.ld), *right)
            assert_small(a @ wide(db.get()) - b, np.abs(b).max() * np.linalg.cond(a), letter)
        a = numbers(letter, n, n)
        da, pivots = Matrix(a), DeviceArray(np.zeros(n, np.int64))
        size = (parameters, long(n), long(n), kind, da, long(da.ld))
        run("Xgetrf", *size, pivots, kind, sized=(*size, kind))
        got = wide(da.get())
        assert_small((np.tril(got, -1) + np.eye(n)) @ np.triu(got) - permuted(a, pivots.get()), a, letter)
        for op in (N, T, C):
            db = Matrix(b)
            end = (pivots, kind, db, long(db.ld), SOLVER.info)
            SOLVER("Xgetrs", parameters, op, long(n), long(3), kind, da, long(da.ld), *end)
            x = wide(db.get())
            assert_small(operated(op, wide(a)) @ x - b, n * np.abs(a).max() * np.abs(x).max(), letter)
    check(CUSOLVER.cusolverDnDestroyParams(parameters))


def spectra_agree() -> None:
    parameters = created_parameters()
    for letter, (m, n) in itertools.product("SDCZ", ((30, 30), (50, 20))):
        kind, real = DATA[letter], REAL_DATA[letter]
        a = numbers(letter, m, n)
        scale = np.linalg.norm(a)
        da, tau = Matrix(a), DeviceArray(np.zeros(n, TYPES[letter]))
        run("Xgeqrf", parameters, long(m), long(n), kind, da, long(da.ld), kind, tau, kind)
        assert_small(np.abs(np.triu(da.get())[:n]) - np.abs(np.linalg.qr(wide(a))[1]), scale, letter)
        da, u, vt = Matrix(a), Matrix(np.zeros((m, m), a.dtype)), Matrix(np.zeros((n, n), a.dtype))
        s = DeviceArray(np.zeros(n, REAL[letter]))
        sides = (real, s, kind, u, long(u.ld), kind, vt, long(vt.ld), kind)
        run("Xgesvd", parameters, N_OR_A["A"], N_OR_A["S"], long(m), long(n), kind, da, long(da.ld), *sides)
        assert_small(wide(u.get())[:, :n] * s.get() @ wide(vt.get()) - a, scale, letter)
        h = a[:n] + a[:n].conj().T
        da, w = Matrix(h), DeviceArray(np.zeros(n, REAL[letter]))
        run("Xsyevd", parameters, 1, LOWER, long(n), kind, da, long(da.ld), real, w, kind)
        v = wide(da.get())
        assert_small(h @ v - v * w.get(), np.linalg.norm(h), letter)
    check(CUSOLVER.cusolverDnDestroyParams(parameters))


def spectra_of_batches_agree() -> None:
    parameters, count, n = created_parameters(), 3, 12
    for letter in "SDCZ":
        kind, real = DATA[letter], REAL_DATA[letter]
        each = [numbers(letter, n, n) for _ in range(count)]
        each = [h + h.conj().T for h in each]
        da = DeviceArray(np.array([h.T for h in each]))
        w, info = DeviceArray(np.zeros((count, n), REAL[letter])), DeviceArray(np.full(count, 9, np.int32))
        sizes = ctypes.c_size_t(), ctypes.c_size_t()
        left = (parameters, 1, LOWER, long(n), kind, da, long(n), real, w, kind)
        SOLVER("XsyevBatched_bufferSize", *left, *map(ctypes.byref, sizes), long(count))
        work = DeviceArray(np.zeros(max(sizes[0].value, 1), np.uint8))
        SOLVER("XsyevBatched", *left, work, sizes[0], None, sizes[1], info, long(count))
        assert not info.get().any()
        for h, lines, values in zip(each, da.get(), w.get(), strict=True):
            v = wide(lines.T)
            assert_small(h @ v - v * values, np.linalg.norm(h), letter)


def absent_functions_are_named() -> None:
    for name in ("Xgeev", "Xgeev_bufferSize", "Xsytrs", "Xsytrs_bufferSize"):
        assert SOLVER.status(name) == NOT_SUPPORTED


def triangles_are_inverted() -> None:
    for letter, n, fill, unit in itertools.product("SDCZ", (1, 5, 90), (LOWER, UPPER), (0, 1)):
        a = numbers(letter, n, n) / n + np.eye(n, dtype=TYPES[letter])
        da = Matrix(a)
        run("Xtrtri", fill, unit, long(n), DATA[letter], da, long(da.ld))
        assert SOLVER.get_info() == 0
        full = wide(triangle(fill, a))
        if unit:
            np.fill_diagonal(full, 1)
        inverse = np.linalg.inv(full)
        if unit:
            np.fill_diagonal(inverse, np.diag(a))
        wanted = np.where(triangle(fill, np.ones((n, n))) != 0, inverse, a)
        assert_small(da.get() - wanted, np.abs(inverse).max() * np.linalg.cond(full), letter)
    da = Matrix(np.diag([1.0, 2, 0, 0]))
    run("Xtrtri", LOWER, 0, long(4), 1, da, long(da.ld))
    assert SOLVER.get_info() == 3


REFINED = ["SS", "SH", "SB", "SX", "DD", "DS", "DH", "DB", "DX", "CC", "CK", "CE", "CY", "ZZ", "ZC", "ZK", "ZE", "ZY"]


def refined_systems_agree() -> None:
    for name, (m, n, nrhs) in itertools.product(REFINED, ((40, 40, 1), (70, 40, 9))):
        letter, rounds, size = name[0], ctypes.c_int(99), ctypes.c_size_t()
        a, b = numbers(letter, m, n), numbers(letter, m, nrhs)
        da, db, dx = Matrix(a), Matrix(b), Matrix(np.zeros((n, nrhs), a.dtype))
        pivots = DeviceArray(np.zeros(n, np.int32))
        left: tuple[Any, ...] = (m, n, nrhs, da, da.ld) if m > n else (n, nrhs, da, da.ld, pivots)
        arguments = (*left, db, db.ld, dx, dx.ld)
        function = f"{name}gels" if m > n else f"{name}gesv"
        SOLVER(f"{function}_bufferSize", *arguments, None, ctypes.byref(size))
        work = DeviceArray(np.full(size.value + GUARD, 0x5A, np.uint8))
        SOLVER(function, *arguments, work, size, ctypes.byref(rounds), SOLVER.info)
        assert (SOLVER.get_info(), rounds.value) == (0, 0)
        assert np.all(work.get()[-GUARD:] == 0x5A), "written behind the workspace"
        assert np.array_equal(da.get(), a)
        wanted = np.linalg.lstsq(wide(a), wide(b), rcond=None)[0]
        assert_small(dx.get() - wanted, np.abs(wanted).max() * np.linalg.cond(a) ** 2, letter)


def mixed_types_are_refused() -> None:
    parameters, a = created_parameters(), Matrix(np.eye(4))
    sizes = ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t())
    for kind, compute in ((1, 0), (2, 2), (0, 1)):
        status = SOLVER.status("Xpotrf_bufferSize", parameters, 0, long(4), kind, a, long(7), compute, *sizes)
        assert status == INVALID_VALUE
    status = SOLVER.status("Xpotrf_bufferSize", parameters, 0, long(4), 1, a, long(3), 1, *sizes)
    assert status == INVALID_VALUE


CASES = {
    case.__name__: case
    for case in (
        linear_systems_agree,
        spectra_agree,
        spectra_of_batches_agree,
        absent_functions_are_named,
        triangles_are_inverted,
        refined_systems_agree,
        mixed_types_are_refused,
    )
}
if __name__ == "__main__":
    main(CASES)
