"""Tests that have passed in one run are left out of the next."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = """
import pytest

@pytest.mark.parametrize("text", ["a", "a b"])
def test_good(text): pass

def test_bad(): assert False

def test_left_out(): pytest.skip("not here")

@pytest.fixture
def breaks():
    yield
    raise OSError

def test_bad_at_the_end(breaks): pass
"""


def run(folder: Path, *options: str) -> set[str]:
    """Runs the tests in `folder`; returns the names of those that were not left out."""
    argv = [sys.executable, "-m", "pytest", "-p", "tests.passed", "-p", "no:cacheprovider", "-v", *options]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return set(re.findall(r"^test_some\.py::(.+?) (?:PASSED|FAILED|SKIPPED|ERROR)", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["alone", "side by side"])
def test_only_what_has_passed_is_left_out(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    passed = tmp_path / "build" / "passed"
    run(tmp_path, f"--record-passed={passed}", *workers)
    assert passed.read_text().splitlines() == ["test_some.py::test_good[a b]", "test_some.py::test_good[a]"]
    assert run(tmp_path, f"--except-passed={passed}") == {"test_bad", "test_left_out", "test_bad_at_the_end"}
    passed.unlink()
    assert {"test_good[a]", "test_good[a b]"} < run(tmp_path, f"--except-passed={passed}")
