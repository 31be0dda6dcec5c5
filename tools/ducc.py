"""Fetches the sources of ducc's Fourier transforms into the cache: headers that the CPU engine's built-in functions need.

::

    python3 -m tools.ducc

prints the folder to include from. The transforms (``src/ducc0/fft``, BSD-3-Clause) are in no Debian package, and in no
package of Python that has their headers; so they come from ducc's source package. Standard library only.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Final

from tools.common import cache_folder, die, locked, say

VERSION: Final = "0.42.0"
SOURCE: Final = (
    "https://files.pythonhosted.org/packages/d0/28/e2b293b1744a63dd61465fdefe1b15d1d9bdbf6ff72fca4cb2f629084a14/"
    f"ducc0-{VERSION}.tar.gz"
)
SHA256: Final = "4e11c59b53a43355b053aebb2a62ee16eebeed026575f7d216cf09d437ce52ef"


def folder() -> Path:
    """Folder that has ``ducc0/fft/fft.h``; fetched if it is missing."""
    sources = cache_folder() / f"ducc0-{VERSION}"
    with locked(cache_folder() / "ducc0.lock"):
        if not sources.is_dir():
            _fetch(sources)
    return sources / "src"


def _fetch(into: Path) -> None:
    say(f"fetching {SOURCE}")
    try:
        with urllib.request.urlopen(SOURCE, timeout=60) as response:
            archive = response.read()
    except OSError as error:
        die(f"{SOURCE} cannot be fetched: {error}", hint=f"unpack ducc0-{VERSION}.tar.gz as {into}")
    found = hashlib.sha256(archive).hexdigest()
    if found != SHA256:
        die(f"{SOURCE} has SHA-256 {found}, not {SHA256}")
    with tempfile.TemporaryDirectory(dir=into.parent, prefix="ducc0-") as name:
        work = Path(name)
        (work / "archive").write_bytes(archive)
        with tarfile.open(work / "archive") as tar:
            tar.extractall(work, filter="data")
        shutil.move(work / f"ducc0-{VERSION}", into)


if __name__ == "__main__":
    print(folder())
