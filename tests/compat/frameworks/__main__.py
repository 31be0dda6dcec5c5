"""Command line: `python -m tests.compat.frameworks SUITE`."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.frameworks import environment, page
from tests.compat.frameworks.outcomes import CaseResult, Outcome, Results, counts, percent
from tests.compat.frameworks.runner import INSIDE, Runner, Setting
from tests.compat.frameworks.suites import SUITES, Suite
from tests.compat.guest import daemon_guests, vm_guests
from tools import frameworks
from tools.common import cache_folder, locked

ROOT: Final = Path(__file__).resolve().parents[3]


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.frameworks",
        description="Runs a framework's own tests with `vgc exec` on a virtual GPU, each file in a process of its own, and says "
        "which pass and why others fail.",
        epilog="A run that was interrupted goes on with the next file; --again starts anew, --retry runs files with failures again.",
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument(
        "--python", type=Path, help="interpreter that has the framework [the environment of `make frameworks`]"
    )
    parser.add_argument("--tests", type=Path, metavar="FOLDER", help="checkout or sources that have the tests")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "compat-frameworks", help="results and logs [%(default)s]"
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="files whose path matches")
    parser.add_argument("--again", action="store_true", help="run again what has results")
    parser.add_argument(
        "--retry", metavar="REGEX", help="run files again in which a test failed whose name or words match"
    )
    parser.add_argument("--device", choices=("daemon", "vm"), default="daemon", help="own daemon, or this VM's device")
    parser.add_argument("--pes", type=int, default=2, help="processing elements of the device [%(default)s]")
    parser.add_argument("--memory", type=int, default=2048, metavar="MIB", help="memory of the device [%(default)s]")
    parser.add_argument(
        "--test-time", type=float, default=120, metavar="S", help="processor time of a test [%(default)s]"
    )
    parser.add_argument("--note", default="", help="words about the tests, such as their commit, for the page")
    parser.add_argument("--page", type=Path, help="write the suite's part of docs/compatibility.md to this file")
    options = parser.parse_args(words)
    if options.page and not options.page.exists():
        parser.error(f"{options.page} is not there; allowed: a page that `python -m tests.compat` wrote")
    return options


@dataclass(frozen=True, slots=True)
class Place:
    """Folders and interpreter of one suite's run."""

    suite: Suite
    python: Path
    beside: tuple[Path, ...]
    """Folders of packages that the tests need."""
    tests: Path
    work: Path

    def setting(self, test_seconds: float) -> Setting:
        toolkit = [sys.executable, "-m", "guest_driver", "exec"]
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        variables = dict(self.suite.variables) | {
            "HOME": str(home),
            "VGC_BESIDE": ":".join(map(str, self.beside)),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "PYTHONPATH": f"{INSIDE}:{self.tests}" if self.suite.source == "checkout" else str(INSIDE),
        }
        inner = [f"{name}={value}" for name, value in variables.items()]
        command = (*toolkit, "env", *inner, str(self.python))
        outer = {"PYTHONPATH": str(ROOT)}
        return Setting(command, self.tests, self.work, ("-q", *self.suite.options), outer, test_seconds)


def place(name: str, options: argparse.Namespace) -> Place:
    """Gets the tests, and a Python for them.

    :raise environment.MissingError: the user has to give or install something.
    """
    suite = SUITES[name]
    work = options.work.resolve() / name
    work.mkdir(parents=True, exist_ok=True)
    framework = options.python or frameworks.python() or cache_folder() / "frameworks" / "bin" / "python"
    if not framework.exists():
        raise environment.MissingError("run `make frameworks`, or name an interpreter with --python")
    environment.version(framework, suite.package)
    environment.check_programs(suite)
    found = environment.tests(suite, framework, options.tests, work)
    return Place(suite, framework, tuple(environment.beside(framework, suite, work)), found, work)


def to_run(files: list[str], results: Results, options: argparse.Namespace) -> list[str]:
    """Files that have no results yet, and those whose results are not to count any more."""
    tests, done = results.read()
    if options.again:
        done = set()
    if options.retry:
        done -= {test.file for test in tests.values() if _is_retried(test, options.retry)}
    return [file for file in files if file not in done and re.search(options.only, file)]


def _is_retried(test: CaseResult, pattern: str) -> bool:
    return test.outcome is Outcome.FAILED and re.search(pattern, f"{test.name} {test.why}") is not None


def run(found: Place, results: Results, options: argparse.Namespace) -> None:
    """Runs the files that are left, and tells of each."""
    files = to_run(list(found.suite.files(found.tests)), results, options)
    host = found.work / f"host-{os.getpid()}"
    host.mkdir(exist_ok=True)
    devices = vm_guests(1) if options.device == "vm" else daemon_guests(host, 1, options.memory, options.pes)
    with devices as (guest,):
        for number, file in enumerate(files, 1):
            tests = Runner(found.setting(options.test_time), guest).run(file)
            results.add(tests, file)
            seconds = sum(test.seconds for test in tests)
            print(f"[{number}/{len(files)}] {file}: {counts(tests)}, {seconds:.0f} s", flush=True)
            for test in tests:
                if test.outcome is Outcome.FAILED:
                    print(f"    {test.name}: {test.why[:150]}", flush=True)


def _part(done: int, files: int) -> str:
    """Words on how much of a suite has been run, if it is not all."""
    return f"{done} of its {files} files of tests have been run." if done < files else ""


def main(words: list[str] | None = None) -> int:
    options = arguments(words)
    try:
        found = place(options.suite, options)
    except environment.MissingError as error:
        print(f"{options.suite}: {error}", file=sys.stderr)
        return 2
    results = Results(found.work / "results.jsonl")
    if to_run(list(found.suite.files(found.tests)), results, options):
        with locked(found.work / "lock"):  # a second run of the suite waits, and goes on from there
            run(found, results, options)
    present = set(found.suite.files(found.tests))
    known, done = results.read()
    tests = [test for test in known.values() if test.file in present]
    print(f"{options.suite}: {counts(tests)}; {percent(tests):.1f} % of those run pass")
    if options.page:
        engine = "this VM's device" if options.device == "vm" else "software GPU"
        how = f", {found.suite.how}" if found.suite.how else ""
        title = f"{found.suite.package} {environment.version(found.python, found.suite.package)}{how}"
        note = " ".join(filter(None, (options.note, _part(len(present & done), len(present)))))
        whole = page.Run(title, sorted(tests, key=lambda test: test.name), time.strftime("%Y-%m-%d"), engine, note)
        options.page.write_text(page.with_run(options.page.read_text(), whole, page.remarks(found.suite.package)))
    return 0 if all(test.outcome is not Outcome.FAILED for test in tests) else 1


if __name__ == "__main__":
    sys.exit(main())
