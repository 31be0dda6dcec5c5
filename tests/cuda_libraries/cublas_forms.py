"""Other forms of cuBLAS's functions beside numpy's: types at run time, rotations, cublas.h, and cuBLASXt."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cublas import (
    BLAS,
    CUBLAS,
    INVALID_VALUE,
    NOT_INITIALIZED,
    NOT_SUPPORTED,
    REAL,
    TYPES,
    assert_close,
    bits_of,
    by_columns,
    numbers,
    operated,
    passed,
    values_of,
)
from tests.cuda_libraries.toolkit import DeviceArray, check, main

R_32F, R_64F, R_16F, C_32F, C_64F, R_16BF = 0, 1, 2, 4, 5, 14
KINDS: Final = {"S": R_32F, "D": R_64F, "C": C_32F, "Z": C_64F}
PRECISION: Final = {R_16F: 2**-10, R_16BF: 2**-7}

# ---- types at run time ----


def narrow_vectors_agree() -> None:
    for kind, n in itertools.product((R_16F, R_16BF), (1, 1000, 20001)):
        x, y = (values_of(kind, bits_of(kind, numbers("D", n) / n**0.5)) for _ in range(2))
        dx, dy = DeviceArray(bits_of(kind, x)), DeviceArray(bits_of(kind, y))
        to = bits_of(kind, np.zeros(1))
        limit = PRECISION[kind] * 4
        on_device = DeviceArray(to)
        for mode in (0, 1):
            BLAS("SetPointerMode_v2", mode)
            BLAS("DotEx", n, dx, kind, 1, dy, kind, -1, on_device if mode else to, kind, R_32F)
            got = values_of(kind, on_device.get() if mode else to)
            assert abs(got[0] - x @ y[::-1]) <= limit * (1 + abs(x @ y))
        BLAS("SetPointerMode_v2", 0)
        BLAS("Nrm2Ex", n, dx, kind, 1, to, kind, R_32F)
        assert abs(values_of(kind, to)[0] - np.linalg.norm(x)) <= limit * np.linalg.norm(x)
        BLAS("AxpyEx", n, np.float32(0.5), R_32F, dx, kind, 1, dy, kind, 1, R_32F)
        y = y + 0.5 * x
        assert np.max(np.abs(values_of(kind, dy.get()) - y)) <= limit * np.max(np.abs(y))
        cosine, sine = bits_of(kind, np.array([0.5])), bits_of(kind, np.array([0.75]))
        BLAS("RotEx", n, dx, kind, 1, dy, kind, 1, cosine, sine, kind, R_32F)
        assert np.max(np.abs(values_of(kind, dx.get()) - (0.5 * x + 0.75 * y))) <= limit * 4
        assert np.max(np.abs(values_of(kind, dy.get()) - (0.5 * y - 0.75 * x))) <= limit * 4
        before = values_of(kind, dx.get())
        BLAS("ScalEx", n, np.float32(2), R_32F, dx, kind, 1, R_32F)
        assert np.array_equal(values_of(kind, dx.get()), 2 * before)


def vectors_of_told_types_agree() -> None:
    n = 300
    for letter, kind in KINDS.items():
        real = KINDS["S" if letter in "SC" else "D"]
        x, y, alpha = numbers(letter, n), numbers(letter, n), numbers(letter, 1)[0]
        dx, dy, got = DeviceArray(x), DeviceArray(y), np.zeros(1, TYPES[letter])
        for name, wanted in (("DotEx", np.sum(x * y)), ("DotcEx", np.vdot(x, y))):
            BLAS(name, n, dx, kind, 1, dy, kind, 1, got, kind, kind)
            assert_close(got[0], wanted, n, TYPES[letter])
        norm = np.zeros(1, REAL[letter])
        BLAS("Nrm2Ex", n, dx, kind, 1, norm, real, real)
        assert_close(norm[0], np.linalg.norm(x), n, REAL[letter])
        BLAS("AxpyEx", n, alpha, kind, dx, kind, 1, dy, kind, 1, kind)
        BLAS("ScalEx", n, alpha, kind, dx, kind, 1, kind)
        assert_close(dy.get(), y + alpha * x, 1, TYPES[letter])
        assert_close(dx.get(), alpha * x, 1, TYPES[letter])
    assert BLAS.status("DotEx", n, dx, R_16F, 1, dy, R_32F, 1, got, R_32F, R_32F) == NOT_SUPPORTED
    assert BLAS.status("DotEx", n, dx, R_32F, 1, dy, R_32F, 1, None, R_32F, R_32F) == INVALID_VALUE


# ---- rotations ----


def rotations_are_made() -> None:
    for letter in "SDCZ":
        for a, b in ((3, 4), (-4, 3), (0, 2), (2, 0), (0, 0), (1e-3, -5)):
            factor = (1 + 2j) if letter in "CZ" else 1
            first, second = (np.array([value * factor], TYPES[letter]) for value in (a, b))
            given = np.array([first[0], second[0]])
            cosine, sine = np.zeros(1, REAL[letter]), np.zeros(1, TYPES[letter])
            BLAS(f"{letter}rotg_v2", first, second, cosine, sine)
            turned = np.array([[cosine[0], sine[0]], [-np.conj(sine[0]), cosine[0]]]) @ given
            assert_close(turned, np.array([first[0], 0]), 2, TYPES[letter])
            assert_close(cosine[0] ** 2 + abs(sine[0]) ** 2, 1, 2, REAL[letter])
            places = [DeviceArray(np.array([value], TYPES[letter])) for value in given]
            to = DeviceArray(np.zeros(1, REAL[letter])), DeviceArray(np.zeros(1, TYPES[letter]))
            BLAS("SetPointerMode_v2", 1)
            BLAS(f"{letter}rotg_v2", *places, *to)
            BLAS("SetPointerMode_v2", 0)
            assert_close(to[0].get(), cosine, 2, REAL[letter])
            assert_close(to[1].get(), sine, 2, TYPES[letter])


def matrix_of(parameters: NDArray[Any]) -> NDArray[Any]:
    """The matrix that rotm's parameters mean."""
    flag, h11, h21, h12, h22 = parameters
    forms: dict[int, list[list[Any]]] = {
        -2: [[1, 0], [0, 1]], -1: [[h11, h12], [h21, h22]], 0: [[1, h12], [h21, 1]], 1: [[h11, 1], [-1, h22]]
    }  # fmt: skip
    return np.array(forms[int(flag)], parameters.dtype)


def modified_rotations_agree() -> None:
    for letter, (d1, d2, x1, y1) in itertools.product(
        "SD", ((1, 2, 3, 4), (4, 1, 5, 2), (1, 1, 1, 0), (1e-9, 1, 1, 1e-6), (1e9, 1e9, 2, 3), (2, -1, 3, 1))
    ):
        made = [np.array([value], TYPES[letter]) for value in (d1, d2, x1, y1)]
        parameters = np.zeros(5, TYPES[letter])
        BLAS(f"{letter}rotmg_v2", *made, parameters)
        h = matrix_of(parameters).astype(np.float64)
        turned = h @ np.array([x1, y1], np.float64)
        assert abs(turned[1]) <= 1e-5 * max(1, abs(turned[0])), "not eliminated"
        assert_close(turned[0], float(made[2][0]), 4, TYPES[letter])
        before, after = np.diag([d1, d2]).astype(np.float64), np.diag([float(made[0][0]), float(made[1][0])])
        rest = h.T @ after @ h - before
        assert np.max(np.abs(rest)) <= 1e-5 * np.max(np.abs(before)), "another inner product"
        x, y = numbers(letter, 40), numbers(letter, 20)
        for mode in (0, 1):
            dx, dy = DeviceArray(x), DeviceArray(y)
            BLAS("SetPointerMode_v2", mode)
            BLAS(f"{letter}rotm_v2", 20, dx, -2, dy, 1, DeviceArray(parameters) if mode else parameters)
            BLAS("SetPointerMode_v2", 0)
            wanted = matrix_of(parameters) @ np.array([x[38::-2], y])
            assert_close(dx.get()[38::-2], wanted[0], 2, TYPES[letter])
            assert_close(dy.get(), wanted[1], 2, TYPES[letter])
            assert np.array_equal(dx.get()[1::2], x[1::2])


# ---- the functions of cublas.h ----


class Complex(ctypes.Structure):
    """cuComplex by value."""

    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float))


def functions_without_a_handle_agree() -> None:
    real, char = ctypes.c_float, ctypes.c_char
    CUBLAS.cublasSgemm(char(b"N"), char(b"N"), 1, 1, 1, real(1), None, 1, None, 1, real(0), None, 1)
    assert CUBLAS.cublasGetError() == NOT_INITIALIZED
    check(CUBLAS.cublasInit())
    a, b, c = numbers("S", 9, 5), numbers("S", 9, 7), numbers("S", 5, 7)
    da, db, dc = (DeviceArray(by_columns(one, len(one))) for one in (a, b, c))
    sides = (da.pointer, 9, db.pointer, 9, real(2), dc.pointer, 5)
    CUBLAS.cublasSgemm(char(b"t"), char(b"N"), 5, 7, 9, real(3), *sides)
    assert_close(dc.get().T, 3 * (a.T @ b) + 2 * c, 9, np.float32)
    x, y = numbers("C", 30), numbers("C", 30)
    dx, dy = DeviceArray(x), DeviceArray(y)
    CUBLAS.cublasCaxpy(30, Complex(1, 2), dx.pointer, 1, dy.pointer, 1)
    assert_close(dy.get(), y + (1 + 2j) * x, 1, np.complex64)
    CUBLAS.cublasCdotc.restype, CUBLAS.cublasScnrm2.restype = Complex, real
    got = CUBLAS.cublasCdotc(30, dx.pointer, 1, dx.pointer, 1)
    assert_close(complex(got.x, got.y), np.vdot(x, x), 30, np.complex64)
    assert_close(CUBLAS.cublasScnrm2(30, dx.pointer, 1), np.linalg.norm(x), 30, np.float32)
    assert CUBLAS.cublasGetError() == 0
    triangle = np.triu(numbers("S", 9, 9)) + 3 * np.eye(9, dtype=np.float32)
    dt, db = DeviceArray(by_columns(triangle, 9)), DeviceArray(by_columns(b, 9))
    form = tuple(map(char, (b"L", b"U", b"N", b"N")))
    CUBLAS.cublasStrmm(*form, 9, 7, real(1), dt.pointer, 9, db.pointer, 9)
    assert_close(db.get().T, triangle @ b, 9, np.float32)
    CUBLAS.cublasStrsm(*form, 9, 7, real(1), dt.pointer, 9, db.pointer, 9)
    assert_close(db.get().T, b, 90, np.float32)
    CUBLAS.cublasStrsm(char(b"X"), *form[1:], 9, 7, real(1), dt.pointer, 9, db.pointer, 9)
    assert CUBLAS.cublasGetError() == INVALID_VALUE
    memory = ctypes.c_void_p()
    check(CUBLAS.cublasAlloc(16, 4, ctypes.byref(memory)))
    check(CUBLAS.cublasFree(memory))
    check(CUBLAS.cublasShutdown())


# ---- matrices of the host's ----


def products_of_host_matrices_agree() -> None:
    handle = ctypes.c_void_p()
    check(CUBLAS.cublasXtCreate(ctypes.byref(handle)))
    size, devices = ctypes.c_size_t, (ctypes.c_int * 1)(0)
    check(CUBLAS.cublasXtDeviceSelect(handle, 1, devices))
    check(CUBLAS.cublasXtSetBlockDim(handle, 32))
    m, n, k = 70, 50, 65
    for letter, opa, opb in itertools.product("SDCZ", (0, 1, 2), (0, 1, 2)):
        a = numbers(letter, *((m, k) if opa == 0 else (k, m)))
        b = numbers(letter, *((k, n) if opb == 0 else (n, k)))
        c, (alpha, beta) = numbers(letter, m, n), numbers(letter, 2)
        beta = beta if opa else TYPES[letter](0)
        ha, hb, hc = by_columns(a, len(a)), by_columns(b, len(b)), by_columns(c if opa else c * np.nan, m + 1)
        wide = (passed(ha), size(len(a)), passed(hb), size(len(b)))
        function = getattr(CUBLAS, f"cublasXt{letter}gemm")
        check(
            function(
                handle, opa, opb, size(m), size(n), size(k), passed(alpha), *wide, passed(beta), passed(hc), size(m + 1)
            )
        )
        wanted = alpha * (operated(opa, a) @ operated(opb, b)) + (beta * c if opa else 0)
        assert_close(hc[:, :m].T, wanted, k, TYPES[letter])
        assert np.all(hc[:, m:] == 77)
    assert CUBLAS.cublasXtSetBlockDim(handle, 0) == INVALID_VALUE
    check(CUBLAS.cublasXtDestroy(handle))


CASES = {
    case.__name__: case
    for case in (
        narrow_vectors_agree,
        vectors_of_told_types_agree,
        rotations_are_made,
        modified_rotations_agree,
        functions_without_a_handle_agree,
        products_of_host_matrices_agree,
    )
}

if __name__ == "__main__":
    main(CASES)
