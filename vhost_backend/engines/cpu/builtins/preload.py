"""Loads the libraries of the built-in functions as it is imported: for a process whose copies become workers.

A worker that finds them loaded starts 10 ms earlier. Where they are missing, nothing happens; an engine says why.
"""

from __future__ import annotations

import ctypes
from typing import Final

from vhost_backend.engines.cpu.builtins import library

_WHY_BYTES: Final = 256


def _load() -> None:
    own, openblas = library.library(), library.openblas()
    if own is not None and openblas is not None:
        ctypes.CDLL(str(own)).vgc_cpu_builtins_open(str(openblas).encode(), ctypes.create_string_buffer(_WHY_BYTES))


_load()
