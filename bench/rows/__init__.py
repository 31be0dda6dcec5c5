"""Rows, one module per family; importing a module that `MODULES` lists registers its rows."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "null",
    "copy",
    "region",
    "launches",
    "compute",
    "builtins",
    "programs",
    "ptx",
    "triton",
    "compile",
    "footprint",
    "cores",
    "many",
    "start",
    "takeover",
    "guest",
    "region_kinds",
    "choice",
    "cudart",
    "cublas",
    "frameworks",
    "migration",
    "control",
    "centre",
    "recorder",
    "cuda",
    "cuda_memory",
    "cuda_compute",
    "cuda_sharing",
    "cuda_control",
)


def load() -> None:
    """Registers every row, in the order in which they are run and printed."""
    for name in MODULES:
        import_module(f"bench.rows.{name}")
