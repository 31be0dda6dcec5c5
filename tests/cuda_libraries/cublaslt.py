"""cuBLASLt's products, epilogues and transforms beside numpy's."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cublas import (
    BLAS,
    INVALID_VALUE,
    NOT_INITIALIZED,
    NOT_SUPPORTED,
    bits_of,
    passed,
    values_of,
)
from tests.cuda_libraries.toolkit import DeviceArray, check, library, main

LT = library("libcublasLt.so.12")
R_32F, R_64F, R_16F, R_8I, C_32F, R_32I, R_16BF = 0, 1, 2, 3, 4, 10, 14
E4M3, E5M2 = 28, 29
OF_16F, OF_32F, OF_64F, OF_32I = 64, 68, 70, 72
COLUMNS, ROWS = 0, 1
ORDER, COUNT, JUMP = 1, 5, 6
POINTER_MODE, OPA, OPB, EPILOGUE, BIAS, AUX, AUX_LD, A_SCALE, D_SCALE = 2, 3, 4, 7, 8, 11, 12, 17, 20
DEFAULT, RELU, WITH_BIAS, GELU, WITH_AUX, DGELU = 1, 2, 4, 32, 128, 192
RANDOM = np.random.default_rng(6)


class Descriptor:
    """A descriptor of cuBLASLt, destroyed with its last reference."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        self.kind, self.handle = kind, ctypes.c_void_p()
        check(getattr(LT, f"cublasLt{kind}Create")(ctypes.byref(self.handle), *arguments))

    def __del__(self) -> None:
        getattr(LT, f"cublasLt{self.kind}Destroy")(self.handle)

    def set(self, which: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        check(getattr(LT, f"cublasLt{self.kind}SetAttribute")(self.handle, which, ctypes.byref(value), size))


class Handle:
    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        check(LT.cublasLtCreate(ctypes.byref(self.handle)))

    def matmul(self, how: Descriptor, *operands: Any) -> int:
        """The status of D = alpha A B + beta C; operands: alpha, A, B, beta, C and D."""
        alpha, a, b, beta, c, d = operands
        sides = [x for side in (a, b) for x in (side.device.pointer, side.layout.handle)]
        ends = [x for side in (c, d) for x in (side.device.pointer, side.layout.handle)]
        arguments = (how.handle, passed(alpha), *sides, passed(beta), *ends, None, None, ctypes.c_size_t(0), None)
        return int(LT.cublasLtMatmul(self.handle, *arguments))


class Side:
    """A matrix, or a batch of them, on the device as a layout tells, two elements wider than needed."""

    def __init__(self, kind: int, values: NDArray[Any], order: int = COLUMNS) -> None:
        self.kind, self.order = kind, order
        self.count, self.rows, self.columns = values.shape
        lines = values if order == ROWS else np.swapaxes(values, 1, 2)
        self.width = lines.shape[2]
        wide = np.concatenate([lines, np.full((*lines.shape[:2], 2), 7)], axis=2)
        self.device = DeviceArray(to_bits(kind, wide))
        size, ld = ctypes.c_uint64, self.width + 2
        self.layout = Descriptor("MatrixLayout", kind, size(self.rows), size(self.columns), ctypes.c_int64(ld))
        self.layout.set(ORDER, ctypes.c_int32(order))
        self.layout.set(COUNT, ctypes.c_int32(self.count))
        self.layout.set(JUMP, ctypes.c_int64(wide[0].size))

    def values(self) -> NDArray[Any]:
        wide = self.device.get()
        got = wide if self.kind == C_32F else values_of(self.kind, wide)
        assert np.all(got[:, :, self.width :] == 7), "written behind the rows"
        lines = got[:, :, : self.width]
        return lines if self.order == ROWS else np.swapaxes(lines, 1, 2)


def to_bits(kind: int, values: NDArray[Any]) -> NDArray[Any]:
    other = {R_64F: np.float64, C_32F: np.complex64}
    if kind in {E4M3, E5M2}:
        return values.astype(np.uint8)
    return values.astype(other[kind]) if kind in other else bits_of(kind, values)


LTHANDLE = Handle()
# in, out, compute, scale, and the type of factors
KINDS: Final[tuple[tuple[int, int, int, int, Any], ...]] = (
    (R_32F, R_32F, OF_32F, R_32F, np.float32),
    (R_16F, R_16F, OF_32F, R_32F, np.float32),
    (R_16F, R_16F, OF_16F, R_16F, np.float16),
    (R_16F, R_32F, OF_32F, R_32F, np.float32),
    (R_16BF, R_16BF, OF_32F, R_32F, np.float32),
    (R_16BF, R_32F, OF_32F, R_32F, np.float32),
    (R_64F, R_64F, OF_64F, R_64F, np.float64),
    (R_8I, R_32I, OF_32I, R_32I, np.int32),
    (R_8I, R_8I, OF_32I, R_32F, np.float32),
    (C_32F, C_32F, OF_32F, C_32F, np.complex64),
)
PRECISION: Final = {R_16F: 2**-10, R_16BF: 2**-7, R_32F: 1e-6, R_64F: 1e-14, C_32F: 1e-6}


def small(*shape: int) -> NDArray[Any]:
    """Whole numbers, which all types represent exactly."""
    return RANDOM.integers(-3, 4, shape)


def assert_close(kind: int, got: NDArray[Any], wanted: NDArray[Any]) -> None:
    assert np.all(np.abs(got - wanted) <= PRECISION.get(kind, 0) * (1 + np.abs(wanted))), (kind, got - wanted)


def operated(op: int, matrices: NDArray[Any]) -> NDArray[Any]:
    return {0: matrices, 1: np.swapaxes(matrices, 1, 2), 2: np.swapaxes(matrices, 1, 2).conj()}[op]


def description(compute: int, scale: int, **attributes: Any) -> Descriptor:
    made = Descriptor("MatmulDesc", compute, scale)
    for name, value in attributes.items():
        made.set(globals()[name], value)
    return made


def products_agree() -> None:
    m, n, k = 20, 9, 13
    for (kind, out, compute, scale, factor), opa, opb, count in itertools.product(KINDS, (0, 1, 2), (0, 1), (1, 3)):
        order = ((opa + count) % 2, (opb + count // 3) % 2, (opa + opb) % 2)
        a = small(count, *((m, k) if opa == 0 else (k, m)))
        b, c = small(count, *((k, n) if opb == 0 else (n, k))), small(count, m, n)
        if kind == C_32F:
            a = a + 1j * small(*a.shape)
        sides = (Side(kind, a, order[0]), Side(kind, b, order[1]))
        dc, dd = Side(out, c, order[2]), Side(out, c * 0, order[2])
        how = description(compute, scale, OPA=ctypes.c_int32(opa), OPB=ctypes.c_int32(opb))
        check(LTHANDLE.matmul(how, factor(2), *sides, factor(-1), dc, dd))
        wanted = 2 * (operated(opa, a) @ operated(opb, b)) - c
        assert_close(out, dd.values(), np.clip(wanted, -128, 127) if out == R_8I else wanted)
        check(LTHANDLE.matmul(how, factor(1), *sides, factor(0), dd, dd))
        wanted = operated(opa, a) @ operated(opb, b)
        assert_close(out, dd.values(), np.clip(wanted, -128, 127) if out == R_8I else wanted)


EXPONENT_BITS: Final = {E4M3: 4, E5M2: 5}


def eight_bits(kind: int, bits: NDArray[Any]) -> NDArray[Any]:
    """The numbers of bytes, none of which is infinite or none at all."""
    exponent, width = EXPONENT_BITS[kind], 7 - EXPONENT_BITS[kind]
    fraction, power = bits & ((1 << width) - 1), bits >> width & ((1 << exponent) - 1)
    scaled = np.where(power == 0, fraction * 2.0, fraction + 2.0**width) * 2.0 ** (power.astype(float) - width)
    made: NDArray[Any] = np.where(bits & 128, -1, 1) * scaled / 2.0 ** (2 ** (exponent - 1) - 1)
    return made


def eight_bit_products_agree() -> None:
    """E4M3 with E4M3 and E5M2: every number there is, batches, both orders, scales and a bias."""
    m, n, k = 20, 24, 32
    pairs = ((E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3))
    for (of_a, of_b), out, order, count in itertools.product(pairs, (R_16F, R_16BF, R_32F), (COLUMNS, ROWS), (1, 2)):
        sides, values = [], []
        for kind, shape in ((of_a, (count, k, m)), (of_b, (count, k, n))):
            bits = RANDOM.integers(0, 0x78 if kind == E4M3 else 0x50, shape) | RANDOM.integers(0, 2, shape) << 7
            sides.append(Side(kind, bits, order))
            values.append(eight_bits(kind, bits))
        c, bias = small(count, m, n), small(m)
        dc, dd, db = Side(out, c), Side(out, c * 0), DeviceArray(bits_of(out, bias))
        scales = [DeviceArray(np.array([by], np.float32)) for by in (2**-6, 2**-4)]
        how = description(
            OF_32F,
            R_32F,
            OPA=ctypes.c_int32(1),
            EPILOGUE=ctypes.c_uint32(WITH_BIAS),
            BIAS=db.pointer,
            A_SCALE=scales[0].pointer,
        )
        how.set(A_SCALE + 1, scales[1].pointer)
        check(LTHANDLE.matmul(how, np.float32(2), *sides, np.float32(-1), dc, dd))
        product = 2.0**-9 * (operated(1, values[0]) @ values[1])
        size = 2.0**-9 * (operated(1, np.abs(values[0])) @ np.abs(values[1]))  # sums may cancel
        assert np.all(
            np.abs(dd.values() - (product - c + bias[:, None])) <= PRECISION[out] * (10 + np.abs(product)) + 1e-5 * size
        )
    narrow = [Side(E5M2, RANDOM.integers(0, 9, (1, 16, 16))) for _ in range(2)]
    ends = [Side(R_32F, small(1, 16, 16)) for _ in range(2)]
    for refused in (narrow, [Side(E4M3, small(1, 16, 16) + 3), Side(R_16F, small(1, 16, 16))]):
        how = description(OF_32F, R_32F)
        assert LTHANDLE.matmul(how, np.float32(1), *refused, np.float32(0), *ends) == NOT_SUPPORTED


def gelu(x: NDArray[Any]) -> NDArray[Any]:
    made: NDArray[Any] = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return made


def epilogues_agree() -> None:
    m, n, k = 70, 9, 5
    for kind, order, flags in itertools.product(
        (R_32F, R_16F, R_16BF),
        (COLUMNS, ROWS),
        (RELU, GELU, WITH_BIAS, RELU | WITH_BIAS, GELU | WITH_BIAS, GELU | WITH_AUX),
    ):
        a, b, bias = small(1, m, k), small(1, k, n), small(m)
        dbias, aux = DeviceArray(to_bits(kind, bias)), DeviceArray(to_bits(kind, np.zeros((n, m))))
        how = description(OF_32F, R_32F, EPILOGUE=ctypes.c_uint32(flags), BIAS=dbias.pointer, AUX=aux.pointer)
        how.set(AUX_LD, ctypes.c_int64(m))
        d = Side(kind, np.zeros((1, m, n)), order)
        check(LTHANDLE.matmul(how, np.float32(0.25), Side(kind, a), Side(kind, b), np.float32(0), d, d))
        x = 0.25 * (a @ b) + (bias[:, None] if flags & WITH_BIAS else 0)
        if flags & WITH_AUX:
            assert_close(kind, values_of(kind, aux.get()).T[None], x)
        assert_close(kind, d.values(), np.maximum(x, 0) if flags & RELU else gelu(x) if flags & GELU else x)


def gradients_of_gelu_agree() -> None:
    m, n, k = 12, 9, 5
    a, b, x = small(1, m, k), small(1, k, n), RANDOM.standard_normal((1, m, n))
    aux = DeviceArray(np.ascontiguousarray(np.swapaxes(x, 1, 2)).astype(np.float32))
    how = description(OF_32F, R_32F, EPILOGUE=ctypes.c_uint32(DGELU), AUX=aux.pointer, AUX_LD=ctypes.c_int64(m))
    d = Side(R_32F, np.zeros((1, m, n)))
    check(LTHANDLE.matmul(how, np.float32(1), Side(R_32F, a), Side(R_32F, b), np.float32(0), d, d))
    slope = (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6
    assert np.max(np.abs(d.values() - slope * (a @ b))) < 1e-4


def factors_and_scales_on_the_device_are_read_there() -> None:
    m, n, k = 12, 9, 5
    a, b, c = small(1, m, k), small(1, k, n), small(1, m, n)
    sides = (Side(R_32F, a), Side(R_32F, b))
    one = [DeviceArray(np.array([value], np.float32)) for value in (3, 2, 0.5, 4)]
    alphas, betas = (DeviceArray(np.arange(m).astype(np.float32) + start) for start in (0, 1))
    rows = np.arange(m)[:, None]
    product = a @ b
    for mode, alpha, beta, wanted in (
        (1, one[0], one[1], 3 * product + 2 * c),
        (2, alphas, betas, rows * product + (rows + 1) * c),
        (3, alphas, None, rows * product),
        (4, alphas, np.float32(2), rows * product + 2 * c),
    ):
        d = Side(R_32F, c)
        how = description(OF_32F, R_32F, POINTER_MODE=ctypes.c_int32(mode))
        check(LTHANDLE.matmul(how, alpha, *sides, beta, d, d))
        assert_close(R_32F, d.values(), wanted)
    d = Side(R_32F, c)
    how = description(OF_32F, R_32F, A_SCALE=one[2].pointer, D_SCALE=one[3].pointer)
    check(LTHANDLE.matmul(how, np.float32(1), *sides, np.float32(1), d, d))
    assert_close(R_32F, d.values(), 4 * (0.5 * product + c))


def heuristics_find_an_algorithm() -> None:
    a = Side(R_32F, small(1, 8, 8))
    preference, how = Descriptor("MatmulPreference"), description(OF_32F, R_32F)
    found, count = (ctypes.c_uint64 * 24)(), ctypes.c_int(9)
    layouts = [a.layout.handle] * 4
    arguments = (LTHANDLE.handle, how.handle, *layouts, preference.handle, 2, found, ctypes.byref(count))
    check(LT.cublasLtMatmulAlgoGetHeuristic(*arguments))
    assert count.value == 1
    how.set(EPILOGUE, ctypes.c_uint32(RELU | WITH_AUX))
    assert LT.cublasLtMatmulAlgoGetHeuristic(*arguments) == NOT_SUPPORTED
    assert count.value == 0


def algorithms_are_made_and_checked() -> None:
    a = Side(R_32F, small(1, 8, 8))
    made, found = (ctypes.c_uint64 * 8)(), (ctypes.c_uint64 * 12)()
    kinds = (OF_32F, R_32F, R_32F, R_32F, R_32F, R_32F)
    assert LT.cublasLtMatmulAlgoInit(LTHANDLE.handle, *kinds, 77, made) == INVALID_VALUE
    check(LT.cublasLtMatmulAlgoInit(LTHANDLE.handle, *kinds, 1, made))
    how, layouts = description(OF_32F, R_32F), [a.layout.handle] * 4
    check(LT.cublasLtMatmulAlgoCheck(LTHANDLE.handle, how.handle, *layouts, made, found))
    how.set(EPILOGUE, ctypes.c_uint32(RELU | WITH_AUX))
    assert LT.cublasLtMatmulAlgoCheck(LTHANDLE.handle, how.handle, *layouts, made, found) == NOT_SUPPORTED
    tile, size = ctypes.c_uint32(5), ctypes.c_size_t(4)
    check(LT.cublasLtMatmulAlgoConfigSetAttribute(made, 1, ctypes.byref(tile), size))
    tile.value = 0
    check(LT.cublasLtMatmulAlgoConfigGetAttribute(made, 1, ctypes.byref(tile), size, None))
    assert tile.value == 5
    assert LT.cublasLtMatmulAlgoConfigSetAttribute(made, 0, ctypes.byref(tile), size) == INVALID_VALUE


def handles_of_cublas_serve() -> None:
    """A handle of cuBLAS is passed in the place of one of cuBLASLt; its stream and modes stay as they are."""
    own, lt = LTHANDLE.handle, Handle()
    try:
        lt.handle = BLAS.handle
        a, b, d = (Side(R_32F, small(1, 8, 8)) for _ in range(3))
        check(lt.matmul(description(OF_32F, R_32F), np.float32(1), a, b, np.float32(0), d, d))
        assert_close(R_32F, d.values(), a.values() @ b.values())
    finally:
        lt.handle = own


def transforms_agree() -> None:
    a, b = small(2, 20, 9), small(2, 9, 20)
    types = (
        (R_32F, R_32F, np.float32),
        (R_16F, R_32F, np.float32),
        (R_8I, R_32F, np.float32),
        (R_32I, R_32I, np.int32),
    )
    for (kind, scale, factor), order in itertools.product(types, itertools.product((COLUMNS, ROWS), repeat=3)):
        sides = (Side(kind, a, order[0]), Side(kind, b, order[1]), Side(kind, a * 0, order[2]))
        how = Descriptor("MatrixTransformDesc", scale)
        how.set(3, ctypes.c_int32(1))
        pairs = [(side.device.pointer, side.layout.handle) for side in sides]
        factors = [passed(factor(value)) for value in (2, 3)]
        check(LT.cublasLtMatrixTransform(
            LTHANDLE.handle, how.handle, factors[0], *pairs[0], factors[1], *pairs[1], *pairs[2], None
        ))  # fmt: skip
        assert_close(kind, sides[2].values(), 2 * a + 3 * np.swapaxes(b, 1, 2))


def attributes_are_kept() -> None:
    layout = Descriptor("MatrixLayout", R_32F, ctypes.c_uint64(3), ctypes.c_uint64(4), ctypes.c_int64(5))
    rows, written = ctypes.c_uint64(), ctypes.c_size_t()
    read = LT.cublasLtMatrixLayoutGetAttribute
    check(read(layout.handle, 2, ctypes.byref(rows), ctypes.c_size_t(8), ctypes.byref(written)))
    assert (rows.value, written.value) == (3, 8)
    assert read(layout.handle, 2, ctypes.byref(rows), ctypes.c_size_t(4), None) == INVALID_VALUE
    assert read(layout.handle, 99, ctypes.byref(rows), ctypes.c_size_t(8), None) == INVALID_VALUE
    wide = ctypes.byref(rows)
    assert LT.cublasLtMatrixLayoutSetAttribute(layout.handle, 1, wide, ctypes.c_size_t(8)) == INVALID_VALUE


def wrong_arguments_are_refused() -> None:
    a, b, wide = Side(R_32F, small(1, 8, 8)), Side(R_32F, small(1, 8, 8)), Side(R_32F, small(1, 8, 9))
    how, one = description(OF_32F, R_32F), np.float32(1)
    assert LTHANDLE.matmul(how, one, a, b, one, wide, wide) == INVALID_VALUE
    assert LTHANDLE.matmul(how, None, a, b, one, a, a) == INVALID_VALUE
    assert LTHANDLE.matmul(description(OF_32I, R_32I), one, a, b, one, a, a) == NOT_SUPPORTED
    assert LTHANDLE.matmul(how, one, a, b, one, a, Side(R_16F, small(1, 8, 8))) == NOT_SUPPORTED
    without = description(OF_32F, R_32F, EPILOGUE=ctypes.c_uint32(WITH_BIAS))
    assert LTHANDLE.matmul(without, one, a, b, one, a, a) == INVALID_VALUE
    assert LT.cublasLtDestroy(None) == NOT_INITIALIZED


CASES = {
    case.__name__: case
    for case in (
        products_agree,
        eight_bit_products_agree,
        epilogues_agree,
        gradients_of_gelu_agree,
        factors_and_scales_on_the_device_are_read_there,
        heuristics_find_an_algorithm,
        algorithms_are_made_and_checked,
        handles_of_cublas_serve,
        transforms_agree,
        attributes_are_kept,
        wrong_arguments_are_refused,
    )
}

if __name__ == "__main__":
    main(CASES)
