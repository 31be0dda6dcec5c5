"""A guest with PyTorch, on the CUDA engine over the fake driver, which records launches and computes nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.protocol.fake_gpu import fake_gpu_host
from tests.protocol.guest_host import GuestHost
from tools import pytorch

_LAUNCH: Final = re.compile(r"launch (\S+) grid=([\d,]+) block=([\d,]+) params=([\da-f]*)")


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch that the driver got."""

    kernel: str
    grid: str
    block: str
    params: bytes


@dataclass(frozen=True, slots=True)
class TorchHost:
    """A daemon whose one VM has a link, and the driver's log."""

    host: GuestHost
    log: Path | None

    def lines(self, beginning: str = "") -> list[str]:
        """Lines of the driver's log that begin so."""
        assert self.log is not None
        return [line for line in self.log.read_text().splitlines() if line.startswith(beginning)]

    def launches(self) -> list[Launch]:
        found = [_LAUNCH.fullmatch(line) for line in self.lines("launch ")]
        return [Launch(one[1], one[2], one[3], bytes.fromhex(one[4])) for one in found if one]

    def output(self, *words: str, fails: bool = False) -> str:
        """Standard output of a program in PyTorch's Python; standard error, if it is to fail."""
        python = pytorch.python()
        assert python is not None
        settings = [f"HOME={self.host.state_dir.parent}", f"PATH={os.environ['PATH']}", "PYTHONWARNINGS=ignore"]
        done = self.host.run("env", *settings, sys.executable, "-m", "guest_driver", "exec", python, *words)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout


def needs_pytorch() -> None:
    """Skips the test where PyTorch is not installed."""
    if pytorch.python() is None:
        pytest.skip("needs `make frameworks-pytorch`")


@contextmanager
def torch_host(folder: Path, *libraries: str) -> Iterator[TorchHost]:
    """On the CUDA engine, with fakes of NVIDIA's `libraries`; its log is in `folder`."""
    needs_pytorch()
    with fake_gpu_host(folder, *libraries) as (host, log):
        yield TorchHost(host, log)
