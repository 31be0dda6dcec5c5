"""Runs the selected rows, one after the other, and reports as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from bench.lab import Lab
from bench.registry import Outcome, Row, wants
from bench.results import Result, Skipped, SkipRow


def run_rows(
    lab: Lab,
    rows: Sequence[Row],
    patterns: Sequence[str],
    progress: Callable[[str], None],
    until: float = math.inf,
) -> tuple[list[Result], list[Skipped]]:
    """What the rows measured, and which did not run and why.

    A row that fails does not keep the others from running: its failure is its reason. None begins after `until`, a time
    of ``time.monotonic``.
    """
    results: list[Result] = []
    skipped: list[Skipped] = []
    for known in rows:
        wanted = [name for name in known.names if wants(patterns, name)]
        if time.monotonic() > until:
            skipped += [Skipped(name, "no time was left for it") for name in wanted]
            continue
        progress(", ".join(wanted))
        for made in _measure(lab, known):
            if made.name not in wanted:
                continue
            if isinstance(made, Result):
                results.append(made)
            else:
                skipped.append(made)
    return results, skipped


def _measure(lab: Lab, known: Row) -> list[Outcome]:
    """One outcome for each of the row's names. What the row did not get to has the row's failure as its reason."""
    made: list[Outcome] = []
    try:
        made.extend(known.measure(lab))
        reason = "the row ended without it"
    except SkipRow as skip:
        reason = str(skip)
    except Exception as error:  # noqa: BLE001  one row's failure is reported and the other rows still run
        reason = f"failed: {type(error).__name__}: {error}"
    names = {outcome.name for outcome in made}
    return made + [Skipped(name, reason) for name in known.names if name not in names]
