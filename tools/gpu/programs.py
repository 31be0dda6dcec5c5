"""CUDA programs of guests in the kit: built here, by mynvcc, for machines that have no clang."""

from __future__ import annotations

from pathlib import Path
from typing import Final

KIT_PROGRAMS: Final = "VGC_GPU_PROGRAMS"
"""Environment variable that names the folder of programs that a kit has brought."""


BENCHMARK: Final = "bench-cudart"
"""The benchmark's program in that folder."""


def build(folder: Path) -> list[str]:
    """Builds the programs into `folder`; returns the names of those that could not be built."""
    from tests.gpu import native_programs

    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, program in native_programs.programs().items():
        work = folder / f".{name}"
        try:
            made = program.build(work)
        except AssertionError:
            failed.append(name)
            continue
        made.rename(folder / name)
        _remove(work)
    return failed + ([] if _build_benchmark(folder) else [BENCHMARK])


def _build_benchmark(folder: Path) -> bool:
    from bench.results import SkipRow
    from bench.rows import cudart

    work = folder / f".{BENCHMARK}"
    work.mkdir()
    try:
        cudart.build(work).rename(folder / BENCHMARK)
    except SkipRow:
        return False
    finally:
        _remove(work)
    return True


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
