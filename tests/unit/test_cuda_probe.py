"""The probe reports GPUs, or the reason why none can be used, in one line; it never fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.cuda_driver import build, with_settings
from tests.limits import HANGS_AFTER_S
from vhost_backend.daemon.gpus import Survey, parse_survey

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


def said(library: Path | str, *, program: str = "-m vhost_backend.engines.cuda.probe", visible: str = "0,1,2") -> bytes:
    """Output of a probe that may see the GPUs `visible`."""
    command = [sys.executable, *program.split(), "--driver", str(library)]
    environment = {"CUDA_VISIBLE_DEVICES": visible, "PYTHONPATH": "."}
    done = subprocess.run(command, capture_output=True, check=True, timeout=HANGS_AFTER_S, env=environment)
    assert done.stdout.count(b"\n") == 1
    return done.stdout


def surveyed(library: Path | str, visible: str = "0,1,2") -> Survey:
    return parse_survey(said(library, visible=visible))


def test_devices_are_reported(tmp_path: Path) -> None:
    library = with_settings(tmp_path, "devices 2\n0.name NVIDIA H200\n1.name NVIDIA L4\n1.capability 8.9\n1.sms 58\n")
    found = surveyed(library)
    assert [(gpu.name, gpu.arch, gpu.num_pes) for gpu in found.gpus] == [
        ("NVIDIA H200", "sm_90", 132),
        ("NVIDIA L4", "sm_89", 58),
    ]
    assert (found.driver_version, found.driver_path, found.problem) == ("13.0", str(library), "")


def test_the_daemon_may_limit_the_probe_to_a_device(tmp_path: Path) -> None:
    mig = "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2"
    library = with_settings(tmp_path, f"devices 2\n1.mig {mig}\n1.name Fake MIG 1g\n1.uuid {mig[4:]}\n1.sms 16\n")
    assert [(gpu.uuid, gpu.num_pes) for gpu in surveyed(library, visible=mig).gpus] == [(mig, 16)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("init_result 803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("driver_version 12000", "at least 12.4 is needed"),
        ("attribute.20 2", "GPU 0: its compute mode is Prohibited"),
        ("inject cuDeviceGetName 999", "GPU 0: cuDeviceGetName: CUDA_ERROR_UNKNOWN"),
        ("devices 0", "CUDA_ERROR_NO_DEVICE"),
    ],
)
def test_problems_are_reported(tmp_path: Path, settings: str, problem: str) -> None:
    found = surveyed(with_settings(tmp_path, settings + "\n"))
    assert not found.gpus
    assert problem in found.problem


def test_an_unusable_device_does_not_affect_others(tmp_path: Path) -> None:
    found = surveyed(with_settings(tmp_path, "devices 2\n0.attribute.20 2\n"))
    assert [gpu.index for gpu in found.gpus] == [1]
    assert found.problem.startswith("GPU 0: its compute mode")


def test_a_missing_driver_is_reported_with_advice() -> None:
    assert json.loads(said("/nowhere/libcuda.so.1")) == {
        "driver_path": None,
        "driver_version": None,
        "devices": [],
        "problem": "driver /nowhere/libcuda.so.1: /nowhere/libcuda.so.1: cannot open shared object file:"
        " No such file or directory",
    }


def test_output_of_the_driver_does_not_disturb_the_answer(tmp_path: Path) -> None:
    """Stdout has one line, even if the driver writes there."""
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        "import os\n"
        "from vhost_backend.engines.cuda import probe\n"
        "ask = probe.probe\n"
        "probe.probe = lambda library: (os.write(1, b'NVRM: hello\\n'), ask(library))[1]\n"
        "probe.main()\n"
    )
    assert parse_survey(said(build(), program=str(noisy))).gpus
