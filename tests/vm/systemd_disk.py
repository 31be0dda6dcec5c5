"""A Debian 12 machine with packages of the project on a disk of guests: its systemd runs in the guest, with all of control groups of
version 2, which machines that run tests may not have.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools import bare_root, ext4
from tools.common import REPOSITORY
from tools.debs import package
from tools.debs.package import Package

EXTRA: Final = ("udev", "kmod")
"""Packages of a machine that is booted."""
FAKES: Final = ("tests/__init__.py", "tests/limits.py", "tests/waiting.py", *("tests/fakes/*.py",))
TESTS: Final = Path("opt/tests")
"""Folder of the machine in which its programs find `tests.fakes`."""
_NAMESPACES: Final = ("--pid", "--mount", "--ipc", "--uts", "--net")
_NULL: Final = os.makedev(1, 3)


def make(packages: Sequence[Package], folder: Path) -> Path:
    """Writes an image with `packages`, installed by dpkg, into `folder`, an empty one of root's; returns its path."""
    root, image = folder / "root", folder / "disk.ext4"
    own = {one.name for one in packages}
    needed = dict.fromkeys(re.split(r"[ |(]", name)[0] for one in packages for name in one.depends)
    bare = bare_root.folder([*(name for name in needed if name not in own), *EXTRA])
    subprocess.run(["cp", "-a", bare, root], check=True)
    os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, _NULL)
    (root / "debs").mkdir()
    debs = [package.build(one, root / "debs", compress=False).relative_to(root) for one in packages]
    _run(root, "dpkg", "--install", *(f"/{deb}" for deb in debs))
    # Scripts of Debian's packages have not run, and emulated processors take long to compile Python.
    _run(
        root,
        "python3",
        "-m",
        "compileall",
        "-qq",
        "-x",
        "/test/",
        "/usr/lib/python3.11",
        "/usr/lib/python3/dist-packages",
    )
    shutil.rmtree(root / "debs")
    for pattern in FAKES:
        for path in REPOSITORY.glob(pattern):
            copy = root / TESTS / path.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    ext4.make(root, image)
    shutil.rmtree(root)
    return image


def _run(root: Path, *argv: str) -> None:
    """Runs a program of `root`, of which nothing reaches the machine."""
    enter: list[str | Path] = ["unshare", "--fork", "--kill-child=KILL", *_NAMESPACES, "chroot", root]
    subprocess.run([*enter, *argv], check=True, stdout=subprocess.DEVNULL)
