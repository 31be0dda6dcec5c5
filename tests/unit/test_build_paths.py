"""Installed programs and libraries name no folder of the machine that built them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tools import installation
from tools.common import REPOSITORY, cache_folder
from tools.debs import guest, host
from tools.debs.package import ELF_MAGIC
from tools.installation import Layout

SEARCH_PATH: Final = re.compile(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]")
BESIDE: Final = ("$ORIGIN", "${ORIGIN}")


def binaries() -> list[Path]:
    """Programs and shared libraries of all packages and of `make install-guest`."""
    layout = Layout()
    sets = [package.files for package in (*host.packages(), *guest.packages())]
    sets += [installation.runtime(layout), installation.development(layout)]
    files = {entry for files in sets for entry in files.values() if isinstance(entry, Path) and entry.is_file()}
    return sorted(path for path in files if path.read_bytes().startswith(ELF_MAGIC))


def search_path(binary: Path) -> list[str]:
    """Folders in which the loader looks for libraries on behalf of `binary`."""
    dynamic = subprocess.run(["readelf", "--dynamic", binary], check=True, capture_output=True, text=True).stdout
    return [folder for found in SEARCH_PATH.findall(dynamic) for folder in found.split(":")]


def test_libraries_are_searched_for_beside_those_that_need_them() -> None:
    found = {path: search_path(path) for path in binaries()}
    assert any(found.values()), "libcublas.so needs libcudart.so, which is beside it"
    fixed = {path: folders for path, folders in found.items() if not all(one.startswith(BESIDE) for one in folders)}
    assert fixed == {}


def test_code_and_data_name_no_folder_of_the_build(tmp_path: Path) -> None:
    """Symbols for debuggers do: packages come without, and `make install-guest` is for the tree's own machine or guest."""
    stripped = tmp_path / "stripped"
    naming: list[Path] = []
    for path in binaries():
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, path], check=True)
        data = stripped.read_bytes()
        if any(f"{folder}/".encode() in data for folder in (REPOSITORY, cache_folder())):
            naming.append(path)
    assert naming == []
