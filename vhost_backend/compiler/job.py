"""Compiler jobs: an engine's description of how one of its programs is compiled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a compilation: an engine, and that engine's own settings (an architecture, for example)."""

    engine: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CompileJob:
    """Compiler run, described by the engine, executed in an empty directory.

    `argv` finds the source under `input_name` and leaves the image under `output_name`, both plain file names;
    its output is the log. It sees only `readonly_paths` and the system's shared libraries, has only `environment` as
    its environment, and exits with 0 for success. `identity` names everything besides source and options that the
    image depends on: toolchain version, flags, architecture.
    """

    argv: tuple[str, ...]
    input_name: str
    output_name: str
    readonly_paths: tuple[Path, ...]
    identity: str
    environment: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Source that a VM wants compiled, with the job that compiles it."""

    source: bytes
    kind: str
    options: tuple[str, ...]
    job: CompileJob

    def key(self) -> str:
        """Hex digest of everything that the image depends on."""
        digest = hashlib.sha256()
        for part in (self.kind, self.job.identity, *self.options):
            encoded = part.encode()
            digest.update(b"%d:" % len(encoded) + encoded)
        digest.update(b"source:")
        digest.update(self.source)
        return digest.hexdigest()
