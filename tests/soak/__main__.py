"""Soaks a host: VMs come, compute, fault, flood and leave, daemons and workers are killed, VMs migrate; does anything grow?

Exits with 1 if memory or descriptors grow, a result was wrong, a request never ended or an account does not add up.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

from tests.soak.run import Soak


def _hours(text: str) -> float:
    hours = float(text)
    if not 0 < hours <= 1000:
        raise argparse.ArgumentTypeError(f"{text} hours; allowed: more than 0, 1000 at most, such as 0.1")
    return hours


def main() -> int:
    """Runs the program; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=_hours, default=0.1, metavar="H", help="length; default 0.1; fractions count")
    given = parser.parse_args()
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: interrupted.set())
    good = Soak(given.hours, lambda line: print(line, flush=True)).run(interrupted)
    return 0 if good else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads whose request never ended would keep it
