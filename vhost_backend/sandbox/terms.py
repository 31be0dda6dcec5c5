"""Terms of sandboxes, for those who build one and those who live in one: modes, errors, and what a job sees of the host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from vhost_backend.errors import HostError

SandboxMode: TypeAlias = Literal["strict", "best-effort", "permissive", "off"]
STRICT_MODES: Final[frozenset[SandboxMode]] = frozenset(("strict", "permissive"))
"""Modes in which a wall that cannot be built is an error. Permissive mode is one of them: it differs from strict only
in that system calls which the filter would refuse are let through and logged."""


class SandboxError(HostError):
    """The sandbox could not be built; `feature` names the missing feature of the host."""

    def __init__(self, feature: str, text: str) -> None:
        self.feature = feature
        super().__init__(f"cannot build the sandbox: {feature}: {text}", "or set 'sandbox: best-effort'")


@dataclass(frozen=True, slots=True)
class Bind:
    """File or folder of the host that a job sees, read-only, under another path."""

    source: Path
    target: Path
