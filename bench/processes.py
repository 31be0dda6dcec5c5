"""Child processes of the benchmarks, which are always ended, and whose output is shown if they fail. Also measures CPU
time and resident memory of processes.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fakes.frontend import BackendGone
from tools.common import REPOSITORY

_PR_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


class BackendError(Exception):
    """The connection to a backend failed; the text ends with the last lines that the backend has printed."""


@contextmanager
def backend(command: Sequence[str], log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a vhost-user backend until the block ends. It may not listen yet when the block begins.

    :raise BackendError: the block fails with an error of the connection.
    """
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  it makes one system call
        )
    try:
        yield process
    except (OSError, BackendGone, AssertionError) as error:
        raise BackendError(f"{error}; the backend printed: {_last_words(log_path)}") from error
    finally:
        _end(process)


def _end_with_parent() -> None:
    """Runs in the child: has it ended with the benchmark, so that no daemon keeps a GPU."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _last_words(log_path: Path, lines: int = 3) -> str:
    return " / ".join(log_path.read_text(errors="replace").split("\n")[-lines - 1 :]).strip(" /") or "nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_ns(pids: Iterable[int]) -> int:
    """CPU time of all current threads of the processes. A thread that ends meanwhile counts as 0."""
    return sum(_thread_ns(task) for pid in pids for task in _threads(pid))


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return []


def _thread_ns(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0


@dataclass(frozen=True, slots=True)
class Resident:
    """Resident memory in MiB, by kind of pages."""

    anon: float
    """Anonymous pages: heap, stacks, modified pages of private mappings."""
    file: float
    """Pages of files: programs, libraries; shared with every process that maps them."""
    shared: float
    """Pages of shared memory: a VM's region, the control area."""

    @property
    def total(self) -> float:
        """Total resident memory, VmRSS."""
        return self.anon + self.file + self.shared

    def __add__(self, other: Resident) -> Resident:
        return Resident(self.anon + other.anon, self.file + other.file, self.shared + other.shared)


def resident(pids: Iterable[int]) -> Resident:
    """Resident memory of the processes together. :raise LookupError: a process does not show it."""
    return sum(map(_resident, pids), Resident(0, 0, 0))


def _resident(pid: int) -> Resident:
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kib = {words[0]: int(words[1]) for words in lines if words and words[0].startswith("Rss")}
    try:
        return Resident(*(kib[f"Rss{kind}:"] / 1024 for kind in ("Anon", "File", "Shmem")))
    except KeyError as missing:
        raise LookupError(f"process {pid} shows no {missing.args[0]}") from missing


def proportional_mib(pids: Iterable[int]) -> float:
    """Memory of processes together in MiB, of which a page that several share counts as a part of each (PSS)."""
    return sum(_proportional_kib(pid) for pid in pids) / 1024


def _proportional_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
