"""What every tool needs: where things are, how to speak, how to fail. Standard library only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

REPOSITORY: Final = Path(__file__).resolve().parent.parent
BUILD: Final = REPOSITORY / "build"


def cache_folder() -> Path:
    """Where downloads and the guest image live: ``$VGC_CACHE``, or a folder of the user's cache."""
    named = os.environ.get("VGC_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "virtio-gpu-compute"


def say(text: str) -> None:
    """Tell the person at the terminal what is going on; stdout stays free for results."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def die(message: str, *, hint: str | None = None) -> NoReturn:
    """End the program with an error that says what is wrong and, with `hint`, what to do about it."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(1)


def digest_of(paths: Iterable[Path], *extra: str) -> str:
    """A hash over files and over `extra` texts: what a result was made from.

    Files count by their contents and their place in the repository, so every clone of it comes to the same.
    """
    digest = hashlib.sha256()
    for text in extra:
        digest.update(text.encode() + b"\0")
    for path in sorted(paths):
        digest.update(
            os.path.relpath(path, REPOSITORY).encode() + b"\0" + str(path.stat().st_mode & 0o111).encode() + b"\0"
        )
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, so that two runs of a tool do not write the same result at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
