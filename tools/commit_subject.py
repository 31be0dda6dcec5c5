"""Is a commit's subject as CONTRIBUTING says? The hook of pre-commit calls it: ``python -m tools.commit_subject FILE``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LONGEST: Final = 72
SUBJECT: Final = re.compile(r"(?P<area>[a-z0-9][a-z0-9 ./_-]*): (?P<what>\S.*)")
GITS_OWN: Final = re.compile(r"(Merge|Revert|Reapply) |(fixup|squash|amend)! ")
"""Subjects that git makes."""

SCISSORS: Final = re.compile(r"^# -+ >8 -+.*", re.MULTILINE | re.DOTALL)
"""Behind it, `git commit --verbose` shows the change."""

_VERBS: Final = "add allow change check drop fix handle improve introduce make move name refactor remove rename say show test update use"
NOT_IMPERATIVE: Final = frozenset(
    form
    for verb in _VERBS.split()
    for stem in (verb, verb.removesuffix("e"), verb + verb[-1])
    for form in (f"{verb}s", f"{stem}es", f"{stem}ed", f"{stem}ing")
) - frozenset(_VERBS.split())
"""Words that subjects begin with where an imperative was meant."""


def problems(message: str) -> list[str]:
    """Problems of a commit's message; comments are not part of it."""
    text = SCISSORS.sub("", message)
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if GITS_OWN.match(subject):
        return []
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters; allowed: {LONGEST}")
    if len(lines) > 1 and lines[1]:
        found.append("an empty line must follow the subject")
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return [*found, "the subject is not 'area: what it does now', with the area in lower case"]
    if match["what"].endswith("."):
        found.append("the subject ends with a full stop")
    first = match["what"].split()[0]
    if first.lower() in NOT_IMPERATIVE:
        found.append(f"'{first}' is no imperative")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    (path,) = sys.argv[1:] if argv is None else argv
    found = problems(Path(path).read_text())
    for problem in found:
        print(f"commit message: {problem} (CONTRIBUTING, 'Commits')", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
