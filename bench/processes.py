"""Child processes of the benchmarks: always ended, whatever happens, and their output shown if they fail."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.frontend import BackendGone
from tools.common import REPOSITORY


class BackendError(Exception):
    """The connection to a backend failed; the text ends with the last lines that the backend had printed."""


@contextmanager
def backend(command: Sequence[str], log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a vhost-user backend until the block ends. It need not listen yet when the block begins.

    :raise BackendError: when the block fails with an error of the connection.
    """
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    except (OSError, BackendGone, AssertionError) as error:
        raise BackendError(f"{error}; the backend printed: {_last_words(log_path)}") from error
    finally:
        _end(process)


def _last_words(log_path: Path, lines: int = 3) -> str:
    return " / ".join(log_path.read_text(errors="replace").split("\n")[-lines - 1 :]).strip(" /") or "nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
