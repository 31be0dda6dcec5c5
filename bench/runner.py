"""Runs the selected rows, one after the other, and reports progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

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
    """Runs rows; returns their results, and the figures that were not measured, with reasons.

    The other rows run even if one fails; its failure is then the reason. No row begins after `until`, a time of
    ``time.monotonic``.
    """
    results: list[Result] = []
    skipped: list[Skipped] = []
    for known in rows:
        wanted = [name for name in known.names if wants(patterns, name)]
        if time.monotonic() > until:
            skipped += [Skipped(name, "no time was left") for name in wanted]
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
    """Runs a row; returns an outcome for each of its names, with a failure as the reason of the remaining ones."""
    made: list[Outcome] = []
    lab.cuda.clocks.begin_row()
    try:
        for outcome in known.measure(lab):
            made.append(_with_clocks(lab, outcome))  # noqa: PERF401  outcomes before a failure are kept
        reason = "the row ended without it"
    except SkipRow as skip:
        reason = str(skip)
    except Exception as error:  # noqa: BLE001  one row's failure is reported and the other rows still run
        reason = f"failed: {type(error).__name__}: {error}"
    names = {outcome.name for outcome in made}
    return made + [Skipped(name, reason) for name in known.names if name not in names]


def _with_clocks(lab: Lab, made: Outcome) -> Outcome:
    """Adds the GPU's clocks since the row began to an outcome, if the row has measured on a GPU."""
    return replace(made, clocks=lab.cuda.clocks.record()) if isinstance(made, Result) else made
