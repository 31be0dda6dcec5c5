"""libvirtd in namespaces of its own: a host of virtual machines of which nothing reaches the machine.

with Vgcd(VmSettings("one")) as vgcd, LibvirtHost(folder, [vgcd.folder]) as host:
    host.connection.defineXML(host.definition("one"))
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from tests.limits import ANSWERS_WITHIN_S
from tests.processes import children
from tests.vm import libvirt_root
from tests.waiting import until
from tools import image, libvirt, qemu
from tools.architecture import X86_64
from tools.machine import QUIET

KVM_GROUP: Final = 60036
QEMU_USER: Final = 64055
"""User of QEMU's processes, as Debian has it."""

GUEST: Final = "/srv/guest"
RUN: Final = "/run/libvirt"
EMULATOR: Final = "/opt/vgc-test/qemu-system-x86_64"
"""QEMU at a place where no machine has one: what looks at it on this machine does not find another."""

_NAMESPACES: Final = ("--pid", "--mount", "--ipc", "--uts", "--net", "--cgroup")
_USERS: Final = f"root:x:0:0:root:/root:/bin/sh\nlibvirt-qemu:x:{QEMU_USER}:{KVM_GROUP}::/var/lib/libvirt:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
_GROUPS: Final = f"root:x:0:\nkvm:x:{KVM_GROUP}:libvirt-qemu\nlibvirt-qemu:x:{QEMU_USER}:\ntty:x:5:\nnogroup:x:65534:\n"
_LIBVIRTD: Final = """\
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "3:stderr"
"""
_QEMU: Final = """\
stdio_handler = "file"
group = "kvm"
"""


@functools.cache
def missing() -> str:
    """Reason why libvirtd cannot run here in namespaces; "" if it can."""
    if os.geteuid() != 0:
        return "namespaces, mounts and users of libvirt need root"
    for program in ("unshare", "pivot_root"):
        if shutil.which(program) is None:
            return f"{program} is not installed (package util-linux)"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    done = subprocess.run(["unshare", "--fork", *_NAMESPACES, "true"], check=False, capture_output=True, text=True)
    return f"no namespaces: {done.stderr.strip()}" if done.returncode else ""


class LibvirtHost:
    """Running libvirtd. `shared` are folders of the machine that it sees at the same place."""

    def __init__(self, folder: Path, shared: Sequence[Path] = ()) -> None:
        """`folder`: an empty one."""
        self.files = image.build()
        self.accelerator = qemu.accelerator(qemu.find(), self.files.kernel)
        self.folder = folder
        self._run = folder / "run"
        base = folder / "base"
        for made in (self._run, base, folder / "guests"):
            made.mkdir()
        setup = {
            "base": str(base),
            "layers": [str(qemu.unpacked_root()), str(libvirt.root())],
            "kvm_group": KVM_GROUP,
            "read_only": {
                str(self.files.kernel): f"{GUEST}/vmlinuz",
                str(self.files.initramfs): f"{GUEST}/initramfs",
                str(self.files.base): f"{GUEST}/base.ext4",
            },
            "shared": {str(self._run): RUN, **{str(path): str(path) for path in (folder / "guests", *shared)}},
            "files": {
                "/etc/passwd": _USERS,
                "/etc/group": _GROUPS,
                "/etc/libvirt/libvirtd.conf": _LIBVIRTD,
                "/etc/libvirt/qemu.conf": _QEMU,
            },
            "links": {EMULATOR: "/usr/bin/qemu-system-x86_64"},
            "argv": ["/usr/sbin/libvirtd"],
        }
        self._log = folder / "libvirtd.log"
        unshare = ["unshare", "--fork", "--kill-child=KILL", "--propagation", "private", *_NAMESPACES]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*unshare, sys.executable, "-I", libvirt_root.__file__, json.dumps(setup)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self.connection = self._connected()
        except BaseException:
            self.close()
            raise

    @property
    def uri(self) -> str:
        """URI of the connection, for programs on this machine."""
        return f"qemu+unix:///system?socket={self._run}/libvirt-sock"

    def path(self, name: str) -> Path:
        """File of the host, as it is seen from here."""
        (pid,) = children(self._process.pid)
        return Path(f"/proc/{pid}/root{name}")

    def log(self) -> str:
        """Text that libvirtd has logged."""
        return self._log.read_text(errors="replace")

    def _connected(self) -> Any:
        import libvirt as library

        library.registerErrorHandler(lambda _context, _error: None, None)

        def connect() -> Any:
            if self._process.poll() is not None:
                pytest.fail(f"libvirtd has ended: {self.log()}")
            try:
                return library.open(self.uri)
            except library.libvirtError:
                return None

        return until(connect)

    def close(self) -> None:
        """Ends everything there."""
        if hasattr(self, "connection"):
            self.connection.close()
        for pid in children(self._process.pid) if self._process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        self._process.wait(ANSWERS_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"libvirtd's log:\n{self.log()}")
        self.close()

    def definition(self, name: str, machine: str = "q35") -> str:
        """Definition of a domain that boots the guest image; its agent listens at `agent`."""
        kind = "kvm" if self.accelerator == "kvm" else "qemu"
        cpu = '<cpu mode="host-passthrough"/>' if kind == "kvm" else _EMULATED_CPU
        return _DOMAIN.format(
            name=name,
            kind=kind,
            machine=machine,
            cpu=cpu,
            ports=_PORTS if machine == "q35" else "",
            emulator=EMULATOR,
            guest=GUEST,
            console=f"console={X86_64.console} {QUIET}",
            agent=self.agent_socket(name),
            serial=self.folder / "guests" / f"{name}.serial",
        )

    def agent_socket(self, name: str) -> Path:
        """Socket of the agent in a domain's guest."""
        return self.folder / "guests" / f"{name}.agent"


_EMULATED_CPU: Final = '<cpu mode="maximum"><feature policy="disable" name="la57"/></cpu>'
_PORTS: Final = "".join(
    f'<controller type="pci" index="{index}" model="{"pcie-root-port" if index else "pcie-root"}"/>'
    for index in range(7)
)
"""Root ports, two of which are free."""

_DOMAIN: Final = """\
<domain type="{kind}" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <name>{name}</name>
  <memory unit="MiB">512</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch="x86_64" machine="{machine}">hvm</type>
    <kernel>{guest}/vmlinuz</kernel>
    <initrd>{guest}/initramfs</initrd>
    <cmdline>{console}</cmdline>
  </os>
  <features>
    <acpi/>
  </features>
  {cpu}
  <devices>
    <emulator>{emulator}</emulator>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw"/>
      <source file="{guest}/base.ext4"/>
      <target dev="vda" bus="virtio"/>
      <readonly/>
    </disk>
    {ports}
    <controller type="usb" model="none"/>
    <serial type="file">
      <source path="{serial}"/>
    </serial>
    <channel type="unix">
      <source mode="bind" path="{agent}"/>
      <target type="virtio" name="agent"/>
    </channel>
    <memballoon model="none"/>
  </devices>
  <qemu:commandline>
    <qemu:arg value="-global"/>
    <qemu:arg value="pcie-root-port.pref64-reserve=32M"/>
  </qemu:commandline>
</domain>
"""
