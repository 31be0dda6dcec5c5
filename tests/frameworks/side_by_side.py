"""``python -m tests.frameworks.side_by_side PROGRAM``: runs a program twice at once."""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    """Returns the first exit code that is not 0."""
    twins = [subprocess.Popen([sys.executable, sys.argv[1]], close_fds=False) for _ in range(2)]
    return max(twin.wait() for twin in twins)


if __name__ == "__main__":
    raise SystemExit(main())
