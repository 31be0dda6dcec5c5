"""The survey of a host's GPUs: answers of a probe, and probes that do not answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_AFTER_S
from vhost_backend.daemon.gpus import Gpu, Survey, SurveyError, parse_survey, survey

UUID = "GPU-8f6d2a1e-0c3b-4d5e-9f70-1a2b3c4d5e6f"
DEVICE = {
    "index": 0,
    "uuid": UUID,
    "name": "NVIDIA H200",
    "arch": "sm_90",
    "num_pes": 132,
    "memory_bytes": 150 << 30,
    "min_pes": 8,
    "pe_granularity": 8,
    "max_shared_bytes": 232448,
}
FOUND = {"driver_version": "13.0", "devices": [DEVICE], "problem": None}


def said(**changes: Any) -> bytes:
    return json.dumps(FOUND | changes).encode()


def ask(script: str, timeout_s: float = HANGS_AFTER_S, **options: str) -> Survey:
    """Survey by a probe that is this Python program."""
    probe = (sys.executable, "-c", script)
    return asyncio.run(survey(**options, probe=probe, timeout_s=timeout_s))


def test_probe_finds_devices() -> None:
    found = ask(f"print({said().decode()!r})")
    assert found == Survey((Gpu(0, UUID, "NVIDIA H200", "sm_90", 132, 150 << 30, 8, 8, 232448),), "13.0")


def test_probe_reports_the_drivers_file() -> None:
    assert parse_survey(said(driver_path="/opt/lib/libcuda.so.1")).driver_path == "/opt/lib/libcuda.so.1"


def test_probe_gets_driver_and_device_as_options() -> None:
    script = "import os, sys, json; print(json.dumps({'driver_version': None, 'devices': [], 'problem': ' '.join([*sys.argv[1:], os.environ['CUDA_VISIBLE_DEVICES']])}))"
    assert ask(script, driver="/opt/libcuda.so.1", visible="MIG-1").problem == "--driver /opt/libcuda.so.1 MIG-1"


def test_host_without_a_driver_is_reported() -> None:
    assert parse_survey(said(driver_version=None, devices=[], problem="no NVIDIA driver: libcuda.so.1")) == Survey(
        problem="no NVIDIA driver: libcuda.so.1"
    )
    assert parse_survey(said(devices=[])).problem == "the NVIDIA driver sees no GPU"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": None}, "no list of devices"),
        ({"devices": [1]}, "a device is no object"),
        ({"devices": [DEVICE] * 65}, "found 65 devices"),
        ({"driver_version": None}, "devices without a driver"),
        ({"driver_version": "13"}, "driver_version is '13'"),
        ({"problem": ["x"]}, "problem is"),
        *(
            ({"devices": [DEVICE | {key: value}]}, f"{key} is")
            for key, value in (
                ("index", 64),
                ("uuid", "GPU-\n"),
                ("name", 3),
                ("arch", "sm_90; rm"),
                ("num_pes", 0),
                ("num_pes", True),
                ("memory_bytes", -1),
                ("min_pes", None),
                ("pe_granularity", "8"),
                ("max_shared_bytes", 1.5),
            )
        ),
    ],
)
def test_malformed_survey_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SurveyError, match=words):
        parse_survey(said(**changes))


@pytest.mark.parametrize("output", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_answer_that_is_no_json_is_refused(output: bytes) -> None:
    with pytest.raises(SurveyError):
        parse_survey(output)


def test_names_have_no_control_characters() -> None:
    (gpu,) = parse_survey(said(devices=[DEVICE | {"name": "a\nb\x1b[0m"}])).gpus
    assert gpu.name == "a b [0m"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", "the probe was killed by SIGKILL"),
        ("raise SystemExit(3)", "the probe exited with 3"),
        ("print('x' * (1 << 20))", "printed more than"),
        ("print('no json')", "printed no JSON"),
    ],
)
def test_probe_that_fails_is_a_problem_and_no_error(script: str, words: str) -> None:
    found = ask(script)
    assert found.gpus == ()
    assert words in found.problem


def test_probe_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    script = f"import os, signal; open({str(fifo)!r}, 'w'); held = open({str(fifo)!r}, 'w'); os.fork(); signal.pause()"
    assert "did not answer within 0.5 s" in ask(script, timeout_s=0.5).problem
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "somebody still holds the other end"
    os.close(reader)


def test_probe_that_cannot_be_started_is_a_problem() -> None:
    assert "could not be examined" in asyncio.run(survey(probe=("/nowhere/probe",))).problem
