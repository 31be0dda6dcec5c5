"""Provenance of saved results: hardware, driver, date and commit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.cuda.gpu import find
from bench.results import Result, rows_of
from tools.common import REPOSITORY

QUERY_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of figures. Every entry of a saved file has it, so that each can be quoted alone."""

    hardware: str
    driver: str
    date: str
    commit: str


def _first_line(command: Sequence[str]) -> str | None:
    """First line of a program's output; None if there is no such program, or it fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=QUERY_SECONDS)
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def commit() -> str:
    """Commit of the sources, and whether they have changes."""
    head = _first_line(["git", "rev-parse", "--short=12", "HEAD"])
    changed = _first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{head or 'unknown'}{' with changes' if changed else ''}"


def provenance(driver: Path | None) -> Provenance:
    """Provenance of figures measured now. ``VGC_COMMIT`` names the commit of sources without their repository.

    :param driver: libcuda, if it is not the system's.
    :raise SkipRow: there is no GPU, whose figures such files hold.
    """
    gpu = find(driver)
    version = None if driver else _first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return Provenance(
        hardware=f"{gpu.name}, {gpu.num_pes} SMs, {gpu.memory_bytes >> 20} MiB",
        driver=f"{version or driver or 'unknown'} (CUDA {gpu.driver_version})",
        date=datetime.now(UTC).date().isoformat(),
        commit=os.environ.get("VGC_COMMIT") or commit(),
    )


def save(path: Path, results: Sequence[Result], where_from: Provenance) -> Path:
    """Writes the entries of ``results.json``, each with its provenance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [entry | asdict(where_from) for entry in rows_of(results)]
    path.write_text(json.dumps(entries, indent=2) + "\n")
    return path
