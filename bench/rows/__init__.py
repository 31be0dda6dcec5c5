"""One module per family of rows; a module here that is listed in `MODULES` registers its rows when imported."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "null",
    "copy",
    "compute",
    "compile",
    "footprint",
    "guest",
    "migration",
    "control",
    "centre",
    "recorder",
    "cuda",
    "cuda_compute",
    "cuda_sharing",
    "cuda_control",
)


def load() -> None:
    """Registers every row, in the order in which they are run and printed."""
    for name in MODULES:
        import_module(f"bench.rows.{name}")
