"""Shares of processors that VMs use together: what each is entitled to by its weight, and what it has had so far.

The kernel divides processors among control groups by weight, but each processor by itself, and from one moment to the next:
a group whose threads often sleep and wake, or are unevenly spread, gets half of its share or twice as much. What VMs have
had is known from the kernel's clocks. Whoever has had too little gets more weight until that is made up for.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

MOST: Final = 4.0
"""Most by which a weight is multiplied, or divided."""
_SETTLES_IN_S: Final = 0.3
"""Time of its share that a VM must be owed for its weight to be multiplied by e."""
_ALWAYS: Final = 0.9
"""Processors that a VM wants on average, of one, for it to always have work."""
_FORGETS: Final = 0.5
"""Part of what a VM is owed that is left when it had no work for a while."""

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Use:
    """Use of processors by a VM in some time."""

    weight: float
    used_s: float
    """Time of processors that it has used."""
    wanted_s: float
    """Time of processors that it has used and, for each of its processing elements, the time for which it waited for a processor."""
    is_alone: bool = True
    """False: other processes of the VM may have used its share, too."""


def divide(total: float, claims: Sequence[tuple[float, float]]) -> list[float]:
    """Divides `total` among claims, each a weight and the most that is wanted: by weight, and what one leaves is the others'."""
    parts = [0.0] * len(claims)
    still = list(range(len(claims)))
    while still:
        each = total / sum(claims[index][0] for index in still)
        content = [index for index in still if claims[index][1] <= each * claims[index][0]]
        for index in content or still:
            weight, wanted = claims[index]
            parts[index] = wanted if content else each * weight
            total -= parts[index]
        still = [index for index in still if index not in content] if content else []
    return parts


@dataclass(frozen=True, slots=True)
class Standing:
    """How a VM stands to what it is entitled to."""

    entitled_s: float
    """Time of processors that was due to it, as its weight and what others wanted are."""
    factor: float
    """By what to multiply its weight, so that it gets what it is owed."""


class Debts(Generic[_Key]):
    """Time of processors that VMs are owed, or owe."""

    def __init__(self) -> None:
        self._owed_s: dict[_Key, float] = {}

    def settle(self, uses: Mapping[_Key, Use], elapsed_s: float) -> dict[_Key, Standing]:
        """Takes into account what VMs have had in the last `elapsed_s`; returns how each stands.

        VMs that are not in `uses` are forgotten. A lone one is owed nothing.
        """
        entitled = divide(
            sum(use.used_s for use in uses.values()), [(use.weight, use.wanted_s) for use in uses.values()]
        )
        self._owed_s = {
            key: self._now_owed_s(key, use, part_s, elapsed_s) if len(uses) > 1 else 0.0
            for (key, use), part_s in zip(uses.items(), entitled, strict=True)
        }
        return {
            key: Standing(part_s, _factor(self._owed_s[key], part_s / elapsed_s))
            for key, part_s in zip(uses, entitled, strict=True)
        }

    def _now_owed_s(self, key: _Key, use: Use, entitled_s: float, elapsed_s: float) -> float:
        before_s = self._owed_s.get(key, 0.0)
        if not use.is_alone or use.wanted_s < _ALWAYS * elapsed_s:
            return before_s * _FORGETS
        most_s = math.log(MOST) * _SETTLES_IN_S * entitled_s / elapsed_s
        return max(-most_s, min(most_s, before_s + entitled_s - use.used_s))


def _factor(owed_s: float, share: float) -> float:
    """Factor of a weight. `share`: processors that the VM is entitled to."""
    return math.exp(max(-math.log(MOST), min(math.log(MOST), owed_s / (_SETTLES_IN_S * share)))) if share > 0 else 1.0
