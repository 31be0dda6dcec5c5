"""Seeded samples of corpora that are too large to be tried whole."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.compat import corpus
from tests.compat.corpus import Program

_MPI: Final = re.compile(r"\bmpi(?:cc|cxx|c\+\+|run|exec)\b|-lmpi\b|\bnvshmem|\bMPI_", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sample:
    """How many programs of a corpus are tried, and what chooses them."""

    count: int
    seed: int

    def draw(self, programs: Iterable[Program]) -> list[Program]:
        """The programs drawn, in their order. One more program in the corpus changes at most one of those drawn."""
        programs = list(programs)
        drawn = set(sorted((program.name for program in programs), key=self._rank)[: self.count])
        return [program for program in programs if program.name in drawn]

    def _rank(self, name: str) -> str:
        return hashlib.sha256(f"{self.seed} {name}".encode()).hexdigest()


def needs_mpi(program: Program) -> bool:
    """True if its Makefile calls for MPI; those are never drawn."""
    found = corpus.makefile(program.folder)
    return found is not None and _MPI.search(found.read_text(errors="replace")) is not None


def kept(file: Path, wanted: Sample | None) -> Sample | None:
    """The sample to try, and from now on the one of these results: they would not fit another.

    None: the sample that the file has, if any. A sample of 0 programs forgets it.
    """
    if wanted is None:
        return Sample(**json.loads(file.read_text())) if file.exists() else None
    if not wanted.count:
        file.unlink(missing_ok=True)
        return None
    file.write_text(json.dumps(asdict(wanted)) + "\n")
    return wanted
