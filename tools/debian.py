"""Unpacks Debian packages without installing them: a private apt that resolves, verifies and downloads.

The host's own apt state is not touched and no root rights are needed. Every package is authenticated by apt
with Debian's archive keys, as in an ordinary installation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.common import cache_folder, die, locked, say

MIRROR: Final = "http://deb.debian.org/debian"
HOST_KEYRINGS: Final = Path("/usr/share/keyrings")
TRIXIE_KEY: Final = "debian-archive-trixie-stable.gpg"
KEYRING: Final = "debian-archive-keyring.gpg"
TOP_LINKS: Final = ("bin", "sbin", "lib", "lib64")
"""Links of a merged-/usr system; packages contain only their targets."""


@dataclass(frozen=True, slots=True)
class PrivateApt:
    """Private apt: its lists, cache and (empty) database of installed packages lie in `folder`."""

    folder: Path

    def fetch(self, packages: Sequence[str], *, release: str | None = None) -> list[Path]:
        """Downloads `packages` and their dependencies, from `release` if it has them.

        :return: the .deb files, authenticated.
        """
        wanted = ["install", "--yes", *(["--target-release", release] if release else []), *packages]
        nothing_cached = f"Dir::Cache::archives={self.folder / 'none'}"
        listing = self.run("apt-get", "--print-uris", "-o", nothing_cached, *wanted)
        names = [line.split()[1] for line in listing.splitlines() if line.startswith("'")]
        say(f"downloading {len(names)} Debian packages: {', '.join(packages)} and what they need")
        self.run("apt-get", "--download-only", *wanted)
        return [self.folder / "cache" / "archives" / name for name in names]

    def fetch_alone(self, package: str) -> Path:
        """Downloads one package without its dependencies."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            self.run("apt-get", "download", package, cwd=Path(scratch))
            (deb,) = Path(scratch).glob("*.deb")
            return Path(shutil.move(deb, self.folder / deb.name))

    def first_dependency(self, package: str) -> str:
        """Returns the package that `package`, a metapackage, currently stands for."""
        lines = self.run("apt-cache", "depends", package).splitlines()
        names = [line.split()[1] for line in lines if line.startswith("  Depends: ")]
        if not names:
            die(f"the Debian package {package} depends on nothing; expected the package it stands for")
        return names[0]

    def run(self, *argv: str, cwd: Path | None = None) -> str:
        """Runs an apt program on the private state; returns its standard output."""
        env = os.environ | {"APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        env.pop("LD_PRELOAD", None)  # the sanitizers of tools.sanitized, in which apt hangs
        done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            die(f"{' '.join(argv)}: {done.stderr.strip()}", hint=f"is {MIRROR} reachable from here?")
        return done.stdout


@contextmanager
def private_apt(*suites: str, architecture: str = "amd64") -> Iterator[PrivateApt]:
    """Yields an apt for Debian's `suites`, with fresh lists. Exclusive: a second caller waits for the first.

    `architecture`: of the packages, by Debian's name.
    """
    if shutil.which("apt-get") is None:
        die("there is no apt-get here", hint="this tool unpacks Debian packages: run it on Debian or Ubuntu")
    folder = cache_folder() / "apt"
    with locked(folder / "lock"):
        yield _prepared(folder, suites, _trixie_keyring(folder), architecture)


def unpack(packages: Sequence[Path], root: Path) -> None:
    """Unpacks .deb files into `root` without running their maintainer scripts."""
    for name in TOP_LINKS:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)


def _prepared(folder: Path, suites: Sequence[str], keyring: Path, architecture: str) -> PrivateApt:
    """Writes the configuration of a private apt and reads the package lists."""
    for name in ("state/lists/partial", "cache/archives/partial", "preferences.d", "sources.d"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(
        "".join(f"deb [signed-by={keyring}] {MIRROR} {suite} main\n" for suite in suites)
    )
    (folder / "apt.conf").write_text(
        f"""
        Dir::State "{folder}/state";
        Dir::State::status "{folder}/status";
        Dir::Cache "{folder}/cache";
        Dir::Etc::sourcelist "{folder}/sources.list";
        Dir::Etc::sourceparts "{folder}/sources.d";
        Dir::Etc::preferences "{folder}/preferences";
        Dir::Etc::preferencesparts "{folder}/preferences.d";
        APT::Architecture "{architecture}";
        APT::Architectures "{architecture}";
        APT::Install-Recommends "false";
        APT::Sandbox::User "";
        Acquire::Languages "none";
        Acquire::Retries "3";
        """
    )
    apt = PrivateApt(folder)
    apt.run("apt-get", "update", "--error-on=any")
    return apt


def _trixie_keyring(folder: Path) -> Path:
    """Path of a keyring with Debian 13's keys.

    Debian 12 machines that were never updated lack them: there the package with the keys comes from Debian 12's
    archive, which the machine's keys authenticate.
    """
    if (HOST_KEYRINGS / TRIXIE_KEY).exists():
        return HOST_KEYRINGS / KEYRING
    fetched = folder / "keys"
    if not (fetched / "usr/share/keyrings" / TRIXIE_KEY).exists():
        say("fetching Debian 13's archive keys")
        older = _prepared(folder / "bookworm", ("bookworm", "bookworm-updates"), HOST_KEYRINGS / KEYRING, "amd64")
        unpack([older.fetch_alone("debian-archive-keyring")], fetched)
    return fetched / "usr/share/keyrings" / KEYRING
