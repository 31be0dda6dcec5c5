"""Benchmark rows of cuBLAS: they time right products, and tell why they cannot."""

from __future__ import annotations

import sys

import pytest

from bench.lab import Lab
from bench.results import Result, SkipRow
from bench.rows import cublas


def test_products_are_timed_beside_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "SIZES", (96,))
    with Lab(quick=True, threads=1) as lab:
        (result,) = cublas.products(lab)
    assert isinstance(result, Result)
    assert result.name == "cublas_sgemm_96_ms"
    assert result.value > 0
    assert result.baseline is not None
    assert result.baseline > 0


def test_failing_program_is_told_in_its_words() -> None:
    words = [sys.executable, "-c", "import sys; sys.exit('element (0, 0) is 1, not 2')"]
    with cublas.subject(words, {}, ()) as subject, pytest.raises(SkipRow, match="is 1, not 2"):
        subject.round()
