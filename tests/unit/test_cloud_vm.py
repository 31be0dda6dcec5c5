"""Disk images for clouds that `make vm IMAGE=` boots, and those that it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import cloud_vm

MIB = 1 << 20
_format = cloud_vm._format


def make_qcow(path: Path, *options: str) -> Path:
    program = shutil.which("qemu-img")
    if program is None:
        pytest.skip("there is no qemu-img (Debian: qemu-utils)")
    subprocess.run([program, "create", "-q", "-f", "qcow2", *options, path, str(MIB)], check=True)
    return path


def test_formats_are_known_by_contents(tmp_path: Path) -> None:
    raw = tmp_path / 'disk, of "somebody\'s".qcow2'
    raw.write_bytes(b"\x55\xaa".rjust(512, b"\0"))
    assert _format(raw) == "raw"
    for version in ("0.10", "1.1"):
        assert _format(make_qcow(tmp_path / f"{version}.img", "-o", f"compat={version}")) == "qcow2"


@pytest.mark.parametrize("version", ["0.10", "1.1"])
def test_image_over_a_file_of_this_machine_is_refused(
    tmp_path: Path, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(MIB))
    image = make_qcow(tmp_path / "image", "-o", f"compat={version}", "-b", str(secret), "-F", "raw")
    with pytest.raises(SystemExit):
        _format(image)
    assert f"{image} is an image over another file" in capsys.readouterr().err


def test_image_whose_data_is_another_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = make_qcow(tmp_path / "image", "-o", f"data_file={tmp_path / 'data'},data_file_raw=on")
    with pytest.raises(SystemExit):
        _format(image)
    assert "is an image over another file" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "folder", "nothing", "text"])
def test_what_is_no_image_is_named(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("no image")
    with pytest.raises(SystemExit):
        _format(path)
    assert str(path) in capsys.readouterr().err
