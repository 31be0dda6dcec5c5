"""Finding of ``vgc-libvirt check``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a domain or its host, or about to be."""

    place: str
    """Domain, file or VM that it is about."""
    text: str
    hint: str = ""
    """Way to mend it."""
    is_warning: bool = False
    """True: the domain starts and computes all the same."""

    def __str__(self) -> str:
        kind = "warning" if self.is_warning else "error"
        lines = [f"{kind}: {self.place}: {self.text}", *([f"  to mend it: {self.hint}"] if self.hint else [])]
        return "\n".join(lines)
