"""Inflicts faults on a host while three guests compute: ``make drill``, ``python -m tests.drill [--faults N] [--seed S]``.

The exit status is 1 if anything was wrong; then the seed and the fault's number are told, and the events of vgcd are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.drill.clock import now
from tests.drill.drill import Drill
from tests.fakes.guest import REPOSITORY

_EVENTS: Final = REPOSITORY / "build" / "drill-events.jsonl"


def main() -> int:
    """Runs the drill, with a line for each fault, and a table at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="number of faults [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="of their order [%(default)s]")
    options = parser.parse_args()
    begin = now()
    with tempfile.TemporaryDirectory(prefix="vgc-drill-") as folder:
        Path(folder).chmod(0o755)  # compilers and workers have users of their own
        with Drill(Path(folder), options.seed, _say) as drill:
            wrong = drill.run(options.faults)
            if wrong:
                _EVENTS.parent.mkdir(exist_ok=True)
                _EVENTS.write_text("".join(f"{json.dumps(one)}\n" for one in list(drill.host.vgcd.events)))
    for line in ("", *drill.table(), "", f"{drill.held()}; {now() - begin:.0f} s"):
        _say(line)
    if wrong:
        _say(f"wrong: {wrong}; the events of vgcd are in {_EVENTS}")
    return int(bool(wrong))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
