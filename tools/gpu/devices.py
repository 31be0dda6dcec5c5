"""Device nodes of NVIDIA's driver, kept open during a run, and a log of the GPU's clocks. Changes no setting."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/dev")
NODES: Final = "nvidia*"
GPU_NODES: Final = "nvidia[0-9]*"
CLOCKS: Final = "timestamp,clocks.sm,clocks.mem,pstate,temperature.gpu,power.draw"
EVERY_MS: Final = 500


@contextmanager
def held_open(folder: Path = FOLDER) -> Iterator[list[str]]:
    """Keeps every GPU's node open: without persistence the driver shuts a GPU down when its last user closes it.

    Each daemon and worker of the tests would then wait for its start. Yields a line for each node: kept open or not.
    """
    lines = []
    with ExitStack() as stack:
        for node in sorted(folder.glob(GPU_NODES)):
            try:
                fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                lines.append(f"cannot hold {node} open: {error.strerror}")
                continue
            stack.callback(os.close, fd)
            lines.append(f"held open: {node}")
        yield lines


def modes(folder: Path = FOLDER) -> dict[str, str]:
    """Permissions of the driver's nodes, which the worker opens as an unprivileged user."""
    return {
        node.name: f"{node.stat().st_mode & 0o777:04o}" for node in sorted(folder.glob(NODES)) if node.is_char_device()
    }


@contextmanager
def clocks_logged(path: Path) -> Iterator[None]:
    """Has nvidia-smi, if installed, write the GPU's clocks to a file twice a second."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        yield
        return
    argv = [smi, f"--query-gpu={CLOCKS}", "--format=csv", "-lms", str(EVERY_MS)]
    with path.open("wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.kill()
        process.wait()
