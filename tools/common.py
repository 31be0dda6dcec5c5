"""Helpers of all tools: paths, messages, errors, locks. Standard library only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

REPOSITORY: Final = Path(__file__).resolve().parent.parent
BUILD: Final = REPOSITORY / "build"
KEPT_S: Final = 7 * 24 * 3600
"""Time that a folder of the cache stays which nobody uses any more."""


def cache_folder() -> Path:
    """Folder of downloads and the guest image: ``$VGC_CACHE``, or a folder of the user's cache."""
    named = os.environ.get("VGC_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "virtio-gpu-compute"


def say(text: str) -> None:
    """Prints a message of progress to stderr; stdout stays free for results."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def die(message: str, *, hint: str | None = None) -> NoReturn:
    """Ends the program with an error message and, with `hint`, a line that says what to do about it."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(1)


def digest_of(paths: Iterable[Path], *extra: str) -> str:
    """Hashes files and `extra` texts, the inputs of a result.

    The hash covers the contents of files and their paths in the repository, so that it is equal in every clone.
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


def cached(name: str, digest: str, made: str, make: Callable[[Path], None]) -> Path:
    """Folder `name` of the cache, for inputs with this digest; `make` makes it if it is not there, which is told as `made`.

    Folders of other digests may be those of other working trees: they stay until nobody has used them for `KEPT_S`.
    """
    folder = cache_folder() / f"{name}-{digest}"
    with locked(cache_folder() / f"{name}.lock"):
        if not folder.exists():
            say(f"building {made}")
            for old in cache_folder().glob(f"{name}-*"):
                if time.time() - old.stat().st_mtime > KEPT_S:
                    shutil.rmtree(old)
            make(folder)
        os.utime(folder)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file `path`, so that two runs of a tool do not write the same result at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
