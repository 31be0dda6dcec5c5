"""Products of sparse matrices among the built-in functions; indices may be anything."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

TYPES: Final = [(value, index) for value in ("f32", "f64") for index in ("i32", "i64")]
HOSTILE: Final = (-1, 8, 2**31 - 1, -(2**31), 12345)


def matrix(rows: int, columns: int, each: int, value: str, index: str) -> dict[str, Any]:
    """A random matrix with up to `each` elements in a row, and vectors."""
    random = np.random.default_rng(rows)
    counts = random.integers(0, each + 1, rows) if columns else np.zeros(rows, np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(DTYPES[index])
    nonzeros = int(starts[-1])
    return {
        "rows": rows,
        "columns": columns,
        "nonzeros": nonzeros,
        "row_starts": starts,
        "indices": random.integers(0, max(columns, 1), nonzeros).astype(DTYPES[index]),
        "values": random.standard_normal(nonzeros).astype(DTYPES[value]),
        "x": random.standard_normal(columns).astype(DTYPES[value]),
        "y": random.standard_normal(rows).astype(DTYPES[value]),
    }


def product(m: dict[str, Any], alpha: float, beta: float) -> Array:
    rows = np.repeat(np.arange(m["rows"]), np.diff(m["row_starts"]))
    terms = m["values"].astype(float) * m["x"].astype(float)[m["indices"]]
    return alpha * np.bincount(rows, terms, m["rows"]) + (beta * m["y"] if beta else 0)


@pytest.mark.parametrize(("value", "index"), TYPES)
@pytest.mark.parametrize("shape", [(0, 3, 1), (1, 1, 1), (3, 0, 0), (100, 70, 9), (30_000, 500, 40), (3, 1000, 50_000)])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("pes", rig.PES)
def test_product_is_that_of_the_dense_matrix(
    value: str, index: str, shape: tuple[int, int, int], beta: float, pes: int
) -> None:
    m = matrix(*shape, value, index)
    found = rig.call(f"sparse.spmv_{value}_{index}", pes, alpha=1.5, beta=beta, **m)["y"]
    wanted = product(m, 1.5, beta)
    scale = product(m | {"values": np.abs(m["values"]), "x": np.abs(m["x"]), "y": np.abs(m["y"])}, 1.5, beta)
    assert np.all(np.abs(found - wanted) <= (1e-5 if value == "f32" else 1e-13) * scale)


def test_without_beta_the_result_is_not_read() -> None:
    m = matrix(100, 70, 9, "f64", "i32") | {"y": np.full(100, np.nan)}
    assert np.isfinite(rig.call("sparse.spmv_f64_i32", alpha=1, **m)["y"]).all()


@pytest.mark.parametrize(("value", "index"), TYPES)
@pytest.mark.parametrize("wrong", HOSTILE)
@pytest.mark.parametrize("place", [0, 100, -1])
def test_wrong_column_fails_and_touches_nothing_else(value: str, index: str, wrong: int, place: int) -> None:
    m = matrix(1000, 8, 9, value, index)
    m["indices"][place] = wrong
    with pytest.raises(rig.FailedError, match="an index is not a column of the matrix"):
        rig.call(f"sparse.spmv_{value}_{index}", alpha=1, **m)


@pytest.mark.parametrize(("value", "index"), TYPES)
@pytest.mark.parametrize("wrong", [-1, 2**31 - 1, -(2**31), 1_000_000])
@pytest.mark.parametrize("place", [0, 500, -1])
def test_wrong_begin_of_a_row_fails_and_touches_nothing_else(value: str, index: str, wrong: int, place: int) -> None:
    m = matrix(1000, 8, 9, value, index)
    m["row_starts"][place] = wrong
    with pytest.raises(rig.FailedError, match="row_starts fall, or leave the elements of the matrix"):
        rig.call(f"sparse.spmv_{value}_{index}", alpha=1, **m)


def test_matrix_without_columns_has_no_elements() -> None:
    m = matrix(3, 1, 2, "f32", "i32") | {"columns": 0, "x": np.zeros(0, np.float32)}
    with pytest.raises(rig.FailedError, match="an index is not a column of the matrix"):
        rig.call("sparse.spmv_f32_i32", alpha=1, **m)
