"""Writer of initramfs archives, in the kernel's "newc" cpio format; all entries are owned by root."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

ALIGNMENT: Final = 4
TRAILER: Final = "TRAILER!!!"


class CpioArchive:
    """Archive; `data()` returns its bytes. Adding an entry adds its parent folders."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._folders: set[str] = set()
        self._inode = 0

    def add_bytes(self, name: str, contents: bytes, mode: int = 0o644) -> None:
        """Adds a regular file called `name` (relative to the root)."""
        self.add_folder(str(Path(name).parent))
        self._entry(name, stat.S_IFREG | mode, contents)

    def add_file(self, name: str, source: Path) -> None:
        """Adds a regular file with the contents and the executable bits of `source`."""
        self.add_bytes(name, source.read_bytes(), 0o644 | (source.stat().st_mode & 0o111))

    def add_link(self, name: str, target: str) -> None:
        self.add_folder(str(Path(name).parent))
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def add_folder(self, name: str) -> None:
        if name in (".", "/", "") or name in self._folders:
            return
        self.add_folder(str(Path(name).parent))
        self._folders.add(name)
        self._entry(name, stat.S_IFDIR | 0o755, b"")

    def data(self) -> bytes:
        """Returns the archive with all entries added so far."""
        return b"".join([*self._parts, _record(TRAILER, 0, 0, b"")])

    def _entry(self, name: str, mode: int, contents: bytes) -> None:
        self._inode += 1
        self._parts.append(_record(name, self._inode, mode, contents))


def _record(name: str, inode: int, mode: int, contents: bytes) -> bytes:
    path = name.encode() + b"\0"
    links, owner, group, mtime, device = 1, 0, 0, 0, 0
    fields = (inode, mode, owner, group, links, mtime, len(contents), device, device, device, device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return _padded(head) + _padded(contents)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)
