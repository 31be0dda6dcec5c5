"""Frameworks' own tests: processes of a small made-up suite, what is kept of them, and their part of the page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.compat import report
from tests.compat.frameworks import environment, page
from tests.compat.frameworks.__main__ import arguments, main, to_run
from tests.compat.frameworks.outcomes import CaseResult, Outcome, Results, counts, percent, read_record
from tests.compat.frameworks.page import Remark, Run
from tests.compat.frameworks.runner import INSIDE, Runner, Setting
from tests.compat.frameworks.suites import SUITES, Suite
from tests.compat.guest import Guest

PLENTY_S: Final = 500.0
SUITE: Final = """
import os
import unittest
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="needs two GPUs")
def test_is_skipped(): pass
@pytest.mark.xfail
def test_fails_as_expected(): assert False
class TestClass(unittest.TestCase):
    def test_passes(self): pass
    def tearDown(self): pass
"""


def ran(folder: Path, text: str, seconds: float = PLENTY_S) -> dict[str, CaseResult]:
    """Results of a suite of one file, by the test's name."""
    tests, work = folder / "tests", folder / "work"
    for made in (tests, work):
        made.mkdir()
    (tests / "test_it.py").write_text(text)
    setting = Setting((sys.executable,), tests, work, ("-q",), {"PYTHONPATH": str(INSIDE)}, seconds)
    found = Runner(setting, Guest(dict(os.environ))).run("test_it.py")
    assert len({test.name for test in found}) == len(found)
    return {test.name.removeprefix("test_it.py::"): test for test in found}


# ---- processes -----------------------------------------------------------------------------------


def test_outcomes_are_those_that_pytest_tells(tmp_path: Path) -> None:
    found = ran(tmp_path, SUITE)
    assert {name: test.outcome for name, test in found.items()} == {
        "test_passes": Outcome.PASSED,
        "test_fails": Outcome.FAILED,
        "test_is_skipped": Outcome.SKIPPED,
        "test_fails_as_expected": Outcome.EXPECTED,
        "TestClass::test_passes": Outcome.PASSED,
    }
    assert found["test_fails"].why.startswith("AssertionError: one is not two")
    assert found["test_is_skipped"].why == "Skipped: needs two GPUs"


def test_names_begin_at_the_suites_folder(tmp_path: Path) -> None:
    """Whatever folders below it have settings of pytest."""
    tests, work = tmp_path / "tests", tmp_path / "work"
    (tests / "inner").mkdir(parents=True)
    work.mkdir()
    (tests / "inner" / "pytest.ini").write_text("[pytest]\n")
    (tests / "inner" / "test_it.py").write_text("def test_a(): pass\n")
    setting = Setting((sys.executable,), tests, work, ("-q",), {"PYTHONPATH": str(INSIDE)}, PLENTY_S)
    (test,) = Runner(setting, Guest(dict(os.environ))).run("inner/test_it.py")
    assert test.name == "inner/test_it.py::test_a"


def test_a_crash_loses_one_test(tmp_path: Path) -> None:
    found = ran(
        tmp_path,
        "import os\ndef test_a(): pass\ndef test_crashes(): os.abort()\ndef test_exits(): os._exit(7)\ndef test_z(): pass\n",
    )
    assert [found[name].outcome for name in ("test_a", "test_crashes", "test_exits", "test_z")] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.FAILED,
        Outcome.PASSED,
    ]
    assert found["test_crashes"].why.startswith("crash: SIGABRT")
    assert found["test_exits"].why.startswith("crash: exit status 7")


def test_a_test_without_end_is_stopped(tmp_path: Path) -> None:
    found = ran(tmp_path, "def test_a():\n    while True: pass\ndef test_b(): pass\n", seconds=2)
    assert (found["test_a"].outcome, found["test_a"].why) == (Outcome.FAILED, "no time left")
    assert found["test_b"].outcome is Outcome.PASSED


def test_a_test_that_fails_beside_others_only_counts_as_it_ends_alone(tmp_path: Path) -> None:
    found = ran(
        tmp_path, "seen = []\ndef test_a(): seen.append(1); assert False\ndef test_b(): assert not seen, 'lost'\n"
    )
    assert (found["test_a"].outcome, found["test_a"].is_alone) == (Outcome.FAILED, True)
    assert (found["test_b"].outcome, found["test_b"].is_alone) == (Outcome.PASSED, True)


def test_a_file_that_cannot_be_imported_is_one_failure(tmp_path: Path) -> None:
    (failed,) = ran(tmp_path, "import nothing_of_this_name\n").values()
    assert failed.outcome is Outcome.FAILED
    assert "nothing_of_this_name" in failed.why


def test_a_file_that_skips_itself_is_one_skip(tmp_path: Path) -> None:
    text = "import pytest\npytest.skip('not here', allow_module_level=True)\n"
    (skipped,) = ran(tmp_path, text).values()
    assert (skipped.outcome, skipped.why) == (Outcome.SKIPPED, "Skipped: not here")


def test_a_crash_at_the_end_is_a_failure(tmp_path: Path) -> None:
    found = ran(tmp_path, "import atexit, os\natexit.register(os.abort)\ndef test_a(): pass\n")
    assert found["test_a"].outcome is Outcome.PASSED
    assert found["(end)"].why.startswith("crash: SIGABRT")


def test_failed_parts_of_a_test_fail_it(tmp_path: Path) -> None:
    found = ran(
        tmp_path,
        "import unittest\nclass Test(unittest.TestCase):\n    def test_a(self):\n"
        "        for i in (0, 1):\n            with self.subTest(i=i): self.assertEqual(i, 0)\n",
    )
    assert found["Test::test_a"].outcome is Outcome.FAILED


def test_children_of_tests_inherit_the_link(tmp_path: Path) -> None:
    """`subprocess` closes descriptors that it is not told of, but a VM's processes all reach their device."""
    reader, writer = os.pipe()
    code = f"import os; os.write({writer}, b'x')"
    tests, work = tmp_path / "tests", tmp_path / "work"
    for made in (tests, work):
        made.mkdir()
    (tests / "test_it.py").write_text(
        f"import subprocess, sys\ndef test_a(): subprocess.run([sys.executable, '-c', {code!r}], check=True)\n"
    )
    guest = Guest(dict(os.environ) | {"VGC_MEMFD": f"name=a,region={writer}"}, (writer,))
    setting = Setting((sys.executable,), tests, work, ("-q",), {"PYTHONPATH": str(INSIDE)}, PLENTY_S)
    try:
        (test,) = Runner(setting, guest).run("test_it.py")
        assert test.outcome is Outcome.PASSED, test.why
        assert os.read(reader, 1) == b"x"
    finally:
        os.close(reader)
        os.close(writer)


# ---- what is kept --------------------------------------------------------------------------------


def test_a_record_that_was_cut_off_tells_the_running_test(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text(
        '{"begins": "a"}\n{"test": "a", "outcome": "passed", "why": "", "seconds": 1}\n{"begins": "b"}\n{"test": "b"'
    )
    record = read_record(path)
    assert ([test.name for test in record.tests], record.running, record.is_whole) == (["a"], "b", False)


def test_results_are_those_of_a_file_s_last_run(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    results.add([CaseResult("b.py::x", Outcome.PASSED)], "b.py")
    results.add([CaseResult("a.py", Outcome.FAILED, "cannot be imported")], "a.py")
    results.add([CaseResult("a.py::x", Outcome.PASSED)], "a.py")
    tests, files = results.read()
    assert files == {"a.py", "b.py"}
    assert {name: test.outcome for name, test in tests.items()} == dict.fromkeys(("a.py::x", "b.py::x"), Outcome.PASSED)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), ["b.py"]),
        (("--again",), ["a.py", "b.py", "c.py"]),
        (("--retry", "lost the device"), ["a.py", "b.py"]),
        (("--retry", "nothing"), ["b.py"]),
        (("--again", "--only", "c"), ["c.py"]),
    ],
)
def test_runs_go_on_where_they_were(tmp_path: Path, words: tuple[str, ...], left: list[str]) -> None:
    results = Results(tmp_path / "results")
    results.add([CaseResult("a.py::x", Outcome.FAILED, "it lost the device")], "a.py")
    results.add([CaseResult("c.py::x", Outcome.PASSED)], "c.py")
    assert to_run(["a.py", "b.py", "c.py"], results, arguments(["pycuda", *words])) == left


def test_share_is_of_tests_that_ran() -> None:
    tests = [CaseResult("a", Outcome.PASSED)] * 3 + [CaseResult("b", Outcome.FAILED), CaseResult("c", Outcome.SKIPPED)]
    assert (percent(tests), counts(tests)) == (75.0, "3 passed, 1 failed, 1 skipped")
    assert (percent([]), counts([])) == (0.0, "no tests")


# ---- the page ------------------------------------------------------------------------------------

TESTS: Final = (
    CaseResult("t/a.py::x", Outcome.PASSED),
    CaseResult("t/a.py::y", Outcome.FAILED, "RuntimeError: no cubin"),
    CaseResult("t/b.py::z", Outcome.FAILED, "AssertionError: 1 | 2"),
    CaseResult("t/b.py::s", Outcome.SKIPPED, "needs two GPUs"),
)
KNOWN: Final = [Remark("", "no cubin", "its wheel has no PTX", "the framework's")]


def test_failures_are_grouped_by_cause() -> None:
    rows = [(why, whose, len(group)) for why, whose, group in page.causes([*TESTS, TESTS[1]], KNOWN)]
    assert rows == [
        ("its wheel has no PTX", "the framework's", 2),
        ("`AssertionError: 1 / 2`", "not looked into", 1),
    ]


def test_a_section_says_what_passes_alone_only() -> None:
    alone = CaseResult("t/a.py::w", Outcome.PASSED, is_alone=True)
    text = page.section(Run("a 1", [*TESTS, alone], "2026-01-01", "software GPU"), KNOWN)
    assert text.startswith("1 of those that pass do so in a process of their own only.\n\n| failed |")
    assert "do so" not in page.section(Run("a 1", TESTS, "2026-01-01", "software GPU"), KNOWN)


def test_a_page_keeps_other_suites_and_other_parts() -> None:
    text = page.with_run("# Public programs\n\nmuch\n", Run("b 1", TESTS, "2026-01-01", "software GPU"), KNOWN)
    text = page.with_run(text, Run("a 2", TESTS[:1], "2026-01-02", "software GPU", "of a commit"), KNOWN)
    text = page.with_run(text, Run("b 1", TESTS[1:], "2026-01-03", "software GPU"), KNOWN)
    assert text.startswith("# Public programs\n\nmuch\n\n# Frameworks' own tests\n")
    assert text.count("| b 1 |") == text.count("## b 1") == text.count(page.OPENING) == 1
    assert "| a 2 | 2026-01-02 | software GPU | 1 | 1 | 0 | 0 | 0 | 100.0 % |" in text
    assert "| b 1 | 2026-01-03 | software GPU | 3 | 0 | 2 | 1 | 0 | 0.0 % |" in text
    assert "## a 2\n\nof a commit\n" in text
    assert "| 1 | its wheel has no PTX | the framework's | `a.py::y` |" in text
    assert page.with_run(text, Run("b 1", TESTS[1:], "2026-01-03", "software GPU"), KNOWN) == text


def test_a_page_of_programs_keeps_the_frameworks() -> None:
    text = page.with_run(report.page([], "a GPU"), Run("b 1", TESTS, "2026-01-01", "software GPU"), KNOWN)
    assert report.page([], "a GPU") + page.kept(text) == text
    assert report.read_page(text) == []
    assert page.kept("# Public programs\n") == ""


def test_remarks_are_complete() -> None:
    for suite in SUITES.values():
        for remark in page.remarks(suite.package):
            assert remark.tests or remark.says
            assert remark.whose in {"the test's", "the framework's", "ours", "the device's"}


# ---- where tests come from -----------------------------------------------------------------------


def test_a_checkout_is_copied_without_the_package(tmp_path: Path) -> None:
    for name in ("thing/__init__.py", "test/test_a.py", ".git/config", "test/thing/x.py"):
        (tmp_path / "given" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "given" / name).touch()
    suite = Suite("thing", "checkout", ("test/**/*.py",), shadows=("thing",))
    copy = environment.tests(suite, Path(sys.executable), tmp_path / "given", tmp_path / "work")
    found = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
    assert found == ["test/test_a.py", "test/thing/x.py"]
    assert list(suite.files(copy)) == found


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(environment.MissingError, match=r"tests of taichi are in its repository only: give .* --tests"):
        environment.tests(SUITES["taichi"], Path(sys.executable), None, tmp_path)
    with pytest.raises(environment.MissingError, match=r"has no package cupy: install it there"):
        environment.version(Path(sys.executable), "cupy")
    with pytest.raises(environment.MissingError, match="its tests run no-such-program"):
        environment.check_programs(Suite("x", "wheel", (), programs=("no-such-program",)))
    assert main(["taichi", "--python", sys.executable, "--work", str(tmp_path)]) == 2
    assert "has no package taichi" in capsys.readouterr().err
