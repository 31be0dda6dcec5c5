"""Errors of a compiler's log come before its warnings, as guests get the beginning of long logs."""

from __future__ import annotations

import pytest

from vhost_backend.compiler.diagnostics import SHORT, errors_first

WARNING = "In file included from x.cu:1:\n/cccl/thrust/a.h:3:4: warning: 'plus' is deprecated\n   3 | plus\n     | ^~~~\nb.h:9:1: note: declared here\n"
ERROR = "x.cu:7:5: error: use of undeclared identifier 'f'\n    7 |     f();\n      |     ^\n"
END = "1 error generated.\n"
STOPPED = "[the compiler was stopped after 180 s]\n"


def test_errors_come_first_with_their_lines() -> None:
    log = 30 * WARNING + ERROR + 10 * WARNING
    assert errors_first(log) == ERROR + 40 * WARNING


def test_the_reason_of_an_end_comes_first() -> None:
    assert errors_first(40 * WARNING + STOPPED).startswith(STOPPED)


def test_where_an_error_was_included_stays_with_it() -> None:
    included = "In file included from x.cu:2:\n                 from y.h:3:\nz.h:1:1: error: unknown type name 'q'\n"
    assert errors_first(40 * WARNING + included) == included + 40 * WARNING


def test_errors_keep_their_order() -> None:
    errors = [ERROR.replace("'f'", f"'f{number}'") for number in range(5)]
    assert errors_first("".join(20 * WARNING + error for error in errors)).startswith("".join(errors))


@pytest.mark.parametrize("log", ["", "x", ERROR + END, WARNING + ERROR])
def test_short_logs_stay_as_they_are(log: str) -> None:
    assert errors_first(log) == log


@pytest.mark.parametrize("piece", [WARNING, ERROR, STOPPED, "no message at all\n", "\n", "x" * 500])
def test_nothing_is_lost(piece: str) -> None:
    log = (WARNING + piece + ERROR) * (SHORT // 100)
    assert sorted(errors_first(log)) == sorted(log)
