"""The programs of tests/cuda_programs: what the first lines of each say, and how it is built as a user would build it.

A program begins with comments: `// Rule:` what it shows, on one line or more; `// flags:` for mynvcc; `// units:` its other source files;
`// build:` shell commands instead of the usual one; `// expect:` text that it leaves on stdout or stderr; `// needs:` what
a host or toolkit may lack.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from vhost_backend.engines.cpu.cccl import cccl

FOLDER: Final = REPOSITORY / "tests" / "cuda_programs"
TOOLKIT: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit"
_LINE: Final = re.compile(r"^// (Rule|flags|units|build|expect|needs): (.+)$")


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """One program, by its first lines."""

    source: Path
    rule: str
    flags: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    expected: tuple[tuple[str, str], ...] = ()
    """Streams ("stdout", "stderr") with a text that must be in each."""
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.source.stem

    @classmethod
    def read(cls, source: Path) -> CudaProgram:
        """Takes the comments before the first line of code.

        :raise ValueError: the file says no rule.
        """
        lines: dict[str, list[str]] = {}
        for text in source.read_text().splitlines():
            if not text.startswith("//"):
                break
            if found := _LINE.match(text):
                lines.setdefault(found[1], []).append(found[2])
            elif list(lines) == ["Rule"]:
                lines["Rule"].append(text.removeprefix("//").strip())
        if "Rule" not in lines:
            raise ValueError(f"{source} does not begin with '// Rule: ...'")

        def words(key: str) -> tuple[str, ...]:
            return tuple(word for line in lines.get(key, []) for word in shlex.split(line))

        return cls(
            source,
            " ".join(lines["Rule"]),
            words("flags"),
            words("units"),
            tuple(lines.get("build", [])),
            tuple((stream, text) for stream, _, text in (line.partition(": ") for line in lines.get("expect", []))),
            words("needs"),
        )

    @property
    def lacking(self) -> str:
        """Name of the first thing that this machine lacks for the program; empty if it can be built and run."""
        for need in self.needs:
            if need == "cccl" and cccl() is None:
                return "the headers of CUB, Thrust and libcu++ (pip install nvidia-cuda-cccl)"
            if need.startswith("lib") and not (TOOLKIT / "lib64" / f"{need}.so").exists():
                return f"{need}.so in the guest's toolkit"
        return ""

    def compiler_flags(self) -> Iterator[str]:
        """The program's flags, and where this machine has headers that a guest's user would install."""
        yield from self.flags
        if "cccl" in self.needs and (found := cccl()):
            yield f"-I{found.folder}"

    def build(self, folder: Path) -> Path:
        """Builds the program in `folder`, which is created.

        :raise AssertionError: a step failed; its text is the compiler's.
        """
        folder.mkdir(parents=True)
        steps = self.steps or (
            shlex.join(
                [
                    "mynvcc",
                    *self.compiler_flags(),
                    *map(str, (self.source, *(FOLDER / unit for unit in self.units))),
                    "-o",
                    self.name,
                ]
            ),
        )
        environment = os.environ | {
            "PATH": f"{TOOLKIT / 'bin'}:{os.environ['PATH']}",
            "NVCC": "mynvcc",
            "MYNVCC_CACHE": str(TOOLKIT.parent / "headers"),
            "CC": "cc",
            "SOURCE": str(FOLDER),
            "INCLUDE": str(TOOLKIT / "include"),
        }
        for step in steps:
            done = subprocess.run(
                ["/bin/sh", "-c", step],
                check=False,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=HANGS_AFTER_S,
            )
            assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
        return folder / self.name


PROGRAMS: Final = tuple(CudaProgram.read(path) for path in sorted(FOLDER.glob("*.cu")))


class Builds:
    """Builds programs on all cores, ahead of the tests that run them one after the other."""

    def __init__(self, folder: Path, programs: list[CudaProgram]) -> None:
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)
        self._built: dict[str, Future[Path]] = {
            program.name: self._pool.submit(program.build, folder / program.name) for program in programs
        }

    def __getitem__(self, program: CudaProgram) -> Path:
        """Waits for the program; raises what its build raised."""
        return self._built[program.name].result(HANGS_AFTER_S)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
