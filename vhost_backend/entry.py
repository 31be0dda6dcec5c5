"""Entry of ``vgcd``: the daemon outlives SIGHUP from its first moment, while it still imports its modules."""

from __future__ import annotations

import signal
import sys
from typing import Final

_SERVING: Final = ("run", "--socket-path", "--fd")
"""Arguments with which the program serves VMs; its other commands end on SIGHUP as usual."""


def main() -> int:
    """Runs the program; returns its exit code."""
    if any(argument.partition("=")[0] in _SERVING for argument in sys.argv[1:]):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from vhost_backend import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
