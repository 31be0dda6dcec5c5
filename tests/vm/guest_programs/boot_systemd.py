"""Boots the systemd of a disk in a guest: ``boot_systemd.py DISK``; prints its process id once its units have started.

Changes to the disk's files are kept in memory. It is the first process of namespaces of its own, but for control groups: it has
all of the guest's.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

BASE: Final = Path("/systemd")
NOTICES: Final = "/run/notices"
SYSTEMD: Final = "/lib/systemd/systemd"
NAMESPACES: Final = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x2000_0000
"""Mounts, host name, IPC, process ids [linux/sched.h: CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID]."""


def mount(kind: str, at: Path, options: str) -> None:
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", kind, "-o", options, kind, at], check=True)


def make_root(disk: str) -> Path:
    """Mounts the disk with a layer in memory above it, and what systemd wants to find mounted."""
    mount("tmpfs", BASE, "mode=755")
    for name in ("disk", "upper", "work"):
        (BASE / name).mkdir()
    subprocess.run(["mount", "-t", "ext4", "-o", "ro", disk, BASE / "disk"], check=True)
    root = BASE / "root"
    mount("overlay", root, f"lowerdir={BASE}/disk,upperdir={BASE}/upper,workdir={BASE}/work")
    mount("tmpfs", root / "run", "mode=755")
    mount("sysfs", root / "sys", "rw")
    mount("cgroup2", root / "sys/fs/cgroup", "rw")
    mount("devtmpfs", root / "dev", "mode=755")
    (root / "etc/machine-id").touch()  # else systemd takes this for a first boot, and asks for settings
    return root


def become_systemd(root: Path) -> None:
    """In the new namespaces: makes `root` their root, and runs systemd."""
    mount("proc", root / "proc", "rw")
    os.chdir(root)
    (root / "mnt").mkdir(exist_ok=True)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chroot(".")
    os.chdir("/")
    # In a container, as it takes this for, systemd leaves consoles and clocks alone.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "container": "vgc-test", "NOTIFY_SOCKET": NOTICES}
    os.execve(SYSTEMD, [SYSTEMD, "--system", "--unit=multi-user.target", "--show-status=no"], environment)


def leave_namespaces() -> None:
    """Gives this process new namespaces; its children, but not itself, are in that of process ids."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NAMESPACES) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def main() -> None:
    root = make_root(sys.argv[1])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(f"{root}{NOTICES}")
        leave_namespaces()
        pid = os.fork()
        if pid == 0:
            with open("/tmp/systemd.log", "w") as log:
                for number in (1, 2):
                    os.dup2(log.fileno(), number)
            os.setsid()
            become_systemd(root)
        while b"READY=1" not in notices.recv(4096).splitlines():
            pass
    print(pid)


if __name__ == "__main__":
    main()
