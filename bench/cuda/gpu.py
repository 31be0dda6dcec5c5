"""GPU of this machine, found by the engine's probe in a short process, so that this process loads no driver."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.results import SkipRow
from tools.common import REPOSITORY
from vhost_backend.engines.cuda.driver import DEFAULT_LIBRARY

PROBE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Gpu:
    """Device of the CUDA engine, with the driver library to use."""

    index: int
    uuid: str
    name: str
    arch: str  # "sm_90"
    num_pes: int
    pe_granularity: int
    memory_bytes: int
    max_shared_bytes: int
    driver: Path | None  # None: the system's
    driver_version: str  # of the CUDA API: "13.0"

    @property
    def library(self) -> str:
        """Name or path of the driver library, for dlopen."""
        return DEFAULT_LIBRARY if self.driver is None else str(self.driver)

    def engine(self, **options: Any) -> dict[str, Any]:
        """Section ``engine`` of a VM's configuration."""
        driver = {} if self.driver is None else {"driver": str(self.driver)}
        return {"kind": "cuda", "options": {"device": self.uuid} | driver | options}


def find(driver: Path | None = None) -> Gpu:
    """Finds the first GPU that the engine would use.

    :raise SkipRow: there is no GPU; the text is the probe's.
    """
    command = [sys.executable, "-m", "vhost_backend.engines.cuda.probe"]
    command += ["--driver", str(driver)] if driver else []
    try:
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=PROBE_SECONDS
        )
    except subprocess.CalledProcessError as error:
        raise SkipRow(f"the probe for GPUs failed: {_last_line(error.stderr)}") from error
    except subprocess.TimeoutExpired as error:
        raise SkipRow(f"the probe for GPUs did not end within {PROBE_SECONDS} s") from error
    found = json.loads(done.stdout)
    if not found["devices"]:
        raise SkipRow(f"no GPU: {found['problem']}")
    first = found["devices"][0]
    return Gpu(
        index=first["index"],
        uuid=first["uuid"],
        name=first["name"],
        arch=first["arch"],
        num_pes=first["num_pes"],
        pe_granularity=first["pe_granularity"],
        memory_bytes=first["memory_bytes"],
        max_shared_bytes=first["max_shared_bytes"],
        driver=driver,
        driver_version=found["driver_version"] or "unknown",
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
