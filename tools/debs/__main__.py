"""Builds the packages: ``python -m tools.debs``."""

from __future__ import annotations

import shutil
from typing import Final

from tools import build, installation
from tools.common import BUILD, REPOSITORY, die, say
from tools.debs import guest, host, package

OUTPUT: Final = BUILD / "packages"


def main() -> None:
    if shutil.which("dpkg-deb") is None:
        die("there is no dpkg-deb here", hint="`make install-guest` and `pip wheel .` go on any distribution")
    installation.build_parts()
    for part in build.PARTS:
        if part.levels and not build.bring_up_to_date(part):  # for processors of every level
            die(f"the {part.name} did not build")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for old in OUTPUT.glob("*.deb"):
        old.unlink()
    for described in (*host.packages(), *guest.packages()):
        say(f"{package.build(described, OUTPUT).relative_to(REPOSITORY)}")
    if not installation.has_toolkit():
        say(f"without mynvcc: there is no CUDA toolkit at {installation.TOOLKIT.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
