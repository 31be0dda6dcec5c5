"""Linux's own vhost-user frontend, in User-Mode Linux: the handshake, and a frontend that has no region to offer."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.vm import FakeVm
from tests.limits import HANGS_AFTER_S
from tests.vm.vgcd import Vgcd, VmSettings
from tools import uml
from virtio_proto import schema
from virtio_proto.schema import Opcode, Status

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="Debian's user-mode-linux runs on x86_64 only"),
]

INIT = Path(__file__).with_name("guest_programs") / "uml_init.py"
CONSOLE_ID = 3
"""Virtio id of a device for which Debian's kernel has a driver: it starts two queues and reads no configuration."""

NO_ROOM_FOR_REGISTERS = "ptrace set fp regs failed"
"""Message of a User-Mode Linux that cannot run any process on its host's processor."""

NEW, DRIVER_OK = 1, 15
"""Status of a device that the kernel has found, and of one that a driver has started."""


@pytest.fixture(scope="module")
def linux() -> uml.UserModeLinux:
    try:
        return uml.find()
    except SystemExit:
        pytest.skip(f"Debian's package {uml.PACKAGE} cannot be had here; python -m tools.uml says why")


def settings(name: str) -> VmSettings:
    return VmSettings(name, region_bytes=16 << 20, extra={"engine": "null"})


def boot(linux: uml.UserModeLinux, vgcd: Vgcd, virtio_id: int, *arguments: str) -> list[str]:
    """Boots a kernel with the device of VM "uml" until it halts; returns the lines that its first process printed."""
    init = (sys.executable, "-I", "-S", str(INIT), *arguments)
    argv = linux.argv(socket=vgcd.folder / "uml.sock", virtio_id=virtio_id, init=init, folder=vgcd.folder / "uml")
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    ) as kernel:
        try:
            console, _ = kernel.communicate(timeout=HANGS_AFTER_S)
        except subprocess.TimeoutExpired:
            os.killpg(kernel.pid, signal.SIGKILL)  # the kernel's processes are processes of the host
            raise
    if NO_ROOM_FOR_REGISTERS in console:
        pytest.skip("this kernel of Debian's has no room for the registers of this processor (AMX, for example)")
    print(console)  # noqa: T201  pytest shows it when the test fails
    return [line for line in console.splitlines() if line.split(":")[0] in {"found", "bound", "unbind", "bind", "end"}]


def log_of(vgcd: Vgcd) -> str:
    return (vgcd.folder / "vgcd.log").read_text()


def test_kernel_finds_the_device(linux: uml.UserModeLinux) -> None:
    with Vgcd(settings("uml")) as vgcd:
        assert boot(linux, vgcd, schema.VIRTIO_ID) == [f"found: device {schema.VIRTIO_ID}, status {NEW}", "end"]
        log = log_of(vgcd)
        assert "frontend_connected" in log
        assert "frontend_dropped" not in log


def test_driver_without_a_region_comes_and_goes_and_the_log_says_why_it_gets_nothing(linux: uml.UserModeLinux) -> None:
    """The machine's only memory is its RAM. Its driver starts queues in it, which are not served."""
    module = linux.modules / "kernel/drivers/char/virtio_console.ko"
    with Vgcd(settings("uml"), settings("other")) as vgcd, FakeVm(vgcd.folder / "other.sock") as other:
        assert other.driver.request(Opcode.NOP).status == Status.OK
        assert boot(linux, vgcd, CONSOLE_ID, str(module), "virtio_console") == [
            f"found: device {CONSOLE_ID}, status {NEW}",
            f"bound: device {CONSOLE_ID}, status {DRIVER_OK}",
            f"unbind: device {CONSOLE_ID}, status {NEW}",
            f"bind: device {CONSOLE_ID}, status {DRIVER_OK}",
            "end",
        ]
        log = log_of(vgcd)
        assert "vring_not_served" in log
        assert "and no region; allowed: a whole file of 16 MiB" in log
        assert "frontend_dropped" not in log
        assert "message_refused" not in log
        assert other.driver.request(Opcode.NOP).status == Status.OK
