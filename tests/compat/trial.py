"""One program's way from its sources to a verdict."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from tests.compat import corpus, shrink, verdict
from tests.compat.corpus import Program
from tests.compat.guest import Guest
from tests.compat.process import Limits, run
from tests.compat.verdict import Cause, Finished, Status, Verdict

_CUDA_FOLDERS: Final = ("CUDA_DIR", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_INSTALL_PATH", "CUDA_TOOLKIT_PATH")
"""Names by which Makefiles know the toolkit's folder."""
_DIVISOR: Final = 16
"""Divisor of the numbers among the arguments, in runs on small data."""
_OF_NO_DATA: Final = frozenset({Cause.FILE, Cause.CRASH, Cause.EXIT, Cause.WRONG, Cause.ARGUMENTS})
"""Causes that programs without their data set show."""
_IN_PLACE: Final = frozenset({"make", "target", "parboil"})
_LIBVGC: Final = Path(__file__).resolve().parents[2] / "guest_driver" / "libvgc" / "build"
_REPLACED: Final = "cudaErrorDevicesUnavailable"


@dataclass(frozen=True, slots=True)
class Result:
    """A program's verdict, with the time that it took."""

    name: str
    how: str
    status: Status
    cause: Cause
    detail: str
    build_seconds: float
    run_seconds: float
    day: str = ""
    """Day of the trial."""

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def parse(cls, record: dict[str, Any]) -> Self:
        return cls(**(record | {"status": Status(record["status"]), "cause": Cause(record["cause"])}))


def bring_modules(built_in: Path, folder: Path) -> None:
    """Copies modules that a build has made to the folder in which the program runs, where it looks for them."""
    if built_in != folder:
        for pattern in ("*.fatbin", "*.ptx", "*.cubin"):
            for module in built_in.glob(pattern):
                shutil.copy(module, folder)


def _text(path: Path) -> str:
    """A file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Trials:
    """Settings that all trials of a session have in common."""

    root: Path
    work: Path
    """Takes logs, and what is built outside of a program's folder."""
    toolkit: Path
    build_limits: Limits
    run_limits: Limits
    is_built_only: bool = False
    """Builds, and runs nothing: the device does not see the GPU parts."""
    is_in_step: bool = False
    """The devices keep the lanes of warps in step, which is told with the result."""
    is_shrunk: bool = False
    """Runs with repeat counts of 1, on small data first."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments of programs that need ones of their own to be small."""

    def run(self, program: Program, guest: Guest) -> Result:
        """Builds the program, runs it, judges it; both logs stay in the work folder."""
        logs = self.work / "logs" / program.name
        logs.mkdir(parents=True, exist_ok=True)
        built_in = program.folder if program.how in _IN_PLACE else self.work / "build" / program.name
        build = self._build(program, built_in, logs, guest)
        found = verdict.of_build(build)
        ran = Finished(0, "")
        if found is None and self.is_built_only:
            found = Verdict(Status.BUILDS)
        elif found is None:
            bring_modules(built_in, program.folder)
            found, ran = self._try(program, built_in, logs, guest)
        is_built = verdict.of_build(build) is None
        data = corpus.absent_data(program) if is_built and found.cause in _OF_NO_DATA else None
        if found.cause in {Cause.CRASH, Cause.EXIT}:  # a wrong result might be one, whatever its program is to write
            data = data or corpus.absent_input(program)
        if found.cause in {Cause.FILE, Cause.LIBRARY}:
            data = data or corpus.absent_submodule(program, self.root)
        if data:
            found = Verdict(Status.EXCLUDED, Cause.FILE, data)
        elif found.status is Status.FAILED and corpus.is_exercise(program):
            found = Verdict(Status.EXCLUDED, Cause.EXERCISE, found.detail)
        elif found.status is Status.FAILED and corpus.needs_openacc(program):
            found = Verdict(Status.EXCLUDED, Cause.OUTSIDE, "OpenACC")
        return Result(
            program.name,
            program.how,
            found.status,
            found.cause,
            self._without_paths(found).detail,
            round(build.seconds, 2),
            round(ran.seconds, 2),
        )

    def _try(self, program: Program, built_in: Path, logs: Path, guest: Guest) -> tuple[Verdict, Finished]:
        """Runs the program: on small data first, if that is allowed, and as its authors would unless that went well."""
        given = self.given.get(program.name) if self.is_shrunk else None
        if given is not None:
            return self._run_once(corpus.command(program, built_in, given=given), program, logs, guest)
        for divisor in (_DIVISOR, 1) if self.is_shrunk else ():
            found, ran = self._run_once(corpus.command(program, built_in, divisor=divisor), program, logs, guest)
            if found.status is not Status.FAILED or found.cause is Cause.TIME or shrink.SAID not in ran.output:
                return found, ran
        return self._run_once(corpus.command(program, built_in), program, logs, guest)

    def _run_once(self, command: str | None, program: Program, logs: Path, guest: Guest) -> tuple[Verdict, Finished]:
        if command is None:
            return Verdict(Status.FAILED, Cause.BUILD, "the build left no program"), Finished(0, "")
        with contextlib.suppress(OSError):
            guest.last_error.unlink()
        shell = ["/bin/sh", "-c", command]
        confines = self.run_limits, self._view(guest)
        ran = run(shell, program.folder, logs / "run.txt", confines)
        if _REPLACED in _text(guest.last_error):  # after the program before, which was stopped amid a kernel
            guest.last_error.unlink()
            ran = run(shell, program.folder, logs / "run.txt", confines)
        found = verdict.of_run(ran, _text(guest.last_error))
        said = [line for line in ran.output.splitlines() if line.startswith(shrink.SAID)]
        if found.status is not Status.FAILED:
            step = "with lanes in step" if self.is_in_step else ""
            found = replace(found, detail="; ".join(filter(None, (found.detail, step, *said[:1])))[:200])
        return found, ran

    def _without_paths(self, found: Verdict) -> Verdict:
        """The verdict without this machine's folders."""
        return replace(found, detail=found.detail.replace(f"{self.root}/", "").replace(f"{self.work}/", ""))

    def _view(self, guest: Guest) -> Guest:
        """The guest's environment with the toolkit in it."""
        folders = dict.fromkeys(_CUDA_FOLDERS, str(self.toolkit))
        libraries = ":".join(filter(None, (str(self.toolkit / "lib64"), os.environ.get("LD_LIBRARY_PATH"))))
        own = {
            "PATH": f"{self.toolkit / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": libraries,
            "LIBRARY_PATH": ":".join(
                filter(None, (str(self.toolkit / "lib64"), os.environ.get("LIBRARY_PATH")))
            ),  # for Makefiles that name /usr/local/cuda alone
            "NVCC": "nvcc",
            "CUDACXX": str(self.toolkit / "bin" / "nvcc"),
            "LC_ALL": "C.UTF-8",
            "VIRTUAL_ENV": sys.prefix,  # where mynvcc finds the CUB, Thrust and libcu++ that the tests have
        }
        return replace(guest, environment=guest.environment | folders | own)

    def _build(self, program: Program, built_in: Path, logs: Path, guest: Guest) -> Finished:
        view = self._view(guest)
        if corpus.absent_data(program):  # its run would not get as far as the device's compiler
            libraries = f"{_LIBVGC}:{view.environment['LD_LIBRARY_PATH']}"
            checks = {"NVCC_APPEND_FLAGS": "--check", "LD_LIBRARY_PATH": libraries}
            view = replace(view, environment=view.environment | checks)
        total = Finished(0, "")
        for index, step in enumerate(self._steps(program, built_in)):
            log = logs / f"build{index}.txt"
            done = run(step, program.folder, log, (self.build_limits, view))
            total = Finished(done.code, done.output, total.seconds + done.seconds, done.stopped)
            if verdict.of_build(done):
                break
        return total

    def _steps(self, program: Program, built_in: Path) -> list[list[str]]:
        """Commands that build the program anew."""
        folders = [f"{name}={self.toolkit}" for name in _CUDA_FOLDERS]
        if program.how in {"make", "target"}:
            assigned = [*folders, *corpus.nvcc_variables(program.folder)]
            return [["make", "-B", *assigned, *filter(None, [program.target])]]
        if program.how == "parboil":
            (
                corpus.parboil_root(program) / "common" / "Makefile.conf"
            ).touch()  # its users' part, here on the command line
            makefile = corpus.parboil_root(program) / "common" / "mk" / "Makefile"
            assigned = corpus.parboil_assignments(program, self.toolkit)
            return [["make", "-B", "default", "-f", str(makefile), *folders, *assigned]]
        shutil.rmtree(built_in, ignore_errors=True)
        built_in.mkdir(parents=True)
        if program.how == "cmake":
            options = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CUDA_COMPILER={self.toolkit / 'bin' / 'nvcc'}"]
            configure = ["cmake", "-S", str(program.folder), "-B", str(built_in), *options]
            return [configure, ["cmake", "--build", str(built_in)]]
        includes = [f"-I{folder}" for folder in corpus.include_folders(program.folder, self.root)]
        target = built_in / program.sources[0].stem
        options = ["-O2", "-std=c++17", *includes, *corpus.libraries(program.sources)]
        return [["nvcc", *options, *map(str, program.sources), "-o", str(target)]]
