"""Programs of benchmarks that run in guests: they build, and say when there is no device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.rows import guest, region, region_kinds
from tests.limits import ANSWERS_WITHIN_S


@pytest.mark.parametrize(
    ("program", "words"),
    [(guest.PROGRAM, ("polled", "1")), (region.PROGRAM, ("1",)), (region_kinds.PROGRAM, ("1",))],
    ids=["null", "copies", "region"],
)
def test_program_is_built_and_says_that_there_is_no_device(
    program: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    built = guest.build(program, tmp_path)
    nowhere = os.environ | {"VGC_MEMFD": str(tmp_path / "nobody.sock")}
    done = subprocess.run(
        [built, *words], env=nowhere, check=False, capture_output=True, text=True, timeout=ANSWERS_WITHIN_S
    )
    assert done.returncode != 0
    assert done.stderr.startswith("open: ")
    assert str(tmp_path / "nobody.sock") in done.stderr
