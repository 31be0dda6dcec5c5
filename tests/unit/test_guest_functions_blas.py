"""Linear algebra of `Device.blas` and `Device.sparse`, on the CPU engine's library, compared with numpy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import guest_driver as vgc
from tests.unit.builtins_device import BuiltinsDevice, Place, dev, fake, link, place
from virtio_proto.schema import Opcode

__all__ = ["dev", "fake", "link", "place"]

TOLERANCE: Final[dict[str, float]] = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-13}
FLOATS: Final = tuple(TOLERANCE)


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(dtype)


def assert_close(found: Any, wanted: Any, dtype: str = "float64") -> None:
    assert found.dtype == np.dtype(dtype)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("batch_a", "batch_b"), [((), ()), ((3,), (3,)), ((), (3,)), ((3,), ()), ((1,), (3,)), ((1,), ()), ((0,), ())]
)
def test_gemm(
    dev: vgc.Device,
    place: Place,
    *,
    dtype: str,
    transpose_a: bool,
    transpose_b: bool,
    batch_a: tuple[int, ...],
    batch_b: tuple[int, ...],
) -> None:
    a, b = numbers((*batch_a, 4, 6), dtype), numbers((*batch_b, 6, 5), dtype)
    wanted = a.astype(float) @ b.astype(float)
    stored_a = np.ascontiguousarray(a.swapaxes(-1, -2)) if transpose_a else a
    stored_b = np.ascontiguousarray(b.swapaxes(-1, -2)) if transpose_b else b
    flags: Any = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    assert_close(place.take(dev.blas.gemm(place.put(stored_a), place.put(stored_b), **flags)), wanted, dtype)
    c = place.put(np.ones(wanted.shape, dtype))
    result = dev.blas.gemm(place.put(stored_a), place.put(stored_b), c, alpha=2.0, beta=-0.5, **flags)
    assert result is c
    assert_close(place.take(c), 2 * wanted - 0.5, dtype)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1)])
def test_gemm_of_few_elements(dev: vgc.Device, place: Place, m: int, n: int, k: int) -> None:
    a, b = numbers((m, k)), numbers((k, n))
    assert_close(place.take(dev.blas.gemm(place.put(a), place.put(b))), a @ b)


def test_result_array_is_not_read_without_beta(dev: vgc.Device, place: Place) -> None:
    a, c = numbers((3, 3)), place.put(np.full((3, 3), np.nan))
    dev.blas.gemm(place.put(a), place.put(a), c)
    assert_close(place.take(c), a @ a)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transpose", [False, True])
def test_gemv(dev: vgc.Device, place: Place, dtype: str, transpose: bool) -> None:
    a = numbers((4, 6), dtype)
    x = numbers((4 if transpose else 6,), dtype)
    wanted = (a.T if transpose else a).astype(float) @ x.astype(float)
    assert_close(place.take(dev.blas.gemv(place.put(a), place.put(x), transpose=transpose)), wanted, dtype)
    y = place.put(np.ones(wanted.shape, dtype))
    assert dev.blas.gemv(place.put(a), place.put(x), y, alpha=3, beta=2, transpose=transpose) is y
    assert_close(place.take(y), 3 * wanted + 2, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [0, 1, 100])
def test_vectors(dev: vgc.Device, place: Place, dtype: str, size: int) -> None:
    x, ones = numbers((size,), dtype), np.ones(size, dtype)
    y = place.put(ones.copy())
    assert dev.blas.axpy(-0.5, place.put(x), y) is y
    assert_close(place.take(y), 1 - 0.5 * x.astype(float), dtype)
    dot = place.take(dev.blas.dot(place.put(x), place.put(ones)))
    assert_close(dot, np.asarray(x.sum(dtype=float)), dtype)
    norm = place.take(dev.blas.nrm2(place.put(x)))
    assert_close(norm, np.asarray(np.linalg.norm(x.astype(float))), dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((4, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 4, 3), (3,)),
        ((3,), (2, 3, 4)),
        ((2, 5, 4, 3), (2, 5, 3, 6)),
        ((1, 1, 4, 3), (2, 5, 3, 6)),
        ((4, 3), (2, 5, 3, 6)),
    ],
)
def test_matmul_has_the_shapes_of_numpy(dev: vgc.Device, place: Place, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = numbers(a), numbers(b)
    assert_close(place.take(dev.blas.matmul(place.put(left), place.put(right))), np.asarray(left @ right))


def test_arrays_may_have_gaps_and_lie_in_several_places(dev: vgc.Device) -> None:
    a, b = numbers((6, 8))[::2, ::2], numbers((4, 5)).T.copy().T
    assert_close(dev.blas.gemm(a, b), a @ b)
    product = dev.blas.gemm(a, dev.to_device(b))
    assert isinstance(product, vgc.DeviceArray)
    assert_close(product.get(), a @ b)


def test_call_with_numpy_arrays_is_one_request(dev: vgc.Device, fake: BuiltinsDevice) -> None:
    a = numbers((3, 3))
    dev.blas.gemm(a, a)  # finds the function
    before = len(fake.seen)
    dev.blas.gemm(a, a)
    assert fake.opcodes()[before:] == [Opcode.CALL]
    device = dev.to_device(a)
    before = len(fake.seen)
    product = dev.blas.gemm(device, a)
    assert isinstance(product, vgc.DeviceArray)
    assert fake.opcodes()[before : before + 2] == [Opcode.ALLOC, Opcode.CALL]


def test_launch_in_a_stream(dev: vgc.Device) -> None:
    a = dev.to_device(numbers((3, 3)))
    with dev.stream() as stream:
        product = dev.blas.gemm(a, a, stream=stream)
        stream.synchronize()
    assert isinstance(product, vgc.DeviceArray)
    assert_close(product.get(), a.get() @ a.get())
    with pytest.raises(TypeError, match="a stream, but all arrays are numpy's; allowed: at least one device array"):
        dev.blas.gemm(a.get(), a.get(), stream=stream)


A, X = numbers((3, 4)), numbers((4,))


@pytest.mark.parametrize(
    ("function", "arguments", "options", "error", "text"),
    [
        ("gemm", ([1], A), {}, TypeError, "a is a list; allowed: device arrays and numpy arrays"),
        ("gemm", (A, A.astype("f4")), {}, TypeError, "different types: a of float64, b of float32; allowed: one type"),
        ("gemm", (A.astype(int), A), {}, TypeError, "a has elements of int64; allowed: float16, float32, float64"),
        ("gemm", (A.astype(">f8"), A), {}, TypeError, "a has elements of >f8; allowed: float16"),
        ("gemm", (A, A), {}, ValueError, r"a has 4 columns and b has 3 rows \(shapes \(3, 4\) and \(3, 4\)"),
        ("gemm", (X, A), {}, ValueError, r"a has shape \(4,\); allowed: arrays of 2 or 3 dimensions"),
        ("gemm", (A, A.T), {"beta": 1}, ValueError, "beta is 1, but there is no c; allowed: 0"),
        ("gemm", (A, A.T, A), {}, ValueError, r"c has shape \(3, 4\); allowed: \(3, 3\)"),
        ("gemm", (numbers((2, 3, 3)), numbers((4, 3, 3))), {}, ValueError, r"batches of shapes \(2, 3, 3\) and \(4"),
        ("gemm", (A, A.T, numbers((6, 3))[::2]), {}, TypeError, "the array is not C-contiguous"),
        ("gemv", (A, numbers((3,))), {}, ValueError, r"x has shape \(3,\); allowed: \(4,\)"),
        ("gemv", (A, X), {"transpose": True}, ValueError, r"x has shape \(4,\); allowed: \(3,\)"),
        ("gemv", (A, X), {"beta": 2.0}, ValueError, "beta is 2, but there is no y"),
        ("axpy", (1, A, X), {}, ValueError, r"x has shape \(3, 4\); allowed: \(4,\)"),
        ("dot", (A, A), {}, ValueError, "allowed: arrays of 1 dimensions"),
        ("dot", (X, X[:2]), {}, ValueError, r"y has shape \(2,\); allowed: \(4,\)"),
        ("nrm2", (3.0,), {}, TypeError, "x is a float; allowed: device arrays and numpy arrays"),
        ("matmul", (np.array(2.0), X), {}, ValueError, "a has no dimensions; allowed: vectors and"),
        ("matmul", (numbers((2, 1, 3, 3)), numbers((1, 2, 3, 3))), {}, ValueError, "allowed: equal batches"),
    ],
)
def test_refusals(
    dev: vgc.Device,
    fake: BuiltinsDevice,
    *,
    function: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        getattr(dev.blas, function)(*arguments, **options)
    assert Opcode.CALL not in fake.opcodes()


def test_numpy_array_is_not_changed_by_a_launch(dev: vgc.Device) -> None:
    with pytest.raises(TypeError, match=r"axpy_f64 would change a numpy array, but others .* see Device.to_device"):
        dev.blas.axpy(1, dev.to_device(X), X.copy())


# ---- sparse --------------------------------------------------------------------------------------


class Csr:
    """Matrix in compressed rows, as scipy has it."""

    format = "csr"

    def __init__(self, dense: Any, index: str) -> None:
        self.shape = dense.shape
        self.indptr = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(index)
        self.indices = np.nonzero(dense)[1].astype(index)
        self.data = dense[dense != 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (0, 3), (4, 0)])
def test_spmv(dev: vgc.Device, place: Place, dtype: str, index: str, shape: tuple[int, int]) -> None:
    dense = numbers(shape, dtype)
    dense[np.abs(dense) < 0.5] = 0
    x = numbers(shape[1:], dtype)
    matrix = Csr(dense, index)
    indptr, indices, data = [place.put(part) for part in (matrix.indptr, matrix.indices, matrix.data)]
    wanted = dense.astype(float) @ x
    assert_close(place.take(dev.sparse.spmv(indptr, indices, data, place.put(x), shape[1])), wanted, dtype)
    y = place.put(np.ones(shape[0], dtype))
    assert dev.sparse.multiply(matrix, place.put(x), y=y, alpha=2, beta=3) is y
    assert_close(place.take(y), 2 * wanted + 3, dtype)


def test_refusals_of_sparse_matrices(dev: vgc.Device) -> None:
    matrix, x = Csr(numbers((3, 4)), "int32"), numbers((4,))
    with pytest.raises(TypeError, match="matrix is a ndarray; allowed: objects with indptr, indices, data and shape"):
        dev.sparse.multiply(A, x)
    with pytest.raises(vgc.InvalidArgument, match=r"x has shape \(3,\); allowed: \(4,\)"):
        dev.sparse.multiply(matrix, x[:3])
    with pytest.raises(TypeError, match="different types: row_starts of int32, indices of int64"):
        dev.sparse.spmv(matrix.indptr, matrix.indices.astype("int64"), matrix.data, x)
    with pytest.raises(TypeError, match="row_starts has elements of int16; allowed: int32, int64"):
        dev.sparse.spmv(matrix.indptr.astype("int16"), matrix.indices, matrix.data, x)
    with pytest.raises(vgc.InvalidArgument, match="row_starts has no elements"):
        dev.sparse.spmv(matrix.indptr[:0], matrix.indices, matrix.data, x)
    with pytest.raises(vgc.InvalidArgument, match=r"values has shape \(2,\); allowed: \(12,\)"):
        dev.sparse.spmv(matrix.indptr, matrix.indices, matrix.data[:2], x)
    with pytest.raises(vgc.LaunchFailed):
        dev.sparse.spmv(matrix.indptr, matrix.indices + 4, matrix.data, x)
    matrix.format = "csc"
    with pytest.raises(TypeError, match="matrix has the format csc; allowed: csr, see its method tocsr"):
        dev.sparse.multiply(matrix, x)
