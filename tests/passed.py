"""Plugin of pytest: tests that have passed in one run, on sanitized C code, are left out of the next.

``python -m pytest -p tests.passed --record-passed FILE`` writes the names of the tests that pass to a file,
``--except-passed FILE`` leaves them out; without the file nothing is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_NAME: Final = "record-passed"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("passed", "tests that have passed before")
    group.addoption("--record-passed", type=Path, metavar="FILE", help="write the names of tests that pass to FILE")
    group.addoption("--except-passed", type=Path, metavar="FILE", help="leave out the tests that FILE names")


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("record_passed")
    if file is not None and not hasattr(config, "workerinput"):  # of xdist: the process that hears of all tests
        file.unlink(missing_ok=True)
        config.pluginmanager.register(_Record(file), _NAME)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    file: Path | None = config.getoption("except_passed")
    if file is None or not file.exists():
        return
    passed = set(file.read_text(encoding="utf-8").split("\n"))
    left_out = [item for item in items if item.nodeid in passed]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.nodeid not in passed]


class _Record:
    """Names of tests that pass, written at the end of the run: a run that is cut off leaves none out."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and "\n" not in report.nodeid:
            self._passed.append(report.nodeid)
        elif report.failed and report.nodeid in self._passed:  # in its teardown
            self._passed.remove(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("\n".join(sorted(self._passed)), encoding="utf-8")
