"""First process of namespaces in which libvirtd is to run: gives them a root of their own, and runs it there.

It is run as a file, as PID 1 (`tests.vm.libvirt_host`). The root is Debian's libvirt and QEMU out of the cache, as lower layers of an
overlay whose changes are lost with the namespaces. There are no control groups, and devices and `/sys` are new or read-only.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

_DEVICES: Final = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
_KVM: Final = Path("/dev/kvm")
_MEMORY: Final = {"run": "755", "tmp": "1777", "dev": "755", "dev/shm": "1777"}


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


def _make_devices(folder: Path, kvm_group: int) -> None:
    os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    if _KVM.exists():
        os.mknod(folder / "kvm", stat.S_IFCHR | 0o660, _KVM.stat().st_rdev)
        os.chown(folder / "kvm", 0, kvm_group)
    os.umask(0o022)
    (folder / "pts").mkdir()
    _do("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=666,mode=620", "own", folder / "pts")
    (folder / "ptmx").symlink_to("pts/ptmx")


def _show(source: Path, at: Path, *, read_only: bool) -> None:
    """Shows a file or folder of the machine at `at`."""
    at.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        at.mkdir(exist_ok=True)
    else:
        at.touch()
    _do("mount", "--bind", source, at)
    if read_only:
        _do("mount", "-o", "remount,bind,ro", at)


def _make_root(setup: dict[str, Any]) -> Path:
    base = Path(setup["base"])
    _do("mount", "-t", "tmpfs", "-o", "mode=755", "own", base)
    root = base / "root"
    for name in ("upper", "work", "root"):
        (base / name).mkdir()
    options = f"lowerdir={':'.join(setup['layers'])},upperdir={base}/upper,workdir={base}/work"
    _do("mount", "-t", "overlay", "-o", options, "own", root)
    for name, mode in _MEMORY.items():
        (root / name).mkdir(exist_ok=True)
        _do("mount", "-t", "tmpfs", "-o", f"mode={mode}", "own", root / name)
    _make_devices(root / "dev", setup["kvm_group"])
    for name in ("proc", "sys", "mnt"):
        (root / name).mkdir(exist_ok=True)
    _do("mount", "-t", "proc", "own", root / "proc")
    _do("mount", "-t", "sysfs", "-o", "ro", "own", root / "sys")
    for source, at in setup["read_only"].items():
        _show(Path(source), root / at.lstrip("/"), read_only=True)
    for source, at in setup["shared"].items():
        _show(Path(source), root / at.lstrip("/"), read_only=False)
    for name, text in setup["files"].items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for name, target in setup["links"].items():
        link = root / name.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    return root


def main() -> None:
    _check()
    setup = json.loads(sys.argv[1])
    os.chdir(_make_root(setup))
    _do("pivot_root", ".", "mnt")
    os.chroot(".")
    os.chdir("/")
    _do("/bin/umount", "--lazy", "/mnt")
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    libvirtd = os.posix_spawn(setup["argv"][0], setup["argv"], environment)
    while os.wait()[0] != libvirtd:  # QEMU's processes are libvirtd's orphans
        pass


if __name__ == "__main__":
    main()
