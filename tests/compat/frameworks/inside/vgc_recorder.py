"""Plugin of pytest that writes what becomes of each test, a line of JSON at a time, into the file ``$VGC_RECORD``.

Runs in a framework's Python, which has none of this project's packages. A test's beginning is on disk before it runs, so that a
crash tells which test it was. Tests that the file ``$VGC_DONE`` names, one a line, are left out.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

_LENGTH = 400
"""Characters of a reason that are kept."""
_WORST_FIRST = ("failed", "expected", "skipped", "passed")
_reports: list[tuple[str, str]] = []
_seconds = [0.0]


def _write(**record: object) -> None:
    with open(os.environ["VGC_RECORD"], "a") as file:
        file.write(json.dumps(record) + "\n")


def _reason(report: Any) -> str:
    """Last words of a failure, or the reason of a skip."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash:
        return " ".join(str(crash.message).split())[:_LENGTH]
    return " ".join(str(report.longrepr or "").split())[-_LENGTH:]


def _outcome(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return "expected" if report.skipped else "passed"
    return str(report.outcome)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    done = Path(os.environ["VGC_DONE"])
    names = set(done.read_text().splitlines()) if done.exists() else set()
    left_out = [item for item in items if item.nodeid in names]
    items[:] = [item for item in items if item.nodeid not in names]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def pytest_collectreport(report: Any) -> None:
    if report.outcome != "passed":
        name = report.nodeid or "collection"
        _write(test=name, outcome=report.outcome, why=_reason(report), seconds=0.0)


def pytest_runtest_logstart(nodeid: str) -> None:
    _reports.clear()
    _seconds[0] = 0.0
    _write(begins=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    _reports.append((_outcome(report), "" if report.passed else _reason(report)))
    _seconds[0] += report.duration


def pytest_runtest_logfinish(nodeid: str) -> None:
    found = min(_reports, key=lambda row: _WORST_FIRST.index(row[0]), default=("failed", "pytest reports nothing"))
    _write(test=nodeid, outcome=found[0], why=found[1], seconds=round(_seconds[0], 2))


def pytest_sessionfinish(exitstatus: int) -> None:
    _write(ends=int(exitstatus))


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request: Any) -> None:
    """Stands in for a fixture of numba-cuda's repository that its wheel lacks."""
    request.cls._dump_failed_filechecks = False


def pytest_configure() -> None:
    """Has pytest import numba-cuda's tests by the name that its import hook gives them, not by their path."""
    modules: Any = importlib.import_module("_pytest.python")
    by_path = modules.import_path

    def import_path(path: Any, **options: Any) -> Any:
        _, found, name = str(path).partition("/numba_cuda/numba/")
        if not found:
            return by_path(path, **options)
        return importlib.import_module("numba." + name.removesuffix(".py").replace("/", "."))

    modules.import_path = import_path
