"""The table of what of CUDA works: its page is current, its tests exist, its mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import support
from tools.common import REPOSITORY

ROW = """
[[group]]
name = "Threads"
[[group.feature]]
name = "barriers"
cpu = "yes"
cuda = "passed on"
tests = ["test_a.py::test_b", "protocol/test_c.py"]
"""


def test_page_is_what_the_table_says() -> None:
    groups = support.read((REPOSITORY / support.TABLE).read_text())
    assert list(support.missing_tests(groups)) == []
    assert (REPOSITORY / support.PAGE).read_text() == support.page(groups)


def test_row_of_the_page() -> None:
    assert support.page(support.read(ROW)).endswith(
        "\n## Threads\n| feature | CPU | CUDA | remarks | shown by |\n|---|---|---|---|---|\n"
        "| barriers | yes | passed on |  | `unit/test_a.py::test_b`, `protocol/test_c.py` |\n"
    )


def test_tests_that_do_not_exist_are_named(tmp_path: Path) -> None:
    groups = support.read(ROW)
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/unit/test_a.py").write_text("def test_bb() -> None: ...\n")
    assert list(support.missing_tests(groups, tmp_path)) == [
        "barriers: tests/unit/test_a.py::test_b does not exist",
        "barriers: tests/protocol/test_c.py does not exist",
    ]
    (tmp_path / "tests/unit/test_a.py").write_text("def test_b() -> None: ...\n")
    assert list(support.missing_tests(groups, tmp_path)) == ["barriers: tests/protocol/test_c.py does not exist"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"passed on"', '"maybe"', "barriers: cuda is 'maybe'; allowed: yes, partly, no, passed on"),
        ('cpu = "yes"', "", "barriers: cpu is None; allowed: yes, partly, no"),
        ("tests = ", "test = ", "barriers: test is no key; allowed: name, cpu, cuda, note, tests"),
        ('tests = ["test_a.py::test_b", "protocol/test_c.py"]', "", "barriers: no test shows that it works"),
        ('name = "Threads"', "", "'name' is missing"),
        ("[[group]]", "[[group", "no TOML"),
    ],
)
def test_mistakes_in_the_table_are_named(old: str, new: str, error: str) -> None:
    with pytest.raises(support.TableError, match=error.replace("?", r"\?")):
        support.read(ROW.replace(old, new, 1))
