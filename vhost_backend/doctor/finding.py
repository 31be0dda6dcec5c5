"""Finding of `vgcd doctor`, and its text for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. `hint` says how to get what is missing; an optional thing does not count as missing."""

    name: str
    ok: bool
    text: str
    hint: str = ""
    optional: bool = False


def describe(finding: Finding) -> str:
    """Formats a finding for people."""
    mark = "ok     " if finding.ok else "missing" if not finding.optional else "absent "
    line = f"{mark}  {finding.name}: {finding.text}"
    return line if finding.ok or not finding.hint else f"{line}\n         to get it: {finding.hint}"
