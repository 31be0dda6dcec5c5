"""Builds the C parts that a run on a GPU needs, independently, and the benchmark's loops and baselines."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from tools.build import PARTS, bring_up_to_date
from tools.common import REPOSITORY

NOT_NEEDED: Final = ("CPU engine's compiler", "CPU engine's built-in functions")
"""Parts that a run does not use, and whose build tools (LLVM, Highway) GPU machines seldom have."""


def main() -> int:
    """Builds; returns 1 if a part failed. A line that begins with "did not build" names each of them."""
    needed = [part for part in PARTS if part.name not in NOT_NEEDED and not part.is_local]
    failed = [part.name for part in needed if not bring_up_to_date(part)]
    loops = subprocess.run([sys.executable, "-m", "bench.native.build"], cwd=REPOSITORY, check=False)
    failed += ["benchmark's loops"] if loops.returncode != 0 else []
    for name in failed:
        print(f"did not build: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
