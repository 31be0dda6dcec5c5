"""cuFFT's transforms beside numpy's."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.toolkit import DeviceArray, check, library, main

CUFFT = library("libcufft.so.11")
R2C, C2R, C2C, D2Z, Z2D, Z2Z = 0x2A, 0x2C, 0x29, 0x6A, 0x6C, 0x69
FORWARD, INVERSE = -1, 1
INVALID_PLAN, INVALID_TYPE, INVALID_VALUE, INVALID_SIZE, NO_WORKSPACE, NOT_SUPPORTED = 1, 3, 4, 8, 13, 16
RANDOM = np.random.default_rng(7)


def ints(values: tuple[int, ...]) -> Any:
    return (ctypes.c_int * len(values))(*values)


def plan_of(kind: int, shape: tuple[int, ...], batch: int = 1) -> ctypes.c_int:
    plan = ctypes.c_int()
    check(CUFFT.cufftPlanMany(ctypes.byref(plan), len(shape), ints(shape), None, 1, 0, None, 1, 0, kind, batch))
    return plan


def complexes(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    return (RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)).astype(dtype)


def assert_close(got: NDArray[Any], wanted: NDArray[Any], size: int) -> None:
    """The error of the whole beside its norm: a few units of the last place times the logarithm of the size."""
    ulp = np.finfo(got.dtype).eps
    error = np.linalg.norm((got - wanted).ravel()) / np.linalg.norm(wanted.ravel())
    assert error < 1.5 * ulp * (1 + math.log2(size)), (error / ulp, size)


def check_complex(shape: tuple[int, ...], batch: int = 1, *, double: bool = False, in_place: bool = False) -> None:
    kind, dtype, execute = (
        (Z2Z, np.complex128, CUFFT.cufftExecZ2Z) if double else (C2C, np.complex64, CUFFT.cufftExecC2C)
    )
    plan = plan_of(kind, shape, batch)
    data = complexes((batch, *shape), dtype)
    axes = tuple(range(1, len(shape) + 1))
    size = math.prod(shape)
    source = DeviceArray(data)
    target = source if in_place else DeviceArray(np.zeros_like(data))
    check(execute(plan, source.pointer, target.pointer, FORWARD))
    assert_close(target.get(), np.fft.fftn(data.astype(np.complex128), axes=axes), size)
    check(execute(plan, target.pointer, target.pointer, INVERSE))
    assert_close(target.get() / size, data, size * size)
    check(CUFFT.cufftDestroy(plan))


def check_real(shape: tuple[int, ...], batch: int = 1, *, double: bool = False, in_place: bool = False) -> None:
    real, pair = (np.float64, np.complex128) if double else (np.float32, np.complex64)
    forward, backward = (D2Z, Z2D) if double else (R2C, C2R)
    to_pairs = CUFFT.cufftExecD2Z if double else CUFFT.cufftExecR2C
    to_reals = CUFFT.cufftExecZ2D if double else CUFFT.cufftExecC2R
    data = RANDOM.standard_normal((batch, *shape)).astype(real)
    axes, size = tuple(range(1, len(shape) + 1)), math.prod(shape)
    wanted = np.fft.rfftn(data.astype(np.float64), axes=axes)
    there, back = plan_of(forward, shape, batch), plan_of(backward, shape, batch)
    if in_place:
        padded = np.zeros((*data.shape[:-1], 2 * (shape[-1] // 2 + 1)), real)
        padded[..., : shape[-1]] = data
        target = source = DeviceArray(padded)
    else:
        source, target = DeviceArray(data), DeviceArray(np.zeros(wanted.shape, pair))
    check(to_pairs(there, source.pointer, target.pointer))
    assert_close(target.get().view(pair), wanted, size)
    result = target if in_place else DeviceArray(np.zeros_like(data))
    check(to_reals(back, target.pointer, result.pointer))
    assert_close(result.get()[..., : shape[-1]] / size, data, size * size)


def every_size() -> None:
    for n in [*range(1, 41), 49, 64, 100, 121, 127, 128, 131, 210, 243, 256, 257, 1000, 1024, 1331, 2047, 2048, 2049]:
        check_complex((n,), 3)


def double_sizes() -> None:
    for n in [1, 2, 7, 60, 131, 997, 1024, 1025, 1920, 4096, 10007]:
        check_complex((n,), 2, double=True, in_place=n % 2 == 0)


def long_lines() -> None:
    for n in [4096, 6561, 10000, 65536, 65537, 262144, 1 << 20]:
        check_complex((n,), in_place=n == 10000)
    check_complex((101 * 103 * 107,))  # three levels
    check_complex((47 * 53 * 59,), double=True)
    check_real((100_000,))
    check_real((65537,), in_place=True)


def dimensions() -> None:
    check_complex((16, 24))
    check_complex((5, 131), 2, in_place=True)
    check_complex((4, 6, 10), 3)
    check_complex((3, 4097), double=True)
    check_complex((4099, 3), in_place=True)


def reals() -> None:
    for in_place in (False, True):
        for shape in ((1,), (2,), (9,), (10,), (131,), (4096,), (6, 8), (5, 7), (3, 4, 5)):
            check_real(shape, 2, in_place=in_place)
        check_real((4, 9), 3, double=True, in_place=in_place)


def strides() -> None:
    """Interleaved signals, rows with gaps, and a layout that changes in place."""
    data = complexes((16, 5), np.complex64)  # 5 signals of 16 points, side by side
    wanted = np.fft.fft(data, axis=0)
    plan, source, target = ctypes.c_int(), DeviceArray(data), DeviceArray(np.zeros((5, 16), np.complex64))
    check(CUFFT.cufftPlanMany(ctypes.byref(plan), 1, ints((16,)), ints((16,)), 5, 1, ints((16,)), 1, 16, C2C, 5))
    check(CUFFT.cufftExecC2C(plan, source.pointer, target.pointer, FORWARD))
    assert_close(target.get(), wanted.T, 16)
    check(CUFFT.cufftExecC2C(plan, source.pointer, source.pointer, FORWARD))
    assert_close(source.get().reshape(5, 16), wanted.T, 16)
    image = complexes((2, 6, 9), np.complex64)  # of which 6 x 8 are transformed, to rows of 11
    source, target = DeviceArray(image), DeviceArray(np.full((2, 7, 11), 5, np.complex64))
    check(CUFFT.cufftPlanMany(ctypes.byref(plan), 2, ints((6, 8)), ints((6, 9)), 1, 54, ints((7, 11)), 1, 77, C2C, 2))
    check(CUFFT.cufftExecC2C(plan, source.pointer, target.pointer, INVERSE))
    got = target.get()
    assert_close(got[:, :6, :8], np.fft.ifft2(image[:, :, :8]) * 48, 48)
    assert (got[:, 6:] == 5).all()
    assert (got[:, :, 8:] == 5).all()
    samples = RANDOM.standard_normal((10, 4)).astype(np.float32)  # reals, interleaved, in place
    room = np.zeros((12, 4), np.float32)
    room[:10] = samples
    both = DeviceArray(room)
    check(CUFFT.cufftPlanMany(ctypes.byref(plan), 1, ints((10,)), ints((10,)), 4, 1, ints((6,)), 4, 1, R2C, 4))
    check(CUFFT.cufftExecR2C(plan, both.pointer, both.pointer))
    assert_close(both.get().view(np.complex64).reshape(6, 4), np.fft.rfft(samples, axis=0), 10)


def work_areas() -> None:
    plan, size = ctypes.c_int(), ctypes.c_size_t()
    check(CUFFT.cufftCreate(ctypes.byref(plan)))
    check(CUFFT.cufftSetAutoAllocation(plan, 0))
    check(CUFFT.cufftMakePlan1d(plan, 8192, C2C, 1, ctypes.byref(size)))
    data = complexes((8192,), np.complex64)
    both = DeviceArray(data)
    assert CUFFT.cufftExecC2C(plan, both.pointer, both.pointer, FORWARD) == NO_WORKSPACE
    area, same = DeviceArray(np.zeros(size.value, np.uint8)), ctypes.c_size_t()
    check(CUFFT.cufftGetSize(plan, ctypes.byref(same)))
    check(CUFFT.cufftEstimate1d(8192, C2C, 1, ctypes.byref(size)))
    assert same.value == size.value == 8 * 8192
    check(CUFFT.cufftSetWorkArea(plan, area.pointer))
    check(CUFFT.cufftExecC2C(plan, both.pointer, both.pointer, FORWARD))
    assert_close(both.get(), np.fft.fft(data), 8192)


def extended() -> None:
    plan, size = ctypes.c_int(), ctypes.c_size_t()
    check(CUFFT.cufftCreate(ctypes.byref(plan)))
    shape, one = (ctypes.c_longlong * 1)(30), ctypes.c_longlong(1)
    c64, r32, c16 = 4, 0, 6
    make = CUFFT.cufftXtMakePlanMany
    common = plan, 1, shape, None, one, one
    assert make(*common, c16, None, one, one, c64, one, ctypes.byref(size), c16) == NOT_SUPPORTED
    assert make(*common, r32, None, one, one, r32, one, ctypes.byref(size), c64) == NOT_SUPPORTED
    check(make(*common, r32, None, one, one, c64, one, ctypes.byref(size), c64))
    data = RANDOM.standard_normal(30).astype(np.float32)
    source, target = DeviceArray(data), DeviceArray(np.zeros(16, np.complex64))
    check(CUFFT.cufftXtExec(plan, source.pointer, target.pointer, FORWARD))
    assert_close(target.get(), np.fft.rfft(data), 30)


def narrow(values: NDArray[Any], bits: NDArray[Any] | None = None) -> NDArray[Any]:
    """Numbers as bfloat16's bits, a pair of each complex one; or those of `bits`."""
    if bits is not None:
        singles = (bits.astype(np.uint32) << 16).view(np.float32)
        return singles.view(np.complex64) if np.iscomplexobj(values) else singles
    whole = values.view(np.float32).view(np.uint32)
    return ((whole + 0x7FFF + (whole >> 16 & 1)) >> 16).astype(np.uint16)


def halve(values: NDArray[Any], bits: NDArray[Any] | None = None) -> NDArray[Any]:
    """Numbers as half precision's bits, a pair of each complex one; or those of `bits`."""
    if bits is not None:
        singles = bits.view(np.float16).astype(np.float32)
        return singles.view(np.complex64) if np.iscomplexobj(values) else singles
    return values.view(np.float32).astype(np.float16).view(np.uint16)


def check_narrow(pack: Any, ulp: float, types: tuple[int, int], shape: tuple[int, ...], batch: int) -> None:
    """There and back, from complex numbers and from reals; complex numbers come back in place."""
    real, pair = types
    axes, count = tuple(range(1, len(shape) + 1)), math.prod(shape)
    sizes, one, work = (ctypes.c_longlong * len(shape))(*shape), ctypes.c_longlong(1), ctypes.c_size_t()
    for first in (pair, real):
        data = complexes((batch, *shape), np.complex64) if first == pair else RANDOM.random((batch, *shape), np.float32)
        data = np.ascontiguousarray(pack(data, pack(data)))
        wanted = np.fft.fftn(data, axes=axes) if first == pair else np.fft.rfftn(data, axes=axes)
        source, target = DeviceArray(pack(data)), DeviceArray(pack(wanted.astype(np.complex64)) * 0)
        for kinds, ends, there in (
            ((first, pair), (source, target), wanted),
            ((pair, first), (target, target if first == pair else source), data * count),
        ):
            plan = ctypes.c_int()
            check(CUFFT.cufftCreate(ctypes.byref(plan)))
            make = (plan, len(shape), sizes, None, one, one, kinds[0], None, one, one, kinds[1])
            check(CUFFT.cufftXtMakePlanMany(*make, ctypes.c_longlong(batch), ctypes.byref(work), pair))
            direction = FORWARD if there is wanted else INVERSE
            check(CUFFT.cufftXtExec(plan, ends[0].pointer, ends[1].pointer, direction))
            assert CUFFT.cufftExecC2C(plan, source.pointer, source.pointer, FORWARD) == INVALID_TYPE
            error = np.linalg.norm((pack(there, ends[1].get()) - there).ravel()) / np.linalg.norm(there.ravel())
            assert error < ulp * (1 + len(shape)), (error / ulp, shape, kinds)
            check(CUFFT.cufftDestroy(plan))


def half_precision() -> None:
    for shape, batch in (((64,), 3), ((100,), 2), ((8, 12), 2), ((4097,), 1), ((4, 6, 10), 1)):
        check_narrow(halve, 2**-11, (2, 6), shape, batch)


def bfloat_precision() -> None:
    for shape, batch in (((64,), 3), ((131,), 2), ((6, 8), 2)):
        check_narrow(narrow, 2**-8, (14, 15), shape, batch)


def errors() -> None:
    plan, data = ctypes.c_int(), DeviceArray(np.zeros(8, np.complex64))
    assert CUFFT.cufftPlan1d(ctypes.byref(plan), 0, C2C, 1) == INVALID_SIZE
    assert CUFFT.cufftPlan1d(ctypes.byref(plan), 8, 99, 1) == INVALID_TYPE
    assert CUFFT.cufftPlan1d(None, 8, C2C, 1) == INVALID_VALUE
    assert (
        CUFFT.cufftPlanMany(ctypes.byref(plan), 4, ints((2, 2, 2, 2)), None, 1, 0, None, 1, 0, C2C, 1) == INVALID_VALUE
    )
    check(CUFFT.cufftPlan1d(ctypes.byref(plan), 8, C2C, 1))
    assert CUFFT.cufftExecC2C(plan, data.pointer, None, FORWARD) == INVALID_VALUE
    assert CUFFT.cufftExecC2C(plan, data.pointer, data.pointer, 0) == INVALID_VALUE
    assert CUFFT.cufftExecR2C(plan, data.pointer, data.pointer) == INVALID_TYPE
    assert CUFFT.cufftMakePlan1d(plan, 8, C2C, 1, None) == INVALID_PLAN
    check(CUFFT.cufftDestroy(plan))
    assert CUFFT.cufftDestroy(plan) == INVALID_PLAN
    assert CUFFT.cufftExecC2C(plan, data.pointer, data.pointer, FORWARD) == INVALID_PLAN


CASES = {
    case.__name__: case
    for case in (
        every_size,
        double_sizes,
        long_lines,
        dimensions,
        reals,
        strides,
        work_areas,
        extended,
        half_precision,
        bfloat_precision,
        errors,
    )
}
if __name__ == "__main__":
    main(CASES)
