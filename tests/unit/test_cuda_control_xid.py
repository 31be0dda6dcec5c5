"""Xid errors and versions of GPUs: the catalogue, and their way to the daemon."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.fakes import nvml_library
from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.control.faults import xid
from vhost_backend.control.faults.xid import CATALOGUE, Severity
from vhost_backend.control.host.gpu_events import GpuWatch
from vhost_backend.engines.cuda.nvml import GpuVersions


@pytest.mark.parametrize(
    ("number", "severity", "meaning", "advice"),
    [
        (13, Severity.PROGRAM, "illegal", "program"),
        (31, Severity.PROGRAM, "page fault", "program"),
        (48, Severity.RESET, "ECC", "--gpu-reset"),
        (63, Severity.NOTICE, "retired", "Nothing"),
        (79, Severity.HOST, "fallen off the bus", "reboot"),
        (92, Severity.REPLACE, "too frequent", "out of service"),
        (119, Severity.RESET, "GSP", "--gpu-reset"),
    ],
)
def test_catalogue_has_texts_of_known_errors(number: int, severity: Severity, meaning: str, advice: str) -> None:
    assert xid.severity(number) is severity
    assert meaning in xid.describe(number)
    assert advice in xid.advice(number)


def test_an_unknown_number_refers_to_nvidias_catalogue() -> None:
    assert xid.severity(9999) is None
    assert xid.describe(9999) == "Xid 9999: not in our catalogue"
    assert "docs.nvidia.com" in xid.advice(9999)


def test_every_entry_has_a_text_and_an_action() -> None:
    assert all(entry.meaning and xid.ACTIONS[entry.severity] for entry in CATALOGUE.values())
    assert set(xid.ACTIONS) == set(Severity)


class Heard:
    """Reports of a watch."""

    def __init__(self, library: str) -> None:
        self.xids: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        self.problems: list[str] = []
        self.watch = GpuWatch(lambda uuid, number: self.xids.put_nowait((uuid, number)), self.problems.append, library)


def test_versions_and_errors_of_gpus_reach_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "xids"
    os.mkfifo(fifo)
    monkeypatch.setenv("VGC_FAKE_XIDS", str(fifo))

    async def session() -> None:
        heard = Heard(str(nvml_library.build(tmp_path)))
        await heard.watch.start()
        versions = heard.watch.versions
        assert versions is not None
        assert versions.driver == "999.10"
        assert versions.of("gpu-0") == GpuVersions("GPU-0", "00000000:01:00.0", "96.00.0")
        assert versions.of("GPU-1") == GpuVersions("GPU-1", "00000000:02:00.0", "")
        assert versions.of("GPU-7") is None
        writer = os.open(fifo, os.O_RDWR)
        os.write(writer, b"0 79\n0 31\n")
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            assert [await heard.xids.get(), await heard.xids.get()] == [("GPU-0", 79), ("GPU-0", 31)]
        os.close(writer)
        await heard.watch.close()
        assert heard.problems == ["GPU-1: nvmlDeviceRegisterEvents: an error (3)"]

    asyncio.run(session())


@pytest.mark.parametrize(
    ("result", "missing", "problem"),
    [("9", False, r"nvmlInit_v2: Driver Not Loaded \(9\)"), ("0", True, r"libnvidia-ml\.so\.1 cannot be used")],
)
def test_a_missing_driver_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: str, missing: bool, problem: str
) -> None:
    monkeypatch.setenv("VGC_FAKE_NVML_RESULT", result)
    library = tmp_path / "nowhere" / "libnvidia-ml.so.1" if missing else nvml_library.build(tmp_path)

    async def session() -> None:
        heard = Heard(str(library))
        await heard.watch.start()
        await heard.watch.close()
        assert heard.watch.versions is None
        assert len(heard.problems) == 1
        assert re.search(problem, heard.problems[0])

    asyncio.run(session())
