"""The device in containers of a guest: bubblewrap makes the namespaces, mounts and capabilities that container engines make."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.vm.harness import Guest
from tests.vm.test_guest_driver import as_user, guest_with_device

pytestmark = pytest.mark.vm

BUBBLEWRAP: Final = "/opt/bubblewrap"
CONTAINER: Final = "--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --ro-bind /sys /sys --unshare-pid --unshare-ipc"
BUS: Final = "--bind /sys/devices/pci0000:00 /sys/devices/pci0000:00"
STATE: Final = "--bind /run/vgc /run/vgc"
INTERRUPTS: Final = "--dev-bind /dev/uio0 /dev/uio0"
ALL: Final = f"{BUS} {STATE} {INTERRUPTS}"
"""Options by which a container may use the device."""

GROUP: Final = 4242
HOLDER: Final = """
import os, sys, time
import guest_driver as vgc
with vgc.Device() as dev:
    open("/tmp/holds", "w").close()
    while not os.path.exists("/tmp/done"):
        dev.nop()
print("well")
"""


def put_bubblewrap(guest: Guest) -> None:
    """Puts the host's program into the guest, with the libraries that it needs."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("no bwrap in PATH: install bubblewrap")
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True, timeout=HANGS_AFTER_S).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", listed):
        if not name.startswith("libc.so"):
            guest.put(Path(path).resolve(), f"{BUBBLEWRAP}/{name}")
    guest.put(Path(program), f"{BUBBLEWRAP}/bwrap")
    guest.run(f"chmod -R a+rX {BUBBLEWRAP} && chmod 755 {BUBBLEWRAP}/bwrap")


def contained(options: str, command: str, *, capabilities: bool = False) -> str:
    """Command line of a program in a container, by default without capabilities."""
    drop = "" if capabilities else "--cap-drop ALL"
    return f"env LD_LIBRARY_PATH={BUBBLEWRAP} {BUBBLEWRAP}/bwrap {CONTAINER} {drop} {options} {command}"


def refused(guest: Guest, command: str) -> str:
    """Output of a command that must fail."""
    printed = guest.run(f"{command} 2>&1; echo status $?").stdout
    assert printed.endswith("status 1\n"), printed
    return printed


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with guest_with_device("containers") as (guest, _):
        put_bubblewrap(guest)
        guest.run("vgc info")  # binds the device, and makes /run/vgc
        assert "as 'vgc grant GROUP' leaves there" in refused(guest, contained(ALL, "vgc info"))
        guest.run(f"vgc grant {GROUP}")
        yield guest


def test_root_of_a_container_computes_once_the_device_was_granted(guest: Guest) -> None:
    assert "right" in guest.run(contained(ALL, "python3 examples/matmul.py --size 64")).stdout


def test_member_of_the_group_computes_in_a_namespace_of_users(guest: Guest) -> None:
    """Root of the guest is nobody there."""
    words = shlex.split(contained(f"--unshare-user {ALL}", "vgc info", capabilities=True))
    assert "waiting      interrupts" in guest.run(as_user(*words, group=GROUP)).stdout
    assert "Permission denied" in refused(guest, as_user(*words, group=GROUP + 1))


def test_container_without_interrupts_polls(guest: Guest) -> None:
    assert "no interrupts" in guest.run(contained(f"{BUS} {STATE}", "vgc info")).stdout


def test_missing_mount_is_named(guest: Guest) -> None:
    assert "a container needs /sys/devices/pci* of its machine" in refused(guest, contained(STATE, "vgc info"))
    assert "a container needs /run/vgc of its machine" in refused(guest, contained(BUS, "vgc info"))


def test_container_with_a_state_of_its_own_does_not_reset_the_device(guest: Guest) -> None:
    holder = f"python3 -c {shlex.quote(HOLDER)}"
    own = contained(f"{BUS} {INTERRUPTS} --tmpfs /run/vgc", "vgc info", capabilities=True)
    started = guest.start(holder)
    guest.run("while ! test -e /tmp/holds; do sleep 0.01; done")
    assert "used by processes with another folder of state" in refused(guest, own)
    guest.run("touch /tmp/done")
    assert guest.result(started, holder).stdout == "well\n"
    assert "ready" in guest.run(own).stdout  # nobody uses it now
