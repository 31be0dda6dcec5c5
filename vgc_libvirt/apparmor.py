"""Rules of AppArmor for QEMU under libvirt: whether they let it use a path.

It reads what administrators add to libvirt's abstraction, not all of AppArmor's language: file rules of full paths, with its globs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ADDITIONS: Final = ("etc/apparmor.d/abstractions/libvirt-qemu.d", "etc/apparmor.d/local/abstractions/libvirt-qemu")
"""Folder and file of additions to libvirt's rules for QEMU, from the root of the host."""

_RULE: Final = re.compile(r'^\s*(?:allow\s+)?(?:owner\s+)?(?:file\s+)?"?((?:@\{run\})?/[^\s"]*)"?\s+([rwaklmx]+)\s*,')
_GLOBS: Final = re.compile(r"\*\*|[*?\[\]{},^]|[^*?\[\]{},^]+")


def allows(path: Path, root: Path = Path("/")) -> bool:
    """True if a rule that was added to libvirt's lets QEMU read and write `path`."""
    for text in _additions(root):
        for line in text.splitlines():
            rule = _RULE.match(line)
            if rule and {"r", "w"} <= set(rule[2]) and matches(rule[1], str(path)):
                return True
    return False


def _additions(root: Path) -> Iterator[str]:
    for place in (root / name for name in ADDITIONS):
        yield from _texts(sorted(place.iterdir()) if place.is_dir() else [place])


def _texts(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        if file.is_file():
            yield file.read_text(errors="replace")


def matches(glob: str, path: str) -> bool:
    """True if a glob of AppArmor's [apparmor.d(5), globbing] has `path`."""
    pattern, in_braces = "", 0
    for part in _GLOBS.findall(glob.replace("@{run}", "/run")):
        match part:
            case "**":
                pattern += ".*"
            case "*":
                pattern += "[^/]*"
            case "?":
                pattern += "[^/]"
            case "[" | "]" | "^":
                pattern += part
            case "{":
                pattern, in_braces = f"{pattern}(?:", in_braces + 1
            case "}":
                pattern, in_braces = f"{pattern})", in_braces - 1
            case "," if in_braces:
                pattern += "|"
            case _:
                pattern += re.escape(part)
    try:
        return re.fullmatch(pattern, path) is not None
    except re.error:
        return False
