"""Compares many random kernels in three ways: ``python -m tests.ptx_reference [--programs N] [--seed FIRST]``.

Each batch runs in a process of its own: code that is compiled wrong may end it. The exit status is 1 if results differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

BATCH: Final = 4


def main() -> int:
    """Runs batches one after the other, or one batch (``--batch``); prints kernels whose results differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.ptx_reference", description=__doc__)
    parser.add_argument("--programs", type=int, default=2000, help="number of kernels")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first kernel")
    parser.add_argument("--batch", action="store_true", help="in this process")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.programs)
    return batch(seeds) if options.batch else batches(seeds)


def batch(seeds: range) -> int:
    from tests.ptx_reference.three_ways import differences

    wrong = differences(seeds)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


def batches(seeds: range) -> int:
    failed = 0
    for first in seeds[::BATCH]:
        size = min(BATCH, seeds.stop - first)
        command = [sys.executable, "-m", "tests.ptx_reference", "--batch", f"--seed={first}", f"--programs={size}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            failed += 1
            sys.stdout.write(
                f"kernels {first} to {first + size - 1}: status {done.returncode}\n{done.stdout}{done.stderr}\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"{len(seeds)} kernels, {failed} batches differ\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
