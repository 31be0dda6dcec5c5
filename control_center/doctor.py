"""Check of what a control centre needs on this machine, with how to get what is missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from control_center import address

if TYPE_CHECKING:
    from control_center.config import RecorderConfig

_MODULES: Final = {
    "aiohttp": ("the web server", "pip install 'virtio-gpu-compute[control]'", False),
    "msgpack": ("the daemons' protocol", "pip install virtio-gpu-compute", False),
    "msgspec": ("the verbs of the control API", "pip install virtio-gpu-compute", False),
    "yaml": ("the configuration", "pip install virtio-gpu-compute", False),
    "structlog": ("the log", "pip install virtio-gpu-compute", False),
    "psycopg": ("recordings in PostgreSQL", "pip install 'virtio-gpu-compute[postgres]'", True),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    what: str
    ok: bool
    text: str
    hint: str
    optional: bool = False

    def line(self) -> str:
        mark = "ok" if self.ok else "--" if self.optional else "MISSING"
        return f"{mark:8}{self.what}: {self.text}" + ("" if self.ok else f"; {self.hint}")


def examine(recorder: RecorderConfig | None = None) -> Iterator[Finding]:
    """Makes all checks, in order. `recorder`: configuration of the recorder whose disk is checked, too."""
    yield Finding("Python", sys.version_info >= (3, 11), sys.version.split()[0], "Python 3.11 or later")
    for module, (use, hint, optional) in _MODULES.items():
        found = importlib.util.find_spec(module) is not None
        yield Finding(f"Python module {module}", found, f"for {use}", hint, optional)
    page = Path(__file__).parent / "web" / "index.html"
    yield Finding("the page", page.exists(), str(page), "reinstall virtio-gpu-compute: its files are incomplete")
    socket = address.local_socket()
    there = f"no {' or '.join(map(str, address.SOCKETS))}" if socket is None else str(socket)
    if recorder is not None:
        yield from _room(recorder)
    hint = "start vgcd with --control-socket, or name another socket with --host"
    yield Finding("a daemon on this machine", socket is not None, there, hint, optional=True)


def _room(recorder: RecorderConfig) -> Iterator[Finding]:
    """Compares the free space on a recording's disk with what the recording may still grow by."""
    from control_center.health import LOW_DISK_BYTES
    from control_center.recorder.dialect import free_bytes, sqlite_path

    free = free_bytes(recorder.url)
    if free is None:
        if recorder.url.startswith("sqlite:"):
            folder = sqlite_path(recorder.url).absolute().parent
            hint = "vgc-control-center makes it when it starts; its disk could not be checked"
            yield Finding("the recording's folder", folder.exists(), str(folder), hint, optional=True)
        return
    path = sqlite_path(recorder.url)
    present = path.stat().st_size if path.exists() else 0
    wanted = max(0, recorder.size_bytes - present)
    text = f"{free >> 20} MiB are free on the disk of {path}, and it may grow by {wanted >> 20} MiB"
    hint = "make room there, or give the recorder a smaller size"
    is_short = free < LOW_DISK_BYTES
    yield Finding("room for the recording", not is_short and free >= wanted, text, hint, optional=not is_short)
