"""What `vgcd doctor` finds, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `hint` says how to get it; an optional one does not count as missing."""

    name: str
    ok: bool
    text: str
    hint: str = ""
    optional: bool = False


def describe(finding: Finding) -> str:
    """One finding as a person reads it."""
    mark = "ok     " if finding.ok else "missing" if not finding.optional else "absent "
    line = f"{mark}  {finding.name}: {finding.text}"
    return line if finding.ok or not finding.hint else f"{line}\n         to get it: {finding.hint}"
