"""Caches of compiled programs, keyed by the digest of everything that the image depends on.

Two layers. In memory: sealed memfds, ready to be passed to a worker. On disk: one file per program, written
under a temporary name and renamed, so that it is whole or absent; its content is checked against a digest in the file
whenever it is read, and a damaged file is deleted and the program compiled anew. Both are bounded. When they are full, the
domain that has most in them loses the program that it has not used for longest: no VM can crowd out the programs of others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import DOMAIN_DIGITS, domain_digits
from vhost_backend.errors import HostError
from vhost_backend.fds import Fd
from vhost_backend.sandbox import memfd

_MAGIC: Final = b"VGCPROG1"
_HEADER: Final = struct.Struct("<8s32s32sI")  # magic, digest of what follows it, key, bytes of the log
_DIGEST_START: Final = 40
_UNFINISHED: Final = "unfinished-"
_KEY: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{48}")
_OLD_KEY: Final = re.compile(r"[0-9a-f]{64}")
_ABANDONED_SECONDS: Final = 3600
_LEAST_BYTES: Final = 16 << 10
"""Bytes that a file on disk counts for at least: many small ones take long to look through."""


def default_directory() -> Path:
    """Folder of the cache unless the configuration names one [XDG base directory specification]."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "virtio-gpu-compute" / "programs"


@dataclass(frozen=True, slots=True)
class Program:
    """Compiled program: its image in a sealed memfd, and the compiler's log."""

    image: Fd
    log: str

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that the program takes."""
        return os.fstat(self.image.fileno()).st_size + len(self.log)


class MemoryCache:
    """Cache in memory. Not thread-safe: to be used on the event loop only."""

    def __init__(self, max_bytes: int = 256 << 20, max_programs: int = 256) -> None:
        self._max_bytes = max_bytes
        self._max_programs = max_programs
        self._programs: OrderedDict[str, Program] = OrderedDict()
        self._bytes: Counter[str] = Counter()
        """Bytes of each domain."""
        self._counts: Counter[str] = Counter()
        """Number of programs of each domain."""

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, key: str) -> Program | None:
        """Looks a program up; returns it, still owned by the cache, or None."""
        program = self._programs.get(key)
        if program is not None:
            self._programs.move_to_end(key)
        return program

    def put(self, key: str, program: Program) -> None:
        """Takes `program` over, and closes programs that no longer fit."""
        self._forget(key)
        self._programs[key] = program
        self._bytes[_domain(key)] += program.size_bytes
        self._counts[_domain(key)] += 1
        while len(self._programs) > 1 and (use := self._excess()) is not None:
            self._forget(max(self._programs, key=lambda key: use[_domain(key)]))

    def _excess(self) -> Counter[str] | None:
        """Use by domains, of what there is too much; None: all fit."""
        if self._bytes.total() > self._max_bytes:
            return self._bytes
        return self._counts if len(self._programs) > self._max_programs else None

    def drop(self, domain: str) -> None:
        """Closes all programs of a domain."""
        digits = domain_digits(domain)
        for key in [key for key in self._programs if _domain(key) == digits]:
            self._forget(key)

    def close(self) -> None:
        """Closes all programs."""
        for key in list(self._programs):
            self._forget(key)

    def _forget(self, key: str) -> None:
        program = self._programs.pop(key, None)
        if program is not None:
            self._bytes[_domain(key)] -= program.size_bytes
            self._counts[_domain(key)] -= 1
            if not self._counts[_domain(key)]:
                del self._bytes[_domain(key)], self._counts[_domain(key)]
            program.image.close()


class DiskCache:
    """Cache on disk, kept between runs. Its methods block on the disk and may be called from any thread."""

    def __init__(self, directory: Path, max_bytes: int = 1 << 30) -> None:
        """Creates `directory` if it does not exist.

        :raise HostError: it cannot be used, or other users may write to it.
        """
        self._directory = directory
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self.corrupt_entries = 0
        """Number of files that failed their check and were deleted."""
        _require_private(directory)
        self._bytes = self._scan()

    def load(self, key: str) -> Program | None:
        """Reads a program, which the caller then owns; None if it is absent, unreadable or damaged."""
        path = self._directory / key
        try:
            content = path.read_bytes()
        except OSError:
            return None
        parsed = _parse(key, content)
        if parsed is None:
            self.corrupt_entries += 1
            path.unlink(missing_ok=True)
            return None
        log, image = parsed
        with contextlib.suppress(OSError):  # the file was deleted meanwhile: the program is good nevertheless
            os.utime(path)
        return Program(Fd(memfd.sealed("vgc-image", image)), log)

    def store(self, key: str, program: Program) -> None:
        """Stores a copy of `program`.

        :raise OSError: the disk refuses; no partial file is left.
        """
        size = os.fstat(program.image.fileno()).st_size
        content = _format(key, program.log, memfd.read(program.image.fileno(), size))
        unfinished = self._directory / f"{_UNFINISHED}{os.getpid()}-{threading.get_ident()}"
        try:
            unfinished.write_bytes(content)
            unfinished.replace(self._directory / key)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        with self._lock:
            self._bytes += _counted(len(content))
            if self._bytes > self._max_bytes:
                self._bytes = self._evict()

    def _scan(self) -> int:
        """Deletes files of a crash, and of versions whose keys had no domain; returns the total bytes of the others."""
        total = 0
        for path, status in self._files():
            if _KEY.fullmatch(path.name):
                total += _counted(status.st_size)
            elif _OLD_KEY.fullmatch(path.name) or (
                path.name.startswith(_UNFINISHED) and status.st_mtime < time.time() - _ABANDONED_SECONDS
            ):
                path.unlink(missing_ok=True)
        return total

    def _evict(self) -> int:
        """Deletes programs until there is room for an eighth of the limit; returns the total bytes of the others.

        Looking through all files takes long, so it must not be done for each file that is stored in a full cache.
        """
        sizes: Counter[str] = Counter()
        domains: defaultdict[str, deque[tuple[Path, int]]] = defaultdict(deque)
        for path, status in sorted(self._files(), key=lambda item: item[1].st_mtime_ns):
            if _KEY.fullmatch(path.name):
                size = _counted(status.st_size)
                domains[_domain(path.name)].append((path, size))
                sizes[_domain(path.name)] += size
        while sizes.total() > self._max_bytes - self._max_bytes // 8:
            largest = max(domains, key=sizes.__getitem__)
            path, size = domains[largest].popleft()
            path.unlink(missing_ok=True)
            sizes[largest] -= size
        return sizes.total()

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found: list[tuple[Path, os.stat_result]] = []
        for path in self._directory.iterdir():
            with contextlib.suppress(OSError):  # another daemon on the same directory was faster
                found.append((path, path.lstat()))
        return found


def _counted(size: int) -> int:
    """Bytes that a file on disk counts for."""
    return max(size, _LEAST_BYTES)


def _domain(key: str) -> str:
    return key[:DOMAIN_DIGITS]


def _require_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        hint = "set 'cache' in the configuration, or XDG_CACHE_HOME, to a folder that vgcd may write"
        raise HostError(f"the program cache {directory} cannot be used: {error.strerror}", hint) from error
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostError(
            f"the program cache {directory} is open to other users: owner {status.st_uid}, mode "
            f"{stat.S_IMODE(status.st_mode):o}",
            f"allowed: owner {os.geteuid()}, writable by the owner only",
        )


def _format(key: str, log: str, image: bytes) -> bytes:
    encoded = log.encode()
    body = bytes.fromhex(key.replace("-", "")) + struct.pack("<I", len(encoded)) + encoded + image
    return _MAGIC + hashlib.sha256(body).digest() + body


def _parse(key: str, content: bytes) -> tuple[str, memoryview] | None:
    """Splits a file into (log, image); None if `content` is not exactly what `_format` made for `key`."""
    if len(content) < _HEADER.size:
        return None
    magic, digest, found_key, log_bytes = _HEADER.unpack_from(content)
    body = memoryview(content)[_DIGEST_START:]
    if magic != _MAGIC or found_key.hex() != key.replace("-", "") or hashlib.sha256(body).digest() != digest:
        return None
    rest = memoryview(content)[_HEADER.size :]
    if log_bytes > len(rest):
        return None
    try:
        return bytes(rest[:log_bytes]).decode(), rest[log_bytes:]
    except UnicodeDecodeError:
        return None
