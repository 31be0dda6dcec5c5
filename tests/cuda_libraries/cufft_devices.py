"""cuFFT's plans with descriptors of data, on all devices that the guest has, beside numpy."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.cuda_libraries.cufft import (
    C2C,
    C2R,
    CUFFT,
    FORWARD,
    INVALID_PLAN,
    INVALID_SIZE,
    INVALID_TYPE,
    INVALID_VALUE,
    INVERSE,
    NOT_SUPPORTED,
    R2C,
    Z2Z,
    assert_close,
    complexes,
    ints,
)
from tests.cuda_libraries.toolkit import RUNTIME, TO_HOST, DeviceArray, check, main

INVALID_DEVICE = 11
IN_PLACE, SHUFFLED = 2, 3
FROM_HOST, BACK_TO_HOST, BETWEEN = 0, 1, 2
COUNT = ctypes.c_int()
check(RUNTIME.cudaGetDeviceCount(ctypes.byref(COUNT)))
DEVICES = tuple(range(COUNT.value))


class Parts(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("count", ctypes.c_int),
        ("devices", ctypes.c_int * 64),
        ("data", ctypes.c_void_p * 64),
        ("size", ctypes.c_size_t * 64),
        ("state", ctypes.c_void_p),
    ]


class Descriptor(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("parts", ctypes.POINTER(Parts)),
        ("library", ctypes.c_int),
        ("format", ctypes.c_int),
        ("rest", ctypes.c_void_p),
    ]


def plan_of(kind: int, shape: tuple[int, ...], batch: int = 1) -> ctypes.c_int:
    plan, sizes = ctypes.c_int(), (ctypes.c_size_t * len(DEVICES))(*[9] * len(DEVICES))
    check(CUFFT.cufftCreate(ctypes.byref(plan)))
    check(CUFFT.cufftXtSetGPUs(plan, len(DEVICES), ints(DEVICES)))
    check(CUFFT.cufftMakePlanMany(plan, len(shape), ints(shape), None, 1, 0, None, 1, 0, kind, batch, sizes))
    assert 9 not in sizes[:]
    return plan


def descriptor(plan: ctypes.c_int, data: NDArray[Any] | None = None) -> Any:
    made = ctypes.POINTER(Descriptor)()
    check(CUFFT.cufftXtMalloc(plan, ctypes.byref(made), IN_PLACE))
    if data is not None:
        check(CUFFT.cufftXtMemcpy(plan, made, ctypes.c_void_p(data.ctypes.data), FROM_HOST))
    return made


def fetched(plan: ctypes.c_int, made: Any, like: NDArray[Any]) -> NDArray[Any]:
    got = np.zeros_like(like)
    check(CUFFT.cufftXtMemcpy(plan, ctypes.c_void_p(got.ctypes.data), made, BACK_TO_HOST))
    return got


def parts(made: Any, dtype: Any) -> list[NDArray[Any]]:
    """Copies of the parts, device by device."""
    here = made.contents.parts.contents
    arrays = [np.zeros(here.size[i] // np.dtype(dtype).itemsize, dtype) for i in range(here.count)]
    for i, array in enumerate(arrays):
        place, bytes_there = ctypes.c_void_p(here.data[i]), ctypes.c_size_t(array.nbytes)
        check(RUNTIME.cudaMemcpy(ctypes.c_void_p(array.ctypes.data), place, bytes_there, TO_HOST))
    return arrays


def there_and_back() -> None:
    for kind, dtype, execute in (
        (C2C, np.complex64, CUFFT.cufftXtExecDescriptorC2C),
        (Z2Z, np.complex128, CUFFT.cufftXtExecDescriptorZ2Z),
    ):
        for shape, batch in (((64,), 1), ((101,), 1), ((5, 7), 1), ((4, 6, 10), 1), ((32,), 5), ((3, 4), 2)):
            plan, data = plan_of(kind, shape, batch), complexes((batch, *shape), dtype)
            axes, size = tuple(range(1, len(shape) + 1)), math.prod(shape)
            made, other = descriptor(plan, data), descriptor(plan)
            check(execute(plan, made, made, FORWARD))
            assert_close(fetched(plan, made, data), np.fft.fftn(data, axes=axes), size)
            check(CUFFT.cufftXtMemcpy(plan, other, made, BETWEEN))
            assert other.contents.format == IN_PLACE
            assert_close(np.concatenate(parts(other, dtype)).reshape(data.shape), np.fft.fftn(data, axes=axes), size)
            for spectrum in (other, made):  # in its natural order, and as the transform left it
                check(execute(plan, spectrum, spectrum, INVERSE))
                assert_close(fetched(plan, spectrum, data) / size, data, size * size)
                check(CUFFT.cufftXtFree(spectrum))
            check(CUFFT.cufftDestroy(plan))


def shuffled_parts() -> None:
    """Each device has a part of the second dimension after a transform, and of the first one before."""
    shape = (6, 5, 4)
    plan, data = plan_of(C2C, shape), complexes(shape, np.complex64)
    made, wanted = descriptor(plan, data), np.fft.fftn(data)
    natural = np.array_split(data, len(DEVICES))
    assert all((got == there.ravel()).all() for got, there in zip(parts(made, np.complex64), natural, strict=True))
    check(CUFFT.cufftXtExecDescriptor(plan, made, made, FORWARD))
    assert made.contents.format == SHUFFLED
    shuffled = np.array_split(wanted, len(DEVICES), axis=1)
    for got, there in zip(parts(made, np.complex64), shuffled, strict=True):
        assert_close(got, there.ravel(), 120)
    other = descriptor(plan)
    check(CUFFT.cufftXtExecDescriptor(plan, made, other, INVERSE))
    assert other.contents.format == IN_PLACE
    assert_close(fetched(plan, other, data) / 120, data, 120)


def reals() -> None:
    """Rows of reals leave room for their results, on the host, too."""
    shape = (6, 5, 8)
    there, back = plan_of(R2C, shape), plan_of(C2R, shape)
    data = np.zeros((6, 5, 10), np.float32)
    data[..., :8] = np.random.default_rng(3).random(shape, np.float32)
    made = descriptor(there, data)
    check(CUFFT.cufftXtExecDescriptorR2C(there, made, made))
    assert_close(fetched(there, made, data).view(np.complex64), np.fft.rfftn(data[..., :8]), 240)
    check(CUFFT.cufftXtExecDescriptorC2R(back, made, made))
    assert_close(fetched(back, made, data)[..., :8] / 240, data[..., :8], 240)


def errors() -> None:
    plan, size = ctypes.c_int(), (ctypes.c_size_t * 16)()
    check(CUFFT.cufftCreate(ctypes.byref(plan)))
    assert CUFFT.cufftXtSetGPUs(plan, 0, ints((0,))) == INVALID_VALUE
    assert CUFFT.cufftXtSetGPUs(plan, 1, ints((len(DEVICES),))) == INVALID_DEVICE
    assert CUFFT.cufftXtSetGPUs(plan, 2, ints((0, 0))) == INVALID_DEVICE
    check(CUFFT.cufftXtSetGPUs(plan, len(DEVICES), ints(DEVICES)))
    if len(DEVICES) > 1:
        assert CUFFT.cufftMakePlan1d(plan, 1, C2C, 1, size) == INVALID_SIZE
    embedded = ints((8,)), 1, 8
    assert CUFFT.cufftMakePlanMany(plan, 1, ints((8,)), *embedded, *embedded, C2C, 2, size) == NOT_SUPPORTED
    check(CUFFT.cufftMakePlan1d(plan, 8, C2C, 1, size))
    assert CUFFT.cufftXtSetGPUs(plan, len(DEVICES), ints(DEVICES)) == INVALID_PLAN
    made = descriptor(plan, complexes((8,), np.complex64))
    assert CUFFT.cufftXtExecDescriptorZ2Z(plan, made, made, FORWARD) == INVALID_TYPE
    assert CUFFT.cufftXtExecDescriptorC2C(plan, made, None, FORWARD) == INVALID_VALUE
    if len(DEVICES) > 1:
        data = DeviceArray(np.zeros(8, np.complex64))
        assert CUFFT.cufftExecC2C(plan, data.pointer, data.pointer, FORWARD) == INVALID_PLAN
    alone = ctypes.c_int()
    check(CUFFT.cufftPlan1d(ctypes.byref(alone), 8, C2C, 1))
    assert CUFFT.cufftXtExecDescriptorC2C(alone, made, made, FORWARD) == INVALID_PLAN


CASES = {case.__name__: case for case in (there_and_back, shuffled_parts, reals, errors)}
if __name__ == "__main__":
    main(CASES)
