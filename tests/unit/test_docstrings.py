"""The check of docstrings: which openings and phrases it finds, where, and where it does not look."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.docstrings import OPENINGS, findings, main, search, tracked_files


def found(path: str, source: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.words) for finding in findings(path, source)]


@pytest.mark.parametrize("opening", OPENINGS)
def test_banned_opening_is_found_in_every_kind_of_docstring(opening: str) -> None:
    source = f'"""{opening} it."""\nclass A:\n    """{opening} it."""\n    b: int\n    """{opening} it."""\n'
    assert found("a.py", source) == [(1, opening), (3, opening), (5, opening)]


def test_opening_on_the_second_line_is_named_by_its_own_line() -> None:
    assert found("a.py", 'def f():\n    """\n    Of it.\n    """\n') == [(3, "Of")]


def test_longer_words_and_later_words_open_nothing() -> None:
    assert found("a.py", '"""Office of it. As ever, whose."""\nX = 1\n"""Soon what."""\n') == []


def test_phrase_is_found_across_a_line_break() -> None:
    docstring = '"""Waits so\nlong."""\n'
    comments = "x = 1  # an engine, or another\n# one\n# more\n"
    assert found("a.py", docstring + comments) == [(1, "so long"), (3, "another one")]


def test_comments_that_are_not_adjacent_are_not_joined() -> None:
    assert found("a.py", "# so\nx = 1\n# long\n") == []


def test_none_of_python_is_no_riddle() -> None:
    source = '"""Handle; unused if it is None."""\nif x is None:\n    pass\n'
    assert found("a.py", source) == []
    assert found("a.py", '"""Is none."""\n') == [(1, "Is none")]


def test_strings_that_are_code_are_not_looked_at() -> None:
    assert found("a.py", 'x = "so long"\nprint("another one")\n') == []


def test_c_comment_at_the_begin_of_a_line_must_not_open_with_a_riddle() -> None:
    source = "/* Of it. */\nint a; /* of it */\n/*\n * What it does,\n * so\n * long.\n */\n"
    assert found("a.h", source) == [(1, "Of"), (4, "What"), (5, "so long")]


def test_c_strings_are_not_taken_for_comments() -> None:
    assert found("a.c", 'char *a = "/* so long */", *b = "// so long";\n// so long\n') == [(2, "so long")]


def test_code_of_a_page_is_not_looked_at() -> None:
    page = "What is it?\n\n```\nso long\n```\nUse `so long`, but not so\nlong.\n"
    assert found("a.md", page) == [(6, "so long")]


def test_other_files_have_no_texts() -> None:
    assert found("a.yaml", "# so long\n") == []


def test_finding_says_what_to_write_instead() -> None:
    (finding,) = findings("a.py", '"""Of it."""\n')
    assert str(finding) == f"a.py:1: 'Of': {OPENINGS['Of']}"


def test_only_tracked_files_that_exist_are_searched(tmp_path: Path) -> None:
    for name in ("kept.py", "gone.py", "new.py", "notes.txt"):
        (tmp_path / name).write_text('"""Of it."""\n')
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "kept.py", "gone.py", "notes.txt"], cwd=tmp_path, check=True)
    (tmp_path / "gone.py").unlink()
    assert [finding.path for finding in search(tracked_files(tmp_path), tmp_path)] == ["kept.py"]


def test_program_fails_on_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text('"""Of it."""\n')
    (tmp_path / "b.py").write_text('"""Size of it."""\n')
    assert main([str(tmp_path / "b.py")]) == 0
    assert main([str(tmp_path / "a.py")]) == 1
    assert f"{tmp_path / 'a.py'}:1: 'Of'" in capsys.readouterr().out
