"""Remedies of findings, by the way in which vgcd was installed: as a Debian package, by pip, or in place by make."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent / "package"
"""File with the name of the Debian package that this program is from; only such a package has it."""
_OF_DEBIAN: Final = {"construct": "python3-construct", "numpy": "python3-numpy", "pyyaml": "python3-yaml"}
"""Debian's packages that the package of vgcd depends on, by their names on PyPI; others come along with it."""


def package() -> str:
    """Name of the Debian package that this program is from; "": it was installed in another way."""
    return _PACKAGE.read_text().strip() if _PACKAGE.exists() else ""


def module(name: str) -> str:
    """How to get a Python package that PyPI calls `name`."""
    if own := package():
        return f"apt-get install --reinstall {_OF_DEBIAN.get(name, own)}"
    return f"pip install {name}"


def of_debian(hint: str) -> str:
    """A hint as it is, but for one to use pip where this program is from a Debian package, which has a page on that."""
    own = package()
    return f"see /usr/share/doc/{own}/README.Debian" if own and "pip install" in hint else hint


def part() -> str:
    """How to get a part of this program that make builds."""
    own = package()
    return f"apt-get install --reinstall {own}" if own else "make build"


def centre() -> str:
    """How to get the control centre."""
    return "apt-get install vgc-control-center" if package() else "pip install 'virtio-gpu-compute[control]'"
