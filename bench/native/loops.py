"""Hot loops, built at the first import: ``ffi`` and ``lib`` of the cffi extension."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.native import build

build.ensure()
_extension: Any = import_module("bench.native._loops")
ffi: Any = _extension.ffi
lib: Any = _extension.lib
