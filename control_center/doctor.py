"""Check of what a control centre needs on this machine, with how to get what is missing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from control_center import address

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


def examine() -> Iterator[Finding]:
    """Makes all checks, in order."""
    yield Finding("Python", sys.version_info >= (3, 11), sys.version.split()[0], "Python 3.11 or later")
    for module, (use, hint, optional) in _MODULES.items():
        found = importlib.util.find_spec(module) is not None
        yield Finding(f"Python module {module}", found, f"for {use}", hint, optional)
    page = Path(__file__).parent / "web" / "index.html"
    yield Finding("the page", page.exists(), str(page), "reinstall virtio-gpu-compute: its files are incomplete")
    socket = address.local_socket()
    there = f"no {' or '.join(map(str, address.SOCKETS))}" if socket is None else str(socket)
    hint = "start vgcd with --control-socket, or name another socket with --host"
    yield Finding("a daemon on this machine", socket is not None, there, hint, optional=True)
