"""Findings of `vgcd doctor` about the control system."""

from __future__ import annotations

import importlib.util
import resource
import shutil
from collections.abc import Iterator
from typing import Final

from vhost_backend.doctor import remedies
from vhost_backend.doctor.finding import Finding

_MODULES: Final = {"msgpack": "msgpack", "msgspec": "msgspec", "cryptography": "cryptography"}
MIN_FILES: Final = 4096
"""Recommended limit on open files: three descriptors for each VM, and one for each client of the control API."""


def examine() -> Iterator[Finding]:
    """Checks modules and limits; takes no time."""
    for module, package in _MODULES.items():
        found = importlib.util.find_spec(module) is not None
        text = "found" if found else "missing"
        yield Finding(f"Python module {module} (control system)", found, text, remedies.module(package))
    centre = importlib.util.find_spec("aiohttp") is not None or shutil.which("vgc-control-center") is not None
    text = (
        "its server can run here" if centre else "its server cannot run here, daemons can be controlled from elsewhere"
    )
    yield Finding("control centre", centre, text, remedies.centre(), optional=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= MIN_FILES
    shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    yield Finding("open files", enough, f"{shown} allowed", f"LimitNOFILE={MIN_FILES} or more", optional=True)
