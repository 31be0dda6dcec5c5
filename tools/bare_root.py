"""Bare root of a Debian 12 host, in which the project's packages are installed by tests: the packages that they depend on, unpacked.

It lies in the cache, and is rebuilt only when this file or `tools.debian` changes. Maintainer scripts have not run: nothing of it
reaches the machine, and it takes a fraction of the time. What tests need of them is done here.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools import debian
from tools.common import cached, digest_of, say

SUITE: Final = "bookworm"
ESSENTIALS: Final = (
    *(
        "base-files",
        "base-passwd",
        "bash",
        "coreutils",
        "dash",
        "diffutils",
        "dpkg",
        "findutils",
        "grep",
        "libc-bin",
        "mawk",
        "sed",
    ),
    *("passwd", "systemd", "tar", "util-linux"),
)
"""Packages that every Debian host has."""
_UNUSED: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_ALTERNATIVES: Final = ("blas", "lapack")
"""Folders of libraries, of which Debian has one chosen by update-alternatives."""


def folder(packages: Sequence[str]) -> Path:
    """Folder with the root, which has `packages` and what they need; built if they or this file changed."""
    sources = [Path(module) for module in (__file__, debian.__file__)]
    digest = digest_of(sources, *packages)
    return cached("bare", digest, f"a bare root of Debian {SUITE}", lambda built: _build(built, packages))


def _build(built: Path, packages: Sequence[str]) -> None:
    root = built.with_name("bare.partial")
    shutil.rmtree(root, ignore_errors=True)
    with debian.private_apt(SUITE, f"{SUITE}-updates") as apt:
        found = apt.fetch([*ESSENTIALS, *packages])
        say(f"unpacking {len(found)} packages")
        debian.unpack(found, root)
    for name in _UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    _register(found, root)
    multiarch = next((root / "usr/lib").glob("*-linux-gnu"))
    lines = [f"/{multiarch.relative_to(root)}\n"]
    lines += [f"/{(multiarch / name).relative_to(root)}\n" for name in _ALTERNATIVES]
    (root / "etc/ld.so.conf").write_text("".join(lines))
    subprocess.run(["/sbin/ldconfig", "-r", root], check=True)
    root.rename(built)


def _register(found: Sequence[Path], root: Path) -> None:
    """Writes dpkg's database, by which it knows that dependencies are fulfilled."""
    database = root / "var/lib/dpkg"
    for name in ("info", "updates"):
        (database / name).mkdir(parents=True, exist_ok=True)
    with (database / "status").open("w") as status:
        for deb in found:
            control = subprocess.run(["dpkg-deb", "--field", deb], capture_output=True, text=True, check=True).stdout
            name, _, rest = control.partition("\n")
            status.write(f"{name}\nStatus: install ok installed\n{rest.strip()}\n\n")
            listing = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True, check=True).stdout
            _list(database / "info", control, listing)


def _list(info: Path, control: str, listing: str) -> None:
    """Writes the list of a package's files; those of packages that may be installed for several machines name theirs."""
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and not line.startswith(" "))
    name = fields["Package"]
    if fields.get("Multi-Arch") == "same":
        name = f"{name}:{fields['Architecture']}"
    paths = [line.split(maxsplit=5)[5].split(" -> ")[0] for line in listing.splitlines()]
    text = "".join(f"{'/.' if path in ('.', './') else path.removeprefix('.').rstrip('/')}\n" for path in paths)
    (info / f"{name}.list").write_text(text)
