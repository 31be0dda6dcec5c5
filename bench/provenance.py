"""Results that are kept: on which hardware, with which driver, when, and of which state of the sources."""

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
    """Where figures come from; it stands in every entry of a kept file, so that each can be quoted alone."""

    hardware: str
    driver: str
    date: str
    commit: str


def _first_line(command: Sequence[str]) -> str | None:
    """What a program prints first; None where there is no such program, or it fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=QUERY_SECONDS)
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def _commit() -> str:
    """Of the sources; ``VGC_COMMIT`` says it where they are a copy without their repository."""
    commit = _first_line(["git", "rev-parse", "--short=12", "HEAD"])
    changed = _first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{commit or 'unknown'}{' with changes' if changed else ''}"


def provenance(driver: Path | None) -> Provenance:
    """Of figures taken here and now.

    :param driver: libcuda, where it is not the system's.
    :raise SkipRow: when there is no GPU: files of this kind are about one.
    """
    gpu = find(driver)
    version = None if driver else _first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return Provenance(
        hardware=f"{gpu.name}, {gpu.num_pes} SMs, {gpu.memory_bytes >> 20} MiB",
        driver=f"{version or driver or 'unknown'} (CUDA {gpu.driver_version})",
        date=datetime.now(UTC).date().isoformat(),
        commit=os.environ.get("VGC_COMMIT") or _commit(),
    )


def save(path: Path, results: Sequence[Result], where_from: Provenance) -> Path:
    """Writes the entries of ``results.json``, each with its provenance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [entry | asdict(where_from) for entry in rows_of(results)]
    path.write_text(json.dumps(entries, indent=2) + "\n")
    return path
