"""Programs of several launches, measured as a whole by the rows in ``bench/rows/programs.py``."""

from __future__ import annotations

from bench.programs.graphs import bfs, spmv
from bench.programs.grids import gaussian, hotspot, lud, transpose
from bench.programs.particles import lavamd
from bench.programs.program import Program, Step
from bench.programs.sequences import nw, radix_sort, scan
from bench.programs.transformer import transformer_block, transformer_block_bf16

__all__ = [
    "ALL",
    "Program",
    "Step",
    "bfs",
    "gaussian",
    "hotspot",
    "lavamd",
    "lud",
    "nw",
    "radix_sort",
    "scan",
    "spmv",
    "transformer_block",
    "transformer_block_bf16",
    "transpose",
]

ALL = (
    *(bfs, nw, gaussian, lud, hotspot, lavamd, scan, transpose, spmv),
    *(transformer_block, transformer_block_bf16),
)
