"""Guests of a link: the binding in this process, and other processes that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import guest_driver as vgc
from tests.fakes.link import GuestLink
from tests.limits import ANSWERS_WITHIN_S

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = ANSWERS_WITHIN_S


def open_device(link: GuestLink, state_dir: Path, **options: Any) -> vgc.Device:
    """Opens the link's device in this process."""
    os.environ["VGC_MEMFD"] = link.description
    try:
        return vgc.Device(state_dir=str(state_dir), **options)
    finally:
        del os.environ["VGC_MEMFD"]


class GuestProcess:
    """Process that runs `script` with the device open as ``dev``, until it ends or is killed.

    The script reports its progress with ``say(word)``, for which `expect` waits; ``hear()`` waits for `tell`.
    """

    PRELUDE = (
        "import sys\nimport guest_driver as vgc\n"
        "def say(word): print(word, flush=True)\n"
        "def hear(): return sys.stdin.readline().strip()\n"
    )

    def __init__(self, link: GuestLink, state_dir: Path, script: str, *, opens: bool = True) -> None:
        opening = f"dev = vgc.Device(state_dir={str(state_dir)!r})\n" if opens else ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.PRELUDE + opening + script],
            cwd=REPOSITORY,
            env=os.environ | {"VGC_MEMFD": link.description},
            pass_fds=link.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def kill(self) -> None:
        """Sends SIGKILL and returns when the process is gone."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def expect(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line == word, f"the guest process said {line!r}"

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)
