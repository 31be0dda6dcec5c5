"""The two sides of shadow mode: doing the same on both, and holding what comes out side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from guest_driver import difference, errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

RTOL: Final = 1e-5
ATOL: Final = 1e-8

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sides:
    """What primary and shadow are called, and how far their floats may be apart."""

    names: tuple[str, str]
    rtol: float = RTOL
    atol: float = ATOL

    def both(self, what: str, primary: Callable[[], _T], shadow: Callable[[], _T]) -> tuple[_T, _T]:
        """Does the same on both sides.

        :raise errors.ShadowMismatch: one side fails, or both do in different ways.
        :raise Exception: the primary's, if both fail alike.
        """
        (ours, first), (theirs, second) = _outcome(primary), _outcome(shadow)
        if first is None and second is None:
            assert ours is not None
            assert theirs is not None
            return ours[0], theirs[0]
        if first is not None and type(first) is type(second):
            raise first
        told = [f"{name}: {error or 'no error'}" for name, error in zip(self.names, (first, second), strict=True)]
        raise errors.ShadowMismatch("\n  ".join([f"{what}: not the same on both", *told])) from (first or second)

    def compare(self, what: str, primary: NDArray[Any], shadow: NDArray[Any]) -> None:
        """Refuses contents that differ.

        :raise errors.ShadowMismatch: with `what`, how much of it differs, and the first place.
        """
        found = difference.find(primary, shadow, rtol=self.rtol, atol=self.atol)
        if found is not None:
            raise errors.ShadowMismatch(f"{what} on {' and '.join(self.names)}: {found}")


def _outcome(act: Callable[[], _T]) -> tuple[tuple[_T] | None, Exception | None]:
    try:
        return (act(),), None
    except (errors.VgcError, TypeError, ValueError) as error:
        return None, error
