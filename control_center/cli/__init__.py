"""``vgcctl``: the control system on a terminal. Verbs are in `verbs`, one module each; `link` is what they ask.

In the patent's terms: the control centre's *control module* (the verbs that make user control commands: open, close,
level, send, migrate, flash ...) and its *result observation module* (those that show what comes back: tail, stat, watch,
snap, fault, replay). They speak to the GPU control centre, or to the control system interface of one host.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The program; see `control_center.cli.command`."""
    from control_center.cli.command import main as run

    return run(argv)
