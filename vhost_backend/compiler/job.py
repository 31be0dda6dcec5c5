"""What an engine says about how its programs are compiled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """What programs are compiled for: an engine, and that engine's own settings (an architecture, say)."""

    engine: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One compiler run, described by the engine, executed in an empty directory.

    `argv` finds the source under `input_name` and leaves the image under `output_name`, both plain file names;
    what it prints is the log. It sees `readonly_paths`, the system's shared libraries and nothing else, has an
    environment of `environment` alone, and exits with 0 for success. `identity` names everything but the source
    and the options that shapes the image: toolchain version, flags, architecture.
    """

    argv: tuple[str, ...]
    input_name: str
    output_name: str
    readonly_paths: tuple[Path, ...]
    identity: str
    environment: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """A source that a VM wants compiled, with the job that does it."""

    source: bytes
    kind: str
    options: tuple[str, ...]
    job: CompileJob

    def key(self) -> str:
        """The hex digest of all that the image depends on."""
        digest = hashlib.sha256()
        for part in (self.kind, self.job.identity, *self.options):
            encoded = part.encode()
            digest.update(b"%d:" % len(encoded) + encoded)
        digest.update(b"source:")
        digest.update(self.source)
        return digest.hexdigest()
