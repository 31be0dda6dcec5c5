"""First process of namespaces in which systemd is to run: gives them a root of their own, and becomes systemd.

It is run as a file, as PID 1 (`tests.protocol.systemd_machine`). Whatever is written there is lost with the namespaces: the
machine's files are the lower layer of overlays, all else is memory, and devices, `/proc/sys` and `/sys` are new or read-only.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

SYSTEMD: Final = "/lib/systemd/systemd"
PROGRAM: Final = Path("opt/virtio-gpu-compute")
"""Place of the package, which lies in no folder that the shipped units hide."""
USERS: Final = "/usr/lib/sysusers.d/vgcd.conf"
_MEMORY: Final = {
    "run": "755",
    "tmp": "1777",
    "dev": "755",
    "dev/shm": "1777",
    "var/tmp": "1777",
    "var/log": "755",
    "var/lib": "755",
    "var/cache": "755",
}
_DEVICES: Final = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
_NO_PLACE: Final = "/nowhere"


def _do(*argv: str | Path) -> None:
    subprocess.run(list(map(str, argv)), check=True, stdin=subprocess.DEVNULL)


def _check() -> None:
    """Ends the process where it would work on the machine itself."""
    if os.getpid() != 1:
        sys.exit("this process is not the first of a namespace")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        about = line.partition(" - ")[0]
        if " shared:" in about or " master:" in about:
            sys.exit(f"the machine would see what is mounted here: {line}")


def _overlay(lower: Path, layers: Path, at: Path) -> None:
    for name in ("upper", "work"):
        (layers / name).mkdir(parents=True)
    at.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
    _do("mount", "-t", "overlay", "-o", options, "own", at)


def _make_devices(folder: Path) -> None:
    before = os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(before)
    (folder / "pts").mkdir()
    _do("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=666,mode=620", "own", folder / "pts")
    (folder / "ptmx").symlink_to("pts/ptmx")


def _make_root(setup: dict[str, Any]) -> Path:
    base, repository = Path(setup["base"]), setup["repository"]
    _do("mount", "-t", "tmpfs", "-o", "mode=755", "own", base)
    root = base / "root"
    _overlay(Path(setup["lower"]), base / "machine", root)
    for name, mode in _MEMORY.items():
        if setup["lower"] != "/" and name == "var/lib":  # the database of its packages
            continue
        (root / name).mkdir(parents=True, exist_ok=True)
        _do("mount", "-t", "tmpfs", "-o", f"mode={mode}", "own", root / name)
    _make_devices(root / "dev")
    for name in ("proc", "sys", "mnt"):
        (root / name).mkdir(exist_ok=True)
    _do("mount", "-t", "proc", "own", root / "proc")
    _do("mount", "--bind", root / "proc/sys", root / "proc/sys")
    _do("mount", "-o", "remount,bind,ro", root / "proc/sys")
    _do("mount", "-t", "sysfs", "-o", "ro", "own", root / "sys")
    _do("mount", "-t", "cgroup2", "own", root / "sys/fs/cgroup")
    for shown in map(Path, setup["shown"]):
        at = root / shown.relative_to("/")
        at.mkdir(parents=True, exist_ok=True)
        _do("mount", "--bind", shown, at)
        _do("mount", "-o", "remount,bind,ro", at)
    if repository:
        _overlay(Path(repository), base / "program", root / PROGRAM)
    for name, text in setup["files"].items():
        file = root / name.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    if USERS in setup["files"]:
        _do("systemd-sysusers", f"--root={root}", Path(USERS).name)
    os.mkfifo(root / setup["log"].removeprefix("/"))
    (root / "run/ready").touch()
    _do("mount", "--bind", setup["ready"], root / "run/ready")
    return root


def main() -> None:
    _check()
    setup = json.loads(sys.argv[1])
    os.chdir(_make_root(setup))
    _do("pivot_root", ".", "mnt")
    os.chroot(".")
    os.chdir("/")
    _do("umount", "--lazy", "/mnt")
    environment = {
        "PATH": os.environ["PATH"],
        "container": "vgc-test",  # it leaves the kernel's settings alone
        "NOTIFY_SOCKET": "/run/ready",
        "SYSTEMD_UNIT_PATH": setup["units"],
        "SYSTEMD_GENERATOR_PATH": _NO_PLACE,
        "SYSTEMD_ENVIRONMENT_GENERATOR_PATH": _NO_PLACE,
        "SYSTEMD_LOG_TARGET": "null",
    }
    os.execve(SYSTEMD, [SYSTEMD, "--system", "--show-status=no"], environment)


if __name__ == "__main__":
    main()
