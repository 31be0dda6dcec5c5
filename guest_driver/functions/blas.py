"""Dense linear algebra: `Device.blas`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guest_driver.arguments import In, InOut, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import (
    FLOATS,
    Array,
    Call,
    Changed,
    Group,
    check_dimensions,
    check_shape,
    result_of,
    suffix_of,
    target,
)

if TYPE_CHECKING:
    from guest_driver.stream import Stream


class Blas(Group):
    """Vectors and matrices of float16, float32 or float64, one type in each call; alpha and beta are doubles.

    Arrays that are changed in place (y, c) are C-contiguous, and device arrays if others are.
    """

    def axpy(self, alpha: float, x: Array, y: Changed, *, stream: Stream | None = None) -> Any:
        """Adds alpha * x to y, in place; both have one shape. Returns y.

        :raise errors.InvalidArgument: the shapes differ.
        """
        suffix = suffix_of(FLOATS, x=x, y=y)
        check_shape("x", x, y.shape)
        Call(self._host, (x, y), stream).run(f"blas.axpy_{suffix}", y.size, float(alpha), In(x), 1, InOut(y), 1)
        return y

    def dot(self, x: Array, y: Array, *, stream: Stream | None = None) -> Any:
        """Inner product of two vectors of one length: an array without dimensions.

        :raise errors.InvalidArgument: they are no vectors, or their lengths differ.
        """
        suffix = suffix_of(FLOATS, x=x, y=y)
        check_dimensions("x", x, 1)
        check_shape("y", y, x.shape)
        call = Call(self._host, (x, y), stream)
        out = call.empty((), x.dtype)
        call.run(f"blas.dot_{suffix}", x.size, In(x), 1, In(y), 1, Out(out))
        return result_of(out)

    def nrm2(self, x: Array, *, stream: Stream | None = None) -> Any:
        """Euclidean norm of all elements: an array without dimensions."""
        suffix = suffix_of(FLOATS, x=x)
        call = Call(self._host, (x,), stream)
        out = call.empty((), x.dtype)
        call.run(f"blas.nrm2_{suffix}", x.size, In(x), 1, Out(out))
        return result_of(out)

    def gemv(
        self,
        a: Array,
        x: Array,
        y: Changed | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        transpose: bool = False,
        stream: Stream | None = None,
    ) -> Any:
        """Product of a matrix and a vector: alpha * a @ x + beta * y, in y if it is given.

        :param a: (m, n). :param x: (n); (m) if a is transposed. :param y: (m); (n) if a is transposed.
        :raise errors.InvalidArgument: shapes do not fit, or there is a beta without y.
        """
        suffix = suffix_of(FLOATS, a=a, x=x, y=y)
        check_dimensions("a", a, 2)
        m, n = a.shape
        check_shape("x", x, (m if transpose else n,))
        call = Call(self._host, (a, x, y), stream)
        out = target(call, "y", y, (n if transpose else m,), a.dtype, beta=beta)
        matrix = (int(transpose), m, n, float(alpha), In(a), max(n, 1))
        call.run(f"blas.gemv_{suffix}", *matrix, In(x), 1, float(beta), out, 1)
        return out.data

    def gemm(
        self,
        a: Array,
        b: Array,
        c: Changed | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        transpose_a: bool = False,
        transpose_b: bool = False,
        stream: Stream | None = None,
    ) -> Any:
        """Products of matrices: alpha * a @ b + beta * c, in c if it is given.

        :param a: (m, k) or (batch, m, k); last two lengths are (k, m) if it is transposed.
        :param b: (k, n) or (batch, k, n), alike. One matrix, or a batch of one, is used for all of the other's.
        :param c: (m, n), or (batch, m, n) if a or b has a batch.
        :raise errors.InvalidArgument: shapes do not fit, or there is a beta without c.
        """
        suffix = suffix_of(FLOATS, a=a, b=b, c=c)
        check_dimensions("a", a, 2, 3)
        check_dimensions("b", b, 2, 3)
        m, k = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
        terms, n = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
        if terms != k:
            raise InvalidArgument(
                f"a has {k} columns and b has {terms} rows (shapes {a.shape} and {b.shape}, transposed as asked); "
                "allowed: equal numbers"
            )
        batch = _batch(a, b)
        call = Call(self._host, (a, b, c), stream)
        out = target(call, "c", c, (*batch, m, n), a.dtype, beta=beta)
        count = batch[0] if batch else 1
        product = (int(transpose_a), int(transpose_b), m, n, k, float(alpha))
        matrices = (In(a), max(a.shape[-1], 1), In(b), max(b.shape[-1], 1), float(beta), out, max(n, 1))
        strides = (_stride(a, count), _stride(b, count), m * n)
        call.run(f"blas.gemm_{suffix}", *product, *matrices, count, *strides)
        return out.data

    def matmul(self, a: Array, b: Array, *, stream: Stream | None = None) -> Any:
        """Product with numpy's meaning of ``a @ b``, of arrays of any number of dimensions from 1 on.

        :raise errors.InvalidArgument: shapes do not fit; of batches, one array may have none or a single one.
        """
        suffix_of(FLOATS, a=a, b=b)
        for name, array in (("a", a), ("b", b)):
            if not array.shape:
                raise InvalidArgument(f"{name} has no dimensions; allowed: vectors and matrices")
        left = a.reshape((1, a.size)) if len(a.shape) == 1 else a
        right = b.reshape((b.size, 1)) if len(b.shape) == 1 else b
        batch = _outer_shape(left, right)
        product = self.gemm(_one_batch(left), _one_batch(right), stream=stream)
        shape = (*batch, *(left.shape[-2:-1] if left is a else ()), *(right.shape[-1:] if right is b else ()))
        return result_of(product.reshape(shape))


def _batch(a: Array, b: Array) -> tuple[int, ...]:
    """Number of products, as the first lengths of a result's shape; () if neither array has a batch."""
    counts = {array.shape[0] for array in (a, b) if len(array.shape) == 3}
    if len(counts) > 1:
        counts -= {1}
    if len(counts) > 1:
        raise InvalidArgument(
            f"batches of shapes {a.shape} and {b.shape}; allowed: equal batches, or one matrix for all"
        )
    return tuple(counts)


def _stride(array: Array, batch: int) -> int:
    is_one_for_all = len(array.shape) == 2 or (array.shape[0] == 1 and batch != 1)
    return 0 if is_one_for_all else array.shape[-2] * array.shape[-1]


def _one_batch(array: Array) -> Array:
    if len(array.shape) <= 3:
        return array
    rows, columns = array.shape[-2:]
    return array.reshape((int(np.prod(array.shape[:-2])), rows, columns))


def _outer_shape(a: Array, b: Array) -> tuple[int, ...]:
    """Lengths before those of the matrices, of a result."""
    outer = [tuple(array.shape[:-2]) for array in (a, b)]
    several = [shape for shape in outer if np.prod(shape) != 1]
    if len(several) == 2 and several[0] != several[1]:
        raise InvalidArgument(
            f"batches of shapes {a.shape} and {b.shape}; allowed: equal batches, or one matrix for all"
        )
    return tuple(np.broadcast_shapes(*outer))
