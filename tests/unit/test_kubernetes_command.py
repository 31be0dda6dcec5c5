"""The command `vgc-kubernetes`: what it takes, and what it says about a node that lacks something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from vgc_kubernetes import cli, terms

MIB = 1 << 20


def problem(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("64M", 64 * MIB), ("1g", 1024 * MIB), ("2GiB", 2048 * MIB), ("1088Mi", 1088 * MIB)]
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert cli.size(text) == size_bytes


@pytest.mark.parametrize("text", ["0", "", "64", "1k", "2T", "-1M", "1.5G"])
def test_sizes_that_are_not_allowed_are_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = problem(capsys, "device-plugin", f"--memory-unit={text}")
    assert f"{text!r} is no size; allowed: 1M to 1T, in whole MiB, such as 64M or 1G" in said


@pytest.mark.parametrize(
    ("option", "allowed"),
    [
        ("--control=tcp:1", "is not a daemon of this node; allowed: unix:/absolute/path"),
        ("--control=/run/vgcd/control.sock", "is not a daemon of this node; allowed: unix:/absolute/path"),
        ("--control=tls://host:7071", "is not a daemon of this node; allowed: unix:/absolute/path"),
        ("--folders=run", "'run' is not allowed; allowed: an absolute path"),
        ("--num-queues=65", "'65' is not allowed; allowed: a number of 1 to 64"),
        ("--group=qemu", "'qemu' is not allowed; allowed: a number of 0 to 4294967294"),
        ("--release-after=-1", "'-1' is not allowed; allowed: a number of 0 to 86400"),
        ("--engine=null", "invalid choice: 'null'"),
    ],
)
def test_options_name_what_is_allowed(option: str, allowed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert allowed in problem(capsys, "device-plugin", option)


@pytest.mark.parametrize(
    ("unit_bytes", "name"), [(256 * MIB, "vgc.dev/memory-256mi"), (1024 * MIB, "vgc.dev/memory-1gi")]
)
def test_resource_of_memory_has_its_unit_in_its_name(unit_bytes: int, name: str) -> None:
    assert terms.memory_resource(unit_bytes) == name


def test_node_without_a_kubelet_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["device-plugin", f"--kubelet={tmp_path}"]) == 1
    assert f"{tmp_path}/device-plugins is not there; allowed: a node with a kubelet" in capsys.readouterr().err


def test_doctor_names_all_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--kubelet={tmp_path}", f"--control=unix:{tmp_path}/control", f"--folders={tmp_path}/a/b"]
    assert cli.main(["doctor", *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    missing = [line.removeprefix("MISSING ").partition(":")[0] for line in lines if line.startswith("MISSING")]
    root = [] if os.geteuid() == 0 else ["root rights"]
    assert missing == [*root, "the kubelet", "the kubelet's list of pods", "vgcd", "folder of sockets"]


def test_missing_package_is_named() -> None:
    script = (
        "import sys; sys.modules['grpc'] = None; from vgc_kubernetes.cli import main; sys.exit(main(['device-plugin']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
    )
    assert done.returncode == 1
    assert done.stderr == "grpc is missing; allowed: pip install 'virtio-gpu-compute[kubernetes]'\n"
