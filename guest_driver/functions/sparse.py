"""Sparse linear algebra: `Device.sparse`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guest_driver.arguments import In
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import (
    REALS,
    Array,
    Call,
    Changed,
    Group,
    check_dimensions,
    check_shape,
    suffix_of,
    target,
)

if TYPE_CHECKING:
    from guest_driver.stream import Stream


class Sparse(Group):
    """Sparse matrices of float32 or float64 in compressed rows (CSR), with indices of int32 or int64."""

    def spmv(
        self,
        row_starts: Array,
        indices: Array,
        values: Array,
        x: Array,
        columns: int | None = None,
        *,
        y: Changed | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        stream: Stream | None = None,
    ) -> Any:
        """Product of a sparse matrix and a vector: alpha * matrix @ x + beta * y, in y if it is given.

        :param row_starts: begin of each row in indices and values (rows + 1).
        :param indices: columns of the elements. :param values: elements. :param x: vector (columns).
        :param columns: columns of the matrix; by default as many as x has elements.
        :raise errors.InvalidArgument: shapes do not fit, or there is a beta without y.
        :raise errors.VgcError: row_starts fall or leave the elements, or an index is no column.
        """
        suffix = suffix_of(REALS, values=values, x=x, y=y)
        index_suffix = suffix_of(("i32", "i64"), row_starts=row_starts, indices=indices)
        for name, array in (("row_starts", row_starts), ("indices", indices), ("x", x)):
            check_dimensions(name, array, 1)
        check_shape("values", values, indices.shape)
        check_shape("x", x, x.shape if columns is None else (columns,))
        if row_starts.size == 0:
            raise InvalidArgument("row_starts has no elements; allowed: one more than the matrix has rows")
        rows = row_starts.size - 1
        call = Call(self._host, (row_starts, indices, values, x, y), stream)
        out = target(call, "y", y, (rows,), x.dtype, beta=beta)
        matrix = (rows, x.size, values.size, float(alpha), In(row_starts), In(indices), In(values))
        call.run(f"sparse.spmv_{suffix}_{index_suffix}", *matrix, In(x), float(beta), out)
        return out.data

    def multiply(
        self,
        matrix: Any,
        x: Array,
        *,
        y: Changed | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        stream: Stream | None = None,
    ) -> Any:
        """Product of a matrix and a vector, as `spmv`.

        :param matrix: object with ``indptr``, ``indices``, ``data`` and ``shape``, such as ``scipy.sparse.csr_array``.
        :raise TypeError: it is no matrix in compressed rows.
        """
        if not all(hasattr(matrix, name) for name in ("indptr", "indices", "data", "shape")):
            raise TypeError(
                f"matrix is a {type(matrix).__name__}; allowed: objects with indptr, indices, data and shape, such as "
                "scipy.sparse.csr_array"
            )
        if getattr(matrix, "format", "csr") != "csr":
            raise TypeError(f"matrix has the format {matrix.format}; allowed: csr, see its method tocsr")
        rows, columns = matrix.shape
        check_shape("indptr", matrix.indptr, (rows + 1,))
        return self.spmv(
            *(matrix.indptr, matrix.indices, matrix.data, x, columns), y=y, alpha=alpha, beta=beta, stream=stream
        )
