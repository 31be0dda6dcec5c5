"""Entry of ``vgcd``: the daemon outlives SIGHUP from its first moment, while it still imports its modules.

``vgcd run`` becomes the keeper (`vhost_backend.keeper`), which runs this program again as the daemon: so the daemon can be
replaced while its VMs go on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

_SERVING: Final = ("run", "--socket-path", "--fd")
"""Arguments with which the program serves VMs; its other commands end on SIGHUP as usual."""
_KEEPER: Final = Path(__file__).parent / "keeper" / "vgc-keeper"
_KEPT_BY: Final = "VGC_KEEPER_FD"
_ALONE: Final = "--no-keeper"


def main() -> int:
    """Runs the program; returns its exit code."""
    if any(argument.partition("=")[0] in _SERVING for argument in sys.argv[1:]):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if "run" in sys.argv[1:2] and _ALONE not in sys.argv and _KEPT_BY not in os.environ and _KEEPER.exists():
        os.execv(_KEEPER, [str(_KEEPER), sys.executable, *sys.orig_argv[1:]])  # noqa: S606  our own program
    from vhost_backend import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
