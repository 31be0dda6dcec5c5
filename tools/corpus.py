"""Compiles every CUDA source below some folders with the CPU engine's compiler, and sums up what compiles and what fails.

A unit is a file ``*.cu`` that no other file includes. It gets the flags -I, -D and -std of the nearest Makefile above it, and
sees its own folder. Failures are grouped by their first error, with the names in it left out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tools.common import die, say

_ASSIGNMENT: Final = re.compile(r"^\s*(\w+)\s*[:?]?=[ \t]*(.*?)\s*$", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\$[({](\w+)[)}]")
_FLAG: Final = re.compile(r"(?<![^\s=])(-I\s*|-D|--?std=)([^\s$]+)")
_INCLUDED: Final = re.compile(r'^\s*#\s*include\s*["<]([^">]*?)([^"/>]+\.cu)[">]', re.MULTILINE)
_ERROR: Final = re.compile(r"error: (.*)")
_NO_KERNEL: Final = "defines no kernel"
_CRASH: Final = ("a defect of the compiler", "internal: ", "[crashed: ")
_SOURCES: Final = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".c")
_SLOWEST: Final = 10
_SECONDS: Final = 120
_MAGIC: Final = (0x43504756).to_bytes(4, "little")
"""``VGC_CPU_IMAGE_MAGIC``."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one unit: ``ok``, ``no kernel`` (parsed, but there is nothing to run), ``failed`` or ``crashed``."""

    unit: str
    verdict: str
    seconds: float
    kernels: int
    cause: str
    error: str


def units(folder: Path) -> list[Path]:
    """Lists the units below `folder`."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _SOURCES and path.is_file()]
    included: set[Path] = set()
    for path in files:
        for match in _INCLUDED.finditer(path.read_text(errors="replace")):
            inner = Path(match[1], match[2])
            included.update(base.resolve() for base in (path.parent / inner, path.parent / inner.name))
    return [path for path in files if path.suffix == ".cu" and path.resolve() not in included]


def flags_of(unit: Path, top: Path) -> tuple[list[Path], list[str]]:
    """Folders of headers and other options for `unit`, from the nearest Makefile up to the folder `top`."""
    folders, options = [unit.parent], []
    for folder in unit.parents:
        if (folder / "Makefile").exists():
            for flag, value in _FLAG.findall(_active(_expanded((folder / "Makefile").read_text(errors="replace")))):
                if flag.startswith("-I"):
                    folders += [] if value.startswith("/") else [folder / value]
                elif "'" not in value and '"' not in value and (flag == "-D" or value.startswith("c++")):
                    options.append(flag.replace("--", "-") + value)
            break
        if folder == top:
            break
    return [path for path in dict.fromkeys(folders) if path.is_dir()], list(dict.fromkeys(options))


def _expanded(makefile: str) -> str:
    """Text of a Makefile with its variables replaced, the last value of each counting; those of the environment are empty."""
    values = dict(_ASSIGNMENT.findall(makefile))
    return _VARIABLE.sub(lambda name: values.get(name[1], ""), makefile)


def _active(makefile: str) -> str:
    """Lines of an expanded Makefile but for those behind an ``ifeq`` or ``ifneq`` that does not hold."""
    active: list[bool] = []
    lines = []
    for line in makefile.splitlines():
        words = line.split(maxsplit=1)
        word = words[0] if words else ""
        if word in ("ifeq", "ifneq"):
            one, _, other = words[-1].strip("() ").partition(",")
            active.append((one.strip() == other.strip()) == (word == "ifeq"))
        elif word in ("ifdef", "ifndef"):
            active.append(True)
        elif word == "else" and active:
            active[-1] = not active[-1]
        elif word == "endif" and active:
            active.pop()
        elif all(active):
            lines.append(line)
    return "\n".join(lines)


def cause_of(log: str) -> tuple[str, str]:
    """First error of a compiler's log: without the names that it quotes, and as it is."""
    errors = _ERROR.findall(log)
    error = errors[0].strip() if errors else (log.strip().splitlines() or ["no message"])[-1]
    if any(word in error for word in ("file not found", "undeclared identifier", "unknown type", "is not defined")):
        return error, error
    return re.sub(r"'[^']*'", "'...'", error), error


class Corpus:
    """Compiles units with the real compiler, without its sandbox."""

    def __init__(self, include: Sequence[Path]) -> None:
        # tools start before the project's packages are installed
        from vhost_backend.engines.cpu.toolchain import compile_job

        self._job = compile_job(())
        self._include = include

    def compile(self, unit: Path, top: Path) -> Result:
        """Compiles one unit."""
        folders, options = flags_of(unit, top)
        with tempfile.TemporaryDirectory(prefix="vgc-corpus-") as work:
            argv = [str(word) for word in self._job.argv]
            argv[argv.index(self._job.input_name)] = str(unit.resolve())
            own = [word for path in (*folders, *self._include) for word in ("--program-dir", str(path.resolve()))]
            argv[1:1] = own
            started = time.monotonic()
            try:
                done = subprocess.run(
                    [*argv, *options], cwd=work, capture_output=True, check=False, timeout=_SECONDS, errors="replace"
                )
                log, code = done.stderr, done.returncode
            except subprocess.TimeoutExpired:
                log, code = f"error: takes more than {_SECONDS} s", 1
            seconds = time.monotonic() - started
            image = Path(work, self._job.output_name)
            kernels = _kernels(image.read_bytes()) if code == 0 else 0
        if code < 0:
            log = f"error: [crashed: signal {-code}]"
        cause, error = ("", "") if code == 0 else cause_of(log)
        return Result(str(unit), _verdict(code, error), round(seconds, 3), kernels, cause, error)


def _verdict(code: int, error: str) -> str:
    if code == 0:
        return "ok"
    if any(word in error for word in _CRASH):
        return "crashed"
    return "no kernel" if _NO_KERNEL in error else "failed"


def _kernels(image: bytes) -> int:
    """Number of kernels that the table of an image names (``struct vgc_cpu_image``)."""
    at = image.find(_MAGIC)
    return 0 if at < 0 else int.from_bytes(image[at + 8 : at + 12], "little")


def report(results: Sequence[Result]) -> Iterator[str]:
    """Lines of the summary: sums, causes by frequency, the slowest units."""
    count = {
        verdict: sum(r.verdict == verdict for r in results) for verdict in ("ok", "no kernel", "failed", "crashed")
    }
    good = count["ok"] + count["no kernel"]
    yield f"{good} of {len(results)} units compile ({100 * good / max(len(results), 1):.1f} %)"
    yield f"  {count['ok']} with {sum(r.kernels for r in results)} kernels, {count['no kernel']} without; {count['failed']} failed, {count['crashed']} crashed"
    causes: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.verdict in ("failed", "crashed"):
            causes[result.cause].append(result)
    for cause, failed in sorted(causes.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"{len(failed):5} {cause}"
        yield f"      {', '.join(result.unit for result in failed[:3])}"
    yield "slowest:"
    for result in sorted(results, key=lambda result: -result.seconds)[:_SLOWEST]:
        yield f"{result.seconds:8.2f} s  {result.unit}"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 if no unit crashed the compiler, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.corpus", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folder of CUDA programs")
    parser.add_argument("-I", dest="include", action="append", type=Path, default=[], help="folder of headers")
    parser.add_argument("-j", dest="jobs", type=int, default=2, help="compilations at once (default: 2)")
    parser.add_argument("--json", type=Path, help="file for all results")
    arguments = parser.parse_args(argv)
    corpus = Corpus(arguments.include)
    found = [(unit, folder) for folder in arguments.folders for unit in units(folder)]
    if not found:
        die("there is no CUDA source below the folders", hint="units are files *.cu")
    say(f"compiling {len(found)} units")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda item: corpus.compile(*item), found))
    print("\n".join(report(results)))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return int(any(result.verdict == "crashed" for result in results))


if __name__ == "__main__":
    sys.exit(main())
