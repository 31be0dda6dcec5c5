"""Damaged and forged files in the cache of compiled programs.

An input is a file's content; if its first byte is odd, the digest is made to fit the rest. The cache gives exactly the program
that a file of this content was made of, or none, and then deletes the file.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

from vhost_backend.compiler import cache
from vhost_backend.sandbox import memfd

IS_MESSAGEPACK: Final = False
KEY: Final = f"{'0' * 16}-{'1' * 48}"
DIGEST: Final = slice(8, 40)
_FOLDER: Final = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def seeds() -> list[bytes]:
    whole = cache._format(KEY, "wärning: unused", b"\x7fELF" + bytes(64))
    return [b"\0" + whole, b"\1" + whole, b"\1" + cache._format(KEY, "", b""), b""]


def run(data: bytes) -> str:
    content = data[1:]
    if data[:1] and data[0] % 2:
        body = content[DIGEST.stop :]
        content = content[: DIGEST.start] + hashlib.sha256(body).digest() + body
    path = _FOLDER / KEY
    path.write_bytes(content)
    found = cache.DiskCache(_FOLDER).load(KEY)
    if found is None:
        assert not path.exists()
        return "none"
    with found.image:
        image = memfd.read(found.image.fileno(), found.size_bytes - len(found.log))
    assert cache._format(KEY, found.log, image) == content
    return f"a program with{'' if found.log else 'out'} a log"
