"""Keeper of the daemon: a small process that holds what must not end when ``vgcd`` does, and the daemon's side of it."""

from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parent / "vgc-keeper"
