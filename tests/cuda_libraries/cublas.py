"""cuBLAS's functions beside numpy's."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.toolkit import RUNTIME, DeviceArray, check, library, main

CUBLAS = library("libcublas.so.12")
TYPES: Final[dict[str, Any]] = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
REAL: Final[dict[str, Any]] = {"S": np.float32, "D": np.float64, "C": np.float32, "Z": np.float64}
NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 1, 7, 15
RANDOM = np.random.default_rng(5)
KEPT: list[NDArray[Any]] = []


def passed(value: Any) -> Any:
    """An argument as C takes it: arrays of the device and numpy's scalars by address."""
    if isinstance(value, DeviceArray):
        return value.pointer
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, np.generic):
        KEPT.append(np.array(value))
        return ctypes.c_void_p(KEPT[-1].ctypes.data)
    return value


class Handle:
    """A cuBLAS handle; functions by their names, scalars by numpy values."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        check(CUBLAS.cublasCreate_v2(ctypes.byref(self.handle)))

    def status(self, name: str, *arguments: Any) -> int:
        return int(getattr(CUBLAS, f"cublas{name}")(self.handle, *map(passed, arguments)))

    def __call__(self, name: str, *arguments: Any) -> None:
        status = self.status(name, *arguments)
        assert status == 0, f"cublas{name}: status {status}"


BLAS = Handle()


def numbers(letter: str, *shape: int) -> NDArray[Any]:
    made = RANDOM.standard_normal(shape)
    if letter in "CZ":
        made = made + 1j * RANDOM.standard_normal(shape)
    return made.astype(TYPES[letter])


def by_columns(matrix: NDArray[Any], ld: int) -> NDArray[Any]:
    """The matrix as BLAS has it: columns behind each other, `ld` numbers apart; as an array of (columns, ld)."""
    laid = np.full((matrix.shape[1], ld), 77, matrix.dtype)
    laid[:, : matrix.shape[0]] = matrix.T
    return laid


def assert_close(got: Any, wanted: Any, length: int, dtype: Any) -> None:
    """Sums of `length` products of numbers of size 1."""
    bound = np.finfo(dtype).eps * (8 + 4 * length**0.5) * max(1.0, float(np.max(np.abs(wanted), initial=0)))
    worst = float(np.max(np.abs(np.asarray(got) - wanted), initial=0))
    assert worst <= bound, (worst, bound)


def operated(op: int, matrix: NDArray[Any]) -> NDArray[Any]:
    return {0: matrix, 1: matrix.T, 2: matrix.T.conj(), 3: matrix.conj()}[op]


# ---- vectors ----


def elements(n: int, step: int) -> slice:
    """Where BLAS's vector of `n` elements lies in an array."""
    return slice(0, (n - 1) * step + 1, step) if step > 0 else slice((n - 1) * -step, None, step)


def check_vectors(letter: str, n: int, incx: int, incy: int, suffix: str) -> None:
    dtype = TYPES[letter]
    size = ctypes.c_int64 if suffix.endswith("64") else ctypes.c_int
    x, y = numbers(letter, n * abs(incx)), numbers(letter, n * abs(incy))
    at_x, at_y = elements(n, incx), elements(n, incy)
    alpha = numbers(letter, 1)[0]
    dx, dy = DeviceArray(x), DeviceArray(y)
    both = (size(n), dx, size(incx), dy, size(incy))
    BLAS(f"{letter}axpy{suffix}", size(n), alpha, *both[1:])
    y[at_y] += alpha * x[at_x]
    assert_close(dy.get(), y, 1, dtype)
    kinds = ("dot", "dot") if letter in "SD" else ("dotu", "dotc")
    for kind, wanted in zip(kinds, (np.sum(x[at_x] * y[at_y]), np.vdot(x[at_x], y[at_y])), strict=True):
        got = np.zeros(1, dtype)
        BLAS(f"{letter}{kind}{suffix}", *both, got)
        assert_close(got[0], wanted, n, dtype)
    BLAS(f"{letter}swap{suffix}", *both)
    x[at_x], y[at_y] = y[at_y].copy(), x[at_x].copy()
    BLAS(f"{letter}scal{suffix}", size(n), alpha, dy, size(abs(incy)))
    y[elements(n, abs(incy))] *= alpha
    assert_close(dx.get(), x, 1, dtype)
    assert_close(dy.get(), y, 1, dtype)
    check_sums(letter, suffix, dx, x[elements(n, abs(incx))], abs(incx))
    BLAS(f"{letter}copy{suffix}", *both)
    y[at_y] = x[at_x]
    assert_close(dy.get(), y, 1, dtype)


def check_sums(letter: str, suffix: str, device: DeviceArray, x: NDArray[Any], step: int) -> None:
    size = ctypes.c_int64 if suffix.endswith("64") else ctypes.c_int
    real = REAL[letter]
    prefix = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}[letter]
    sizes = np.abs(x.real) + np.abs(x.imag) if letter in "CZ" else np.abs(x)
    vector = (size(len(x)), device, size(step))
    got = np.zeros(1, real)
    BLAS(f"{prefix}nrm2{suffix}", *vector, got)
    assert_close(got[0], np.linalg.norm(x), 1, real)
    BLAS(f"{prefix}asum{suffix}", *vector, got)
    assert_close(got[0], np.sum(sizes.astype(np.float64)), len(x), real)
    at = np.zeros(1, np.int64)
    BLAS(f"I{letter.lower()}amax{suffix}", *vector, at)
    assert at[0] == np.argmax(sizes) + 1
    BLAS(f"I{letter.lower()}amin{suffix}", *vector, at)
    assert at[0] == np.argmin(sizes) + 1


def vectors_agree() -> None:
    for letter, suffix in itertools.product("SDCZ", ("_v2", "_v2_64")):
        for n, incx, incy in ((1, 1, 1), (1000, 1, 1), (3001, 3, -2), (70001, -1, 2)):
            check_vectors(letter, n, incx, incy, suffix)


def norms_neither_overflow_nor_vanish() -> None:
    for letter, size in (("S", 1e30), ("S", 1e-30), ("D", 1e200), ("D", 1e-200)):
        got = np.zeros(1, TYPES[letter])
        BLAS(f"{letter}nrm2_v2", 1000, DeviceArray(np.full(1000, size, TYPES[letter])), 1, got)
        assert abs(got[0] / size - 1000**0.5) < 1e-4


def results_go_where_the_pointer_mode_says() -> None:
    x = numbers("S", 5000)
    dx, to, alpha = DeviceArray(x), DeviceArray(np.zeros(1, np.float32)), DeviceArray(np.array([2], np.float32))
    at = DeviceArray(np.zeros(2, np.int32))
    BLAS("SetPointerMode_v2", 1)
    try:
        BLAS("Sasum_v2", 5000, dx, 1, to)
        BLAS("Isamax_v2", 5000, dx, 1, at)
        BLAS("Sscal_v2", 5000, alpha, dx, 1)
    finally:
        BLAS("SetPointerMode_v2", 0)
    assert_close(to.get()[0], np.sum(np.abs(x)), 5000, np.float32)
    assert list(at.get()) == [np.argmax(np.abs(x)) + 1, 0]
    assert_close(dx.get(), 2 * x, 1, np.float32)


def rotations_agree() -> None:
    for letter, form in (("S", "S"), ("D", "D"), ("C", "C"), ("Z", "Z"), ("C", "Cs"), ("Z", "Zd")):
        x, y = numbers(letter, 300), numbers(letter, 300)
        cosine = REAL[letter](0.6)
        sine = TYPES[letter](0.8j) if form in "CZ" else REAL[letter](0.8)
        dx, dy = DeviceArray(x), DeviceArray(y)
        BLAS(f"{form}rot_v2", 300, dx, 1, dy, 1, cosine, sine)
        assert_close(dx.get(), cosine * x + sine * y, 1, TYPES[letter])
        assert_close(dy.get(), cosine * y - np.conj(sine) * x, 1, TYPES[letter])


# ---- products of matrices ----


def check_gemm(letter: str, ops: tuple[int, int], sizes: tuple[int, int, int], alpha: Any, beta: Any) -> None:
    (opa, opb), (m, n, k) = ops, sizes
    a = numbers(letter, *((m, k) if opa in {0, 3} else (k, m)))
    b = numbers(letter, *((k, n) if opb in {0, 3} else (n, k)))
    c = numbers(letter, m, n)
    lda, ldb, ldc = a.shape[0] + 3, b.shape[0] + 1, m + 2
    da, db = DeviceArray(by_columns(a, lda)), DeviceArray(by_columns(b, ldb))
    dc = DeviceArray(by_columns(c if beta != 0 else c * np.nan, ldc))
    BLAS(f"{letter}gemm_v2", opa, opb, m, n, k, alpha, da, lda, db, ldb, beta, dc, ldc)
    wanted = alpha * (operated(opa, a) @ operated(opb, b))
    if beta != 0:
        wanted = wanted + beta * c
    got = dc.get()
    assert_close(got[:, :m].T, wanted, k, TYPES[letter])
    assert np.all(got[:, m:] == 77), "behind the rows"


def gemm_agrees() -> None:
    sizes = ((1, 1, 1), (3, 5, 7), (64, 16, 64), (130, 70, 90), (200, 33, 257), (9, 300, 120))
    for letter, size in itertools.product("SDCZ", sizes):
        for opa, opb in itertools.product((0, 1, 2, 3), (0, 1, 2, 3)):
            alpha, beta = numbers(letter, 2)
            check_gemm(letter, (opa, opb), size, alpha, beta if (opa + opb) % 2 else TYPES[letter](0))


def batches_agree() -> None:
    for letter, (m, n, k), count in itertools.product("SDCZ", ((4, 4, 4), (130, 70, 90)), (1, 5)):
        a, b, c = numbers(letter, count, k, m), numbers(letter, count, n, k), numbers(letter, count, n, m)
        alpha, beta = numbers(letter, 2)
        wanted = alpha * (b @ a) + beta * c
        da, db, dc = DeviceArray(a), DeviceArray(b), DeviceArray(c)
        ja, jb, jc = (ctypes.c_longlong(size) for size in (k * m, n * k, n * m))
        arguments = (0, 0, m, n, k, alpha, da, m, ja, db, k, jb, beta, dc, m, jc, count)
        BLAS(f"{letter}gemmStridedBatched", *arguments)
        assert_close(dc.get(), wanted, k, TYPES[letter])
        dc = DeviceArray(c)
        ta, tb, tc = (
            DeviceArray(np.array([one.pointer.value + z * one.host[0].nbytes for z in range(count)], np.uint64))
            for one in (da, db, dc)
        )
        BLAS(f"{letter}gemmBatched", 0, 0, m, n, k, alpha, ta, m, tb, k, beta, tc, m, count)
        assert_close(dc.get(), wanted, k, TYPES[letter])


# ---- products of types told at run time ----

R_32F, R_16F, R_8I, R_32I, R_16BF = 0, 2, 3, 10, 14
OF_16F, OF_32F, OF_32I = 64, 68, 72


def bits_of(kind: int, values: NDArray[Any]) -> NDArray[Any]:
    """Values as the device has them; numpy knows no bfloat16."""
    if kind == R_16BF:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({R_32F: np.float32, R_16F: np.float16, R_8I: np.int8, R_32I: np.int32}[kind])


def values_of(kind: int, bits: NDArray[Any]) -> NDArray[Any]:
    if kind == R_16BF:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.astype(np.float64)


def mixed_products_agree() -> None:
    combinations = (
        (R_16F, R_16F, OF_16F), (R_16F, R_16F, OF_32F), (R_16F, R_32F, OF_32F), (R_16BF, R_16BF, OF_32F),
        (R_16BF, R_32F, OF_32F), (R_8I, R_32F, OF_32F), (R_8I, R_32I, OF_32I), (R_32F, R_32F, OF_32F),
    )  # fmt: skip
    for (kind, out, compute), (m, n, k) in itertools.product(combinations, ((5, 6, 7), (130, 70, 90))):
        a, b, c = (RANDOM.integers(-4, 5, size) for size in ((k, m), (n, k), (n, m)))  # exact in all types
        scale = {OF_16F: np.float16, OF_32F: np.float32, OF_32I: np.int32}[compute]
        da, db, dc = DeviceArray(bits_of(kind, a)), DeviceArray(bits_of(kind, b)), DeviceArray(bits_of(out, c))
        product = (0, 0, m, n, k, scale(1), da, kind, m, db, kind, k, scale(2), dc, out, m, compute, -1)
        BLAS("GemmEx", *product)
        wanted = (b @ a + 2 * c).astype(np.float64)
        precision = {R_16F: 2**-11, R_16BF: 2**-8}.get(out, 0)
        assert np.all(np.abs(values_of(out, dc.get()) - wanted) <= precision * np.abs(wanted)), (kind, out, m)
    assert BLAS.status("GemmEx", *product[:-2], 99, -1) == NOT_SUPPORTED


def half_batches_agree() -> None:
    a, b, c = (RANDOM.integers(-4, 5, (3, 8, 8)).astype(np.float16) for _ in range(3))
    da, db, dc = DeviceArray(a), DeviceArray(b), DeviceArray(c)
    tables = [
        DeviceArray(np.array([(one.pointer.value or 0) + z * 128 for z in range(3)], np.uint64)) for one in (da, db, dc)
    ]
    one, two, jump = np.float16(1), np.float16(2), ctypes.c_longlong(64)
    BLAS("HgemmBatched", 0, 0, 8, 8, 8, one, tables[0], 8, tables[1], 8, two, tables[2], 8, 3)
    wanted = b @ a + 2 * c
    assert np.array_equal(dc.get(), wanted)
    BLAS("HgemmStridedBatched", 0, 0, 8, 8, 8, one, da, 8, jump, db, 8, jump, two, dc, 8, jump, 3)
    assert np.array_equal(dc.get(), b @ a + 2 * wanted)


# ---- matrices with vectors, and triangles ----


def matrices_with_vectors_agree() -> None:
    for letter, (m, n), op in itertools.product("SDCZ", ((1, 1), (70, 33), (5, 200)), (0, 1, 2)):
        a, alpha, beta = numbers(letter, m, n), *numbers(letter, 2)
        rows, columns = (m, n) if op == 0 else (n, m)
        x, y = numbers(letter, columns), numbers(letter, rows * 2)
        da, dx, dy = DeviceArray(by_columns(a, m + 1)), DeviceArray(x), DeviceArray(y)
        BLAS(f"{letter}gemv_v2", op, m, n, alpha, da, m + 1, dx, -1, beta, dy, 2)
        y[::2] = alpha * (operated(op, a) @ x[::-1]) + beta * y[::2]
        assert_close(dy.get(), y, columns, TYPES[letter])
    for letter, kind in (("S", ""), ("D", ""), ("C", "u"), ("C", "c"), ("Z", "u"), ("Z", "c")):
        a, x, y, alpha = numbers(letter, 70, 33), numbers(letter, 70), numbers(letter, 33), numbers(letter, 1)[0]
        da = DeviceArray(by_columns(a, 70))
        BLAS(f"{letter}ger{kind}_v2", 70, 33, alpha, DeviceArray(x), 1, DeviceArray(y), 1, da, 70)
        wanted = a + alpha * np.outer(x, y.conj() if kind == "c" else y)
        assert_close(da.get().T, wanted, 1, TYPES[letter])


def sums_of_matrices_and_diagonals_agree() -> None:
    for letter, opa, opb in itertools.product("SDCZ", (0, 1, 2), (0, 1, 2)):
        m, n = 70, 33
        a = numbers(letter, *((m, n) if opa == 0 else (n, m)))
        b = numbers(letter, *((m, n) if opb == 0 else (n, m)))
        (alpha, beta), dc = numbers(letter, 2), DeviceArray(numbers(letter, n, m))
        da, db = DeviceArray(by_columns(a, len(a))), DeviceArray(by_columns(b, len(b)))
        BLAS(f"{letter}geam", opa, opb, m, n, alpha, da, len(a), beta, db, len(b), dc, m)
        assert_close(dc.get().T, alpha * operated(opa, a) + beta * operated(opb, b), 1, TYPES[letter])
    for side in (0, 1):
        a, x, dc = numbers("Z", 9, 5), numbers("Z", (9, 5)[side]), DeviceArray(numbers("Z", 5, 9))
        BLAS("Zdgmm", side, 9, 5, DeviceArray(by_columns(a, 9)), 9, DeviceArray(x), 1, dc, 9)
        assert_close(dc.get().T, np.diag(x) @ a if side == 0 else a @ np.diag(x), 1, np.complex128)


def triangles_are_solved() -> None:
    for letter, side, fill, op, unit, (m, n) in itertools.product(
        "SDCZ", (0, 1), (0, 1), (0, 1, 2), (0, 1), ((40, 23), (200, 150))
    ):
        size = (m, n)[side]
        full = numbers(letter, size, size) / size + 2 * np.eye(size, dtype=TYPES[letter])
        triangle = np.tril(full) if fill == 0 else np.triu(full)
        if unit:
            np.fill_diagonal(triangle, 1)
        b, alpha = numbers(letter, m, n), numbers(letter, 1)[0]
        da, db = DeviceArray(by_columns(full.astype(TYPES[letter]), size)), DeviceArray(by_columns(b, m + 2))
        BLAS(f"{letter}trsm_v2", side, fill, op, unit, m, n, alpha, da, size, db, m + 2)
        got, matrix = db.get()[:, :m].T, operated(op, triangle)
        assert_close(matrix @ got if side == 0 else got @ matrix, alpha * b, size, TYPES[letter])
        x = numbers(letter, size)
        dx = DeviceArray(x)
        BLAS(f"{letter}trsv_v2", fill, op, unit, size, da, size, dx, 1)
        assert_close(matrix @ dx.get(), x, size, TYPES[letter])


# ---- handles ----


def wrong_arguments_are_refused() -> None:
    x = DeviceArray(numbers("S", 64))
    one = np.float32(1)
    assert CUBLAS.cublasSscal_v2(None, 1, passed(one), x.pointer, 1) == NOT_INITIALIZED
    assert CUBLAS.cublasCreate_v2(None) == INVALID_VALUE
    assert BLAS.status("Sscal_v2", 8, None, x, 1) == INVALID_VALUE
    assert BLAS.status("Sgemm_v2", 0, 0, -1, 4, 4, one, x, 4, x, 4, one, x, 4) == INVALID_VALUE
    assert BLAS.status("Sgemm_v2", 0, 0, 4, 4, 4, one, x, 3, x, 4, one, x, 4) == INVALID_VALUE
    assert BLAS.status("Sgemm_v2", 7, 0, 4, 4, 4, one, x, 4, x, 4, one, x, 4) == INVALID_VALUE
    assert BLAS.status("SetPointerMode_v2", 5) == INVALID_VALUE
    mode = ctypes.c_int(9)
    BLAS("GetPointerMode_v2", ctypes.byref(mode))
    assert mode.value == 0
    CUBLAS.cublasGetStatusName.restype = ctypes.c_char_p
    assert CUBLAS.cublasGetStatusName(INVALID_VALUE) == b"CUBLAS_STATUS_INVALID_VALUE"


def work_is_done_in_the_stream_of_the_handle() -> None:
    stream, x = ctypes.c_void_p(), DeviceArray(np.ones(1000, np.float32))
    check(RUNTIME.cudaStreamCreate(ctypes.byref(stream)))
    BLAS("SetStream_v2", stream)
    try:
        got = ctypes.c_void_p()
        BLAS("GetStream_v2", ctypes.byref(got))
        assert got.value == stream.value
        for _ in range(10):
            BLAS("Sscal_v2", 1000, np.float32(2), x, 1)
        total = np.zeros(1, np.float32)
        BLAS("Sasum_v2", 1000, x, 1, total)
        assert total[0] == 1024000
    finally:
        BLAS("SetStream_v2", None)
        check(RUNTIME.cudaStreamDestroy(stream))


def transfers_skip_what_lies_between() -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    device = DeviceArray(np.zeros((3, 6), np.float32))
    check(CUBLAS.cublasSetMatrix(4, 3, 4, passed(matrix), 4, device.pointer, 6))
    assert np.array_equal(device.get()[:, :4], matrix)
    back = np.zeros((3, 5), np.float32)
    check(CUBLAS.cublasGetMatrix(4, 3, 4, device.pointer, 6, passed(back), 5))
    assert np.array_equal(back[:, :4], matrix)
    check(CUBLAS.cublasSetVector(6, 4, passed(matrix), 2, device.pointer, 3))
    assert np.array_equal(device.get().ravel()[::3], matrix.ravel()[::2])
    assert CUBLAS.cublasSetVector(6, 4, passed(matrix), 0, device.pointer, 3) == INVALID_VALUE


CASES = {
    case.__name__: case
    for case in (
        vectors_agree,
        norms_neither_overflow_nor_vanish,
        results_go_where_the_pointer_mode_says,
        rotations_agree,
        gemm_agrees,
        batches_agree,
        mixed_products_agree,
        half_batches_agree,
        matrices_with_vectors_agree,
        sums_of_matrices_and_diagonals_agree,
        triangles_are_solved,
        wrong_arguments_are_refused,
        work_is_done_in_the_stream_of_the_handle,
        transfers_skip_what_lies_between,
    )
}

if __name__ == "__main__":
    main(CASES)
