"""``vgcctl``: the control system on a terminal. Verbs are in `verbs`, one module each; `link` is what they ask."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The program; see `control_center.cli.command`."""
    from control_center.cli.command import main as run

    return run(argv)
