"""Runs ``tools.gpu`` with a kit: unpacks its wheels into a temporary folder and names its headers and its commit.

``make gpu-kit`` puts this file beside the wheels as ``run.py``. On the machine with the GPU, in the project's folder:

    python3 build/gpu-kit/run.py --first

Arguments are those of ``python3 -m tools.gpu``. Uses only the standard library of Python 3.8, so that a Python other
than the kit's gets a clear error.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

KIT = Path(__file__).resolve().parent
FACTS = "kit.json"
PROGRAMS = "programs"
"""Folder of programs for guests, as mynvcc has built them."""
LEAST_PYTHON = (3, 11)
PROGRAM = Path("tools", "gpu", "__main__.py")


def main() -> None:
    """Runs the program in this process, so that signals reach it and the temporary folder is removed at its end."""
    try:
        facts = json.loads((KIT / FACTS).read_text())
    except (OSError, ValueError) as error:
        sys.exit(
            f"error: {KIT} is no whole kit: {FACTS}: {error}\nhint: carry all of it, or make it again: make gpu-kit"
        )
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if here != facts["python"]:
        another = f", or make another kit: make gpu-kit GPU_KIT_OPTIONS='--python {here}'"
        sys.exit(
            f"error: this is Python {here}, and the kit's wheels are for Python {facts['python']}\n"
            f"hint: python{facts['python']} {sys.argv[0]}{another if sys.version_info >= LEAST_PYTHON else ''}"
        )
    root = next((path for path in (Path.cwd(), *KIT.parents) if (path / PROGRAM).exists()), None)
    if root is None:
        sys.exit(f"error: {PROGRAM} is neither here nor above {KIT}\nhint: start this in the project's folder")
    with tempfile.TemporaryDirectory(prefix="vgc-gpu-kit-") as site:
        Path(site).chmod(0o755)  # workers that are another user import from it
        for wheel in sorted(KIT.glob("*.whl")):
            try:
                zipfile.ZipFile(wheel).extractall(site)
            except zipfile.BadZipFile as error:
                sys.exit(
                    f"error: {wheel} is damaged: {error}\nhint: carry it again, or make the kit again: make gpu-kit"
                )
        _prepare(root, site, facts)
        runpy.run_module("tools.gpu", run_name="__main__", alter_sys=True)


def _prepare(root: Path, site: str, facts: dict) -> None:  # type: ignore[type-arg]  # not at run time, before 3.9
    """Makes this process and its children find the kit's packages, before the machine's, and its headers."""
    sys.path[:0] = [str(root), site]
    os.environ["PYTHONPATH"] = _joined(site, os.environ.get("PYTHONPATH"))
    if (KIT / PROGRAMS).is_dir():
        os.environ["VGC_GPU_PROGRAMS"] = str(KIT / PROGRAMS)
    os.environ["CPATH"] = _joined(os.environ.get("CPATH"), str(KIT / "include"))
    if "VGC_COMMIT" not in os.environ and not (root / ".git").exists():
        same = digest(root, facts["files"]) == facts["digest"]
        os.environ["VGC_COMMIT"] = facts["commit"] if same else f"{facts['commit']} with other changes"


def _joined(*folders: str | None) -> str:
    return os.pathsep.join(folder for folder in folders if folder)


def digest(root: Path, names: Iterable[str]) -> str:
    """Hashes the contents of files; a missing file counts as empty."""
    found = hashlib.sha256()
    for name in sorted(names):
        path = root / name
        content = path.read_bytes() if path.is_file() else b""
        found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()[:16]


if __name__ == "__main__":
    main()
