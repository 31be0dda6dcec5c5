"""Table of steps and their times, for programs that show how long a device works for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

_T = TypeVar("_T")


@dataclass
class Steps:
    """Steps in order, each with its time."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)
    """Name, place and seconds of each step."""

    def timed(self, name: str, step: Callable[[], _T], where: str = "") -> _T:
        """Runs a step and returns its result."""
        start = time.perf_counter()
        result = step()
        self.rows.append((name, where, time.perf_counter() - start))
        return result

    @property
    def seconds(self) -> float:
        return sum(seconds for _, _, seconds in self.rows)

    def __str__(self) -> str:
        """Formats a table: step, time, share of the total, place."""
        width = max([len(name) for name, _, _ in self.rows] + [len("step")])
        total = self.seconds or 1.0
        lines = [f"{'step':<{width}} {'time':>11} {'share':>6}  where"]
        for name, where, seconds in self.rows:
            lines.append(f"{name:<{width}} {seconds * 1e3:>8.3f} ms {seconds / total:>6.1%}  {where}".rstrip())
        return "\n".join([*lines, f"{'total':<{width}} {self.seconds * 1e3:>8.3f} ms"])
