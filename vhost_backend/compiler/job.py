"""Compiler jobs: an engine's description of how one of its programs is compiled."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.sandbox.terms import Bind

DOMAIN_DIGITS: Final = 16
"""Digits of a key that tell its domain from others."""

INSIDE: Final = Path("/vgc")
"""Folder under which compilers see all files of the host: logs and programs show neutral names, no path of the host."""

LOOKED_AT: Final = 128 << 10
"""Longest source that an engine looks at to describe its job: the daemon serves nobody else meanwhile."""


def domain_digits(domain: str) -> str:
    """First part of the keys of a domain's programs."""
    return hashlib.sha256(domain.encode()).hexdigest()[:DOMAIN_DIGITS]


def may_have(pattern: re.Pattern[bytes], source: bytes) -> bool:
    """False if `pattern` finds nothing in `source`; a source longer than `LOOKED_AT` may have anything."""
    return len(source) > LOOKED_AT or pattern.search(source) is not None


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a compilation: an engine, and that engine's own settings (an architecture, for example)."""

    engine: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CompileJob:
    """Compiler run, described by the engine, executed in an empty directory.

    `argv` finds the source under `input_name` and leaves the image under `output_name`, both plain file names; its output
    is the log. It exits with 0 for success. `identity` names everything besides source and options that the image depends
    on: toolchain version, flags, architecture.
    """

    argv: tuple[str | Path, ...]
    """Command. A `Path` is a file or folder of the host, and the command gets the name under which it sees that."""
    input_name: str
    output_name: str
    visible: tuple[Bind, ...]
    """Files and folders of the host that the compiler sees, besides the libraries of programs among them."""
    identity: str
    is_alone: bool = False
    """The compiler starts no other program."""

    def command(self, *, isolated: bool) -> tuple[str, ...]:
        """Command as the compiler's process gets it: with its own names of files, or the host's if it is not isolated."""
        return tuple(self._inside(word) if isolated and isinstance(word, Path) else str(word) for word in self.argv)

    def _inside(self, path: Path) -> str:
        """Name of a visible file, or of a folder that has visible files and keeps their places in it.

        :raise ValueError: the job does not show the file.
        """
        for bind in self.visible:
            if path.is_relative_to(bind.source):
                return str(bind.target / path.relative_to(bind.source))
        for bind in self.visible:
            place = f"/{bind.source.relative_to(path)}" if bind.source.is_relative_to(path) else ""
            if place and str(bind.target).endswith(place):
                return str(bind.target).removesuffix(place)
        raise ValueError(f"{path} is in the command of a compiler that does not see it")


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Source that a VM wants compiled, with the job that compiles it."""

    domain: str
    """Cache domain: nobody outside of it is answered from the cache with the result, or learns that it exists."""
    source: bytes
    kind: str
    options: tuple[str, ...]
    job: CompileJob

    def key(self) -> str:
        """Hex digest of the domain, and one of it and of everything that the image depends on: ``DOMAIN-PROGRAM``."""
        digest = hashlib.sha256()
        for part in (self.domain, self.kind, self.job.identity, *self.options):
            encoded = part.encode()
            digest.update(b"%d:" % len(encoded) + encoded)
        digest.update(b"source:")
        digest.update(self.source)
        return f"{domain_digits(self.domain)}-{digest.hexdigest()[DOMAIN_DIGITS:]}"
