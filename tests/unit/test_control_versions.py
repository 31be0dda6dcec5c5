"""Versions of a host's GPUs that the control system shows: the driver's and the VBIOS's, from NVML."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest

from tests.fakes import nvml_library
from vhost_backend.config.engine import EngineConfig
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.host.gpu_events import GpuWatch
from vhost_backend.daemon import control_adapter
from vhost_backend.daemon.control_adapter import DaemonHost, Roster
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.gpus import Gpu, Survey
from vhost_backend.daemon.host_status import Ground
from vhost_backend.log import get_logger

KNOWN: Final = "GPU-0"
"""VBIOS version that the fake NVML reports."""
CUDA_SAYS: Final = "12.4"


def host(uuid: str) -> DaemonHost:
    """A host with one GPU for its only VM."""
    gpu = Gpu(0, uuid, "Fake GPU", "sm_90", 132, 80 << 30, 8, 8, 228 << 10)

    async def survey(_driver: str | None, _device: str | None) -> Survey:
        return Survey((gpu,), driver_version=CUDA_SAYS)

    vm = SimpleNamespace(config=SimpleNamespace(engine=EngineConfig("cuda")))
    roster = SimpleNamespace(vms={"a": vm})
    return DaemonHost(cast("Roster", roster), Engines(survey, lambda *_: None), EventBus(get_logger()), Ground(1, 1))


@pytest.mark.parametrize(
    ("uuid", "library", "versions"),
    [
        (KNOWN, True, ("999.10", "96.00.0")),
        ("GPU-7", True, ("999.10", None)),
        (KNOWN, False, (f"CUDA {CUDA_SAYS}", None)),
    ],
    ids=["known", "another GPU", "no NVML"],
)
def test_gpus_have_the_versions_that_nvml_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uuid: str, library: bool, versions: tuple[str, str | None]
) -> None:
    os.mkfifo(tmp_path / "xids")
    monkeypatch.setenv("VGC_FAKE_XIDS", str(tmp_path / "xids"))
    path = nvml_library.build(tmp_path) if library else tmp_path / "nowhere"
    started = asyncio.Event()

    class Watched(GpuWatch):
        async def start(self) -> None:
            await super().start()
            started.set()

    monkeypatch.setattr(control_adapter, "GpuWatch", partial(Watched, library=str(path)))

    async def session() -> None:
        shown = host(uuid)
        watching = asyncio.create_task(shown.watch())
        await started.wait()
        software, gpu = await shown.gpus()
        assert (gpu["driver_version"], gpu.get("vbios_version")) == versions
        assert "vbios_version" not in software
        watching.cancel()
        await asyncio.wait({watching})

    asyncio.run(session())
