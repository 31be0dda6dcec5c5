"""Entry of ``vgcd``: the daemon outlives SIGHUP from its first moment, while it still imports its modules.

``vgcd run`` becomes the keeper (`vhost_backend.keeper`), which runs this program again as the daemon: so the daemon can be
replaced while its VMs go on. Where a keeper runs already, as a service was restarted, it is asked to do that.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

_SERVING: Final = ("run", "--socket-path", "--fd")
"""Arguments with which the program serves VMs; its other commands end on SIGHUP as usual."""


def main() -> int:
    """Runs the program; returns its exit code."""
    if any(argument.partition("=")[0] in _SERVING for argument in sys.argv[1:]):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if "run" in sys.argv[1:2] and "--no-keeper" not in sys.argv and "VGC_KEEPER_FD" not in os.environ:
        from vhost_backend.keeper import service

        return service.run()
    from vhost_backend import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
