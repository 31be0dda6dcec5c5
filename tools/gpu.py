"""``make gpu``: everything that needs an NVIDIA GPU, in one go and in bounded time, on whatever machine has one.

Needs no network, no root rights and no ``.venv``: what it takes is a Python of 3.11 or newer that finds the project's
packages (in an environment, or on ``PYTHONPATH``), gcc with Python's headers, and NVIDIA's driver. It says what is
missing, builds the C parts, runs ``tests/gpu`` and the CUDA rows of the benchmarks, keeps their figures, and ends with
a summary. A stage that fails keeps no other from running; only where there is no GPU, nothing does.

    python3 -m tools.gpu                     on a machine with a GPU
    python3 -m tools.gpu --out DIR           logs and results go there too (default: build/gpu)
    python3 -m tools.gpu --driver PATH       with another libcuda; with the tests' fake one it shows that all of this runs
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.build import PARTS, bring_up_to_date
from tools.common import BUILD, REPOSITORY, say

RESULTS: Final = REPOSITORY / "bench" / "results"
PACKAGES: Final = {
    "cffi": "cffi",
    "setuptools": "setuptools",  # cffi builds with it, from Python 3.12 on
    "construct": "construct",
    "numpy": "numpy",
    "yaml": "pyyaml",
    "structlog": "structlog",
    "cuda.bindings.driver": "cuda-bindings",
    "pytest": "pytest",
    "pytest_timeout": "pytest-timeout",
}
"""What is imported, and the name that pip knows it by."""

NOT_NEEDED: Final = ("CPU engine's compiler",)
"""Parts that GPU machines seldom have the tools for (LLVM), and that nothing here uses."""

ALL_S: Final = 460
BUILD_S, TESTS_S, CONTRACT_S = 90, 120, 80
"""The most that a stage may take; the rows have what the others leave."""

SPARE_S: Final = 70
"""For the row that runs when time is up: the longest that one waits for a device that does not answer."""

NO_GPU: Final = "no GPU"
"""What a fact of `look` begins with where there is none."""

CONTRACT: Final = "tests/gpu/test_contract.py"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage came to; `facts` are lines for the summary."""

    name: str
    good: bool
    seconds: float
    facts: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{'ok    ' if self.good else 'FAILED'} {self.name} ({self.seconds:.0f} s)"
        return "\n".join([head, *(f"         {fact}" for fact in self.facts)])


@dataclass(frozen=True, slots=True)
class Job:
    """What was asked for on the command line."""

    out: Path
    driver: Path | None
    quick: bool
    more_tests: bool
    until: float
    """When time is up, on the clock of ``time.monotonic``."""

    def left(self, most: float = float("inf")) -> float:
        """Seconds that a stage has."""
        return max(1.0, min(most, self.until - time.monotonic()))


def _environment() -> dict[str, str]:
    """Of every child: our packages beside the ones that this process finds; output at once."""
    folders = [str(REPOSITORY), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": "1"}


def _run(job: Job, log_name: str, argv: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Runs a program with its output in a log of its own, and shown; its exit code, None if it ran too long."""
    log = job.out / log_name
    with log.open("wb") as file:
        process = subprocess.Popen(argv, cwd=REPOSITORY, env=_environment(), stdout=file, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            code = None
    text = log.read_text(errors="replace")
    print(text, flush=True)
    return code, text


# ---- stages ------------------------------------------------------------------------------------


def look(job: Job) -> tuple[bool, list[str]]:
    """What there is, and what is missing."""
    facts = [f"Python {sys.version.split()[0]} at {sys.executable}, kernel {os.uname().release}"]
    missing = [pip for module, pip in PACKAGES.items() if not _has_module(module)]
    if missing:
        facts.append(f"missing Python packages: {' '.join(missing)} (pip install, or wheels unpacked on PYTHONPATH)")
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists() and not any(Path(p, "Python.h").exists() for p in _include_folders()):
        facts.append(f"missing {header}: install Python's development files, or name their folder in CPATH")
    facts += [f"missing program: {name}" for name in ("gcc", "g++", "make") if shutil.which(name) is None]
    problems = len(facts) - 1
    facts += _driver_facts(job)
    return problems == 0 and not _has_no_gpu(facts), facts


def _has_no_gpu(facts: Sequence[str]) -> bool:
    return any(fact.startswith(NO_GPU) for fact in facts)


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _include_folders() -> list[str]:
    return [folder for folder in os.environ.get("CPATH", "").split(os.pathsep) if folder]


def _driver_facts(job: Job) -> list[str]:
    """About the GPU, from its own tool and from the engine's probe."""
    facts = []
    smi = shutil.which("nvidia-smi")
    if smi is not None:
        fields = "--query-gpu=name,driver_version,memory.total,mig.mode.current,compute_mode"
        done = subprocess.run([smi, fields, "--format=csv,noheader"], capture_output=True, text=True, check=False)
        facts += [f"nvidia-smi: {line}" for line in (done.stdout or done.stderr).strip().splitlines()]
    driver = ["--driver", str(job.driver)] if job.driver else []
    argv = [sys.executable, "-m", "vhost_backend.engines.cuda.probe", *driver]
    _, text = _run(job, "probe.log", argv, job.left(60))
    verdict = NO_GPU if '"devices": []' in text else "GPU"
    return [*facts, f"{verdict}: {text.strip()[:600]}"]


def build(job: Job) -> tuple[bool, list[str]]:
    """The C parts, each for itself; the benchmark's loops and baselines too."""
    script = "from tools.gpu import build_parts; build_parts()"
    code, text = _run(job, "build.log", [sys.executable, "-c", script], job.left(BUILD_S))
    facts = [line for line in text.splitlines() if line.startswith("did not build: ")]
    return code == 0, facts or ([] if code == 0 else [_ending(code)])


def build_parts() -> None:
    """What `build` has a process of its own do. Ends it with 1 if a part failed."""
    failed = [part.name for part in PARTS if part.name not in NOT_NEEDED and not bring_up_to_date(part)]
    loops = subprocess.run([sys.executable, "-m", "bench.native.build"], cwd=REPOSITORY, check=False)
    failed += ["benchmark's loops"] if loops.returncode != 0 else []
    for name in failed:
        print(f"did not build: {name}")
    sys.exit(1 if failed else 0)


def tests(job: Job) -> tuple[bool, list[str]]:
    """``tests/gpu``: on the GPU, or with --driver those that a fake one can follow."""
    return _pytest(job, "tests.log", ["tests/gpu", f"--ignore={CONTRACT}"], TESTS_S)


def contract(job: Job) -> tuple[bool, list[str]]:
    """The engines' contract, in a process of its own: the engine runs in it, and could take it along."""
    if job.driver:
        return True, ["on the fake driver it is a test of tests/unit"]
    return _pytest(job, "contract.log", [CONTRACT], CONTRACT_S)


def _pytest(job: Job, log_name: str, chosen: Sequence[str], seconds: int) -> tuple[bool, list[str]]:
    on_gpu = "gpu" if job.more_tests else "gpu and not slow and not vm"
    which = ["-k", "fake_gpu"] if job.driver else ["-m", on_gpu]
    options = ["-o", "filterwarnings=default", "-p", "no:cacheprovider", "--timeout", "60", "-v"]
    limit = job.left() / 2 if job.more_tests else job.left(seconds)
    code, text = _run(job, log_name, [sys.executable, "-m", "pytest", *chosen, *options, *which], limit)
    found = re.findall(r"^(?:FAILED|ERROR|SKIPPED) .*$", text, re.MULTILINE)
    lines = text.strip().splitlines()
    ended = [line for line in lines if re.search(r"\d+ (?:passed|failed|skipped)", line)][-1:]
    if code is None or not ended:
        ended = [f"{_ending(code)}; its last line: {lines[-1] if lines else ''}"]
    return code == 0, [line[:300] for line in (*ended, *found[:40])]


def rows(job: Job) -> tuple[bool, list[str]]:
    """The benchmark's CUDA rows; on a real GPU the figures are kept."""
    kept = ["--smoke", "--driver", str(job.driver)] if job.driver else ["--save", str(job.out / "results.json")]
    quick = ["--quick"] if job.quick or job.driver else []
    begin_s = max(1.0, job.left() - SPARE_S)
    limit = ["--limit", f"{begin_s:.0f}", "--out", str(BUILD / "gpu" / "rows")]
    argv = [sys.executable, "-m", "bench", "cuda_*", "quota_*", *limit, *kept, *quick]
    code, text = _run(job, "rows.log", argv, begin_s + SPARE_S)
    told = ("skipped",) if job.driver else ("skipped", "MISSED")  # small sizes reach no goal
    facts = [line for line in text.splitlines() if any(word in line for word in told)]
    results = job.out / "results.json"
    if code != 0:
        facts.append(_ending(code))
    elif results.exists():
        facts.append(f"kept: {_keep(results)}")
    return code == 0 and not any(line.startswith("skipped") for line in facts), [fact[:300] for fact in facts]


def _ending(code: int | None) -> str:
    return "ran out of time" if code is None else f"ended with {code}"


def _keep(results: Path) -> Path:
    """Copies the figures to where they are committed, called like the GPU: ``bench/results/h200.json``."""
    name = re.search(r'"hardware": "([^",]+)', results.read_text())
    words = re.sub(r"[^a-z0-9]+", "-", (name[1] if name else "unknown").lower().replace("nvidia", "")).strip("-")
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / f"{words}.json"
    shutil.copy(results, kept)
    return kept.relative_to(REPOSITORY)


# ---- all of it ---------------------------------------------------------------------------------

STAGES: Final[dict[str, Callable[[Job], tuple[bool, list[str]]]]] = {
    "look": look,
    "build": build,
    "tests": tests,
    "contract": contract,
    "rows": rows,
}


def _stage(name: str, job: Job) -> Stage:
    """Runs one; whatever goes wrong in it is its result."""
    say(f"{name} ...")
    start = time.monotonic()
    try:
        good, facts = STAGES[name](job)
    except Exception as error:  # noqa: BLE001  the next stage may tell more
        good, facts = False, [f"{type(error).__name__}: {error}"]
    return Stage(name, good, time.monotonic() - start, facts)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every stage went well."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)} (default: all)")
    parser.add_argument("--out", type=Path, default=BUILD / "gpu", help="folder of logs and results")
    parser.add_argument("--driver", type=Path, default=None, help="libcuda.so.1 (default: the system's)")
    parser.add_argument("--quick", action="store_true", help="fewer samples of each row")
    parser.add_argument("--more", action="store_true", help="also compute-sanitizer and a guest in QEMU")
    parser.add_argument("--seconds", type=float, default=ALL_S, help=f"for all of it (default: {ALL_S})")
    args = parser.parse_args(argv)
    if unknown := set(args.stages) - set(STAGES):
        parser.error(f"{', '.join(sorted(unknown))} is no stage; there are: {', '.join(STAGES)}")
    driver = args.driver.resolve() if args.driver else None
    until = time.monotonic() + args.seconds
    job = Job(args.out.resolve(), driver, quick=args.quick, more_tests=args.more, until=until)
    job.out.mkdir(parents=True, exist_ok=True)
    done: list[Stage] = []
    for name in args.stages or STAGES:
        done.append(_stage(name, job))
        if name == "look" and _has_no_gpu(done[-1].facts):
            break  # of the others, all would be skipped
    summary = "\n".join(map(str, done))
    (job.out / "summary.txt").write_text(summary + "\n")
    print(f"\n{summary}")
    return 0 if all(stage.good for stage in done) else 1


if __name__ == "__main__":
    sys.exit(main())
