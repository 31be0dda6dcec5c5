"""`make vm IMAGE=`: a stock Debian for clouds, in which installing the guest's packages is all that is done."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.vm.test_shell import read_until
from tests.vm.vgcd import Vgcd, VmSettings
from tools import cloud_image, cloud_vm, debian

PROMPT: Final = b"root@guest:~# "
DEPENDENCIES: Final = ("python3-cffi", "python3-construct", "python3-numpy")
INSTALL: Final = f"DEBIAN_FRONTEND=noninteractive {cloud_vm.INSTALL.replace('install', 'install --yes --quiet')}"
ENDS_WITHIN_S: Final = 3 * HANGS_AFTER_S
"""Time of it all: Debian boots, and installs packages, under emulation."""
PRODUCT: Final = (
    "import numpy as np, guest_driver as vgc; a = np.arange(6.0).reshape(2, 3); "
    "print(vgc.Device().blas.gemm(a, a, transpose_b=True).tolist())"
)
MEMBER: Final = "setpriv --reuid nobody --regid nogroup --groups $(getent group vgc | cut -d: -f3)"

pytestmark = [
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.skipif("VGC_CLOUD" not in os.environ, reason="takes minutes: VGC_CLOUD=1, as in `make nightly`"),
    pytest.mark.skipif(os.geteuid() != 0, reason="the image is installed by root"),
]


@pytest.fixture(scope="module")
def packages() -> list[Path]:
    """Debian's packages that ours need, for a guest without network."""
    with debian.private_apt(cloud_image.SUITE) as apt:
        return apt.fetch(DEPENDENCIES)


def ask(console: subprocess.Popen[bytes], command: str) -> str:
    """Types a command once the prompt is there, and returns what it prints; programs may drop what is typed before."""
    assert console.stdin is not None
    assert console.stdout is not None
    console.stdin.write(f"{command}\n".encode())
    console.stdin.flush()
    return read_until(console.stdout, PROMPT).decode(errors="replace").replace("\r", "")


@contextmanager
def running(argv: list[str], region: int) -> Iterator[subprocess.Popen[bytes]]:
    """Runs QEMU with its console as standard input and output; kills it at the end, and once it takes too long."""
    with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, pass_fds=[region]) as console:
        hangs = threading.Timer(ENDS_WITHIN_S, console.kill)
        hangs.start()
        try:
            yield console
        finally:
            hangs.cancel()
            console.kill()


@pytest.mark.timeout(2 * ENDS_WITHIN_S)
@pytest.mark.parametrize("has_network", [False, True], ids=["offline", "network"])
def test_installing_the_packages_is_all_that_a_stock_image_needs(
    has_network: bool, packages: list[Path], tmp_path: Path
) -> None:
    cloud_vm.make_seed(tmp_path, () if has_network else packages)
    machine = cloud_vm.machine(cloud_image.image(), tmp_path, has_network=has_network)
    with Vgcd(VmSettings("cloud")) as vgcd:
        device = vgcd.device("cloud")
        with device.region() as region:
            argv = [*machine.argv(), *device.argv(region), "-serial", "stdio"]
            with running(argv, region) as console:
                assert cloud_vm.INSTALL in ask(console, "")
                assert "running\n" in ask(console, "systemctl is-system-running --wait"), "a unit of Debian's failed"
                if has_network:
                    assert "status 0\n" in ask(console, "apt-get update --quiet; echo status $?")
                assert "status 0\n" in ask(console, f"{INSTALL}; echo status $?")
                ask(console, "until ls /run/vgc/*.grant; do sleep 1; done")  # udev has the boot-time unit started
                assert "[ !! ]" not in ask(console, "vgc doctor")
                assert "(cpu), ready" in ask(console, f"{MEMBER} vgc info")
                assert "[5.0, 14.0]" in ask(console, f"{MEMBER} python3 -c '{PRODUCT}'")
                console.communicate(b"poweroff\n")
    assert console.returncode == 0
