"""`make vm`: a shell on the console, with the `vgc` command, Python and the examples."""

from __future__ import annotations

import subprocess
from pathlib import Path
from subprocess import PIPE
from typing import IO

import pytest

from tests.vm.vgcd import Vgcd, VmSettings
from tests.vm.workbench import needs_toolkit
from tools import frameworks, vm
from tools.machine import machine

pytestmark = pytest.mark.vm

PROMPT = b"~ # "
PROMPT_OF_BASH = b":~# "
TYPED = b"""python3 -c 'import guest_driver; print(guest_driver.Device().info().vm_name * 2)'
which vgc
ls examples
cat project/a.cu project/.git/config
exit
"""


def read_until(stream: IO[bytes], end: bytes) -> bytes:
    """Output of `stream` up to `end`, or to the stream's end."""
    seen = b""
    while not seen.endswith(end) and (byte := stream.read(1)):
        seen += byte
    return seen


def test_shell_has_what_a_user_needs_and_exit_powers_off(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    for name in ("a.cu", ".git/config"):
        (project / name).write_text(f"text of {name}\n")
    with Vgcd(VmSettings("shell")) as vgcd:
        device = vgcd.device("shell")
        with device.region() as region:
            kernel, drives = vm.disks(vm.packed([project], tmp_path), None)
            argv = [*machine().argv(kernel), *device.argv(region), *drives, "-serial", "stdio"]
            with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, pass_fds=[region]) as console:
                assert console.stdout is not None
                assert read_until(console.stdout, PROMPT).endswith(PROMPT)  # the firmware swallows earlier input
                shown = console.communicate(TYPED)[0].decode()
    assert console.returncode == 0
    assert "shellshell" in shown
    assert "/usr/local/bin/vgc" in shown
    assert "photo.py" in shown.split("ls examples")[-1]
    assert "text of a.cu" in shown
    assert "text of .git/config" not in shown
    assert "Power down" in shown


@needs_toolkit
def test_shell_has_frameworks_beside_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text of a.txt\n")
    with Vgcd(VmSettings("shell")) as vgcd:
        device = vgcd.device("shell")
        with device.region() as region:
            kernel, drives = vm.disks(vm.packed([tmp_path / "a.txt"], tmp_path), frameworks.disk())
            argv = [*machine(development=True).argv(kernel), *device.argv(region), *drives, "-serial", "stdio"]
            with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, pass_fds=[region]) as console:
                assert console.stdout is not None
                shown = read_until(console.stdout, PROMPT_OF_BASH).decode()
                shown += console.communicate(
                    b"cat a.txt\nDEV=CUDA vgc exec python examples/frameworks/train_tinygrad.py\nexit\n"
                )[0].decode()
    assert "run a program with a framework" in shown
    assert "text of a.txt" in shown
    assert "CUDA: the loss fell from " in shown
