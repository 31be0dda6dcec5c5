"""``vgcctl``: the control system on a terminal. `verbs` has one module per verb; they ask a control centre, or the
daemon of one host, through a `link`.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; see `control_center.cli.command`."""
    from control_center.cli.command import main as run

    return run(argv)
