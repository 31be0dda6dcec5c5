"""Place where built-in functions run: one request for numpy arrays, a launch for device arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from guest_driver.memory import DeviceArray
    from guest_driver.stream import Stream


class Host(Protocol):
    """Runs built-in functions by name. Values are in the order of a function's parameters."""

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> DeviceArray:
        """Allocates an array on the device."""

    def launch(self, name: str, values: Sequence[Any], stream: Stream | None) -> None:
        """Runs a function on device arrays and numbers. Waits for it, or sends it to a stream."""

    def call(self, name: str, values: Sequence[Any]) -> None:
        """Runs a function on numbers, and on `In`, `Out` and `InOut` of numpy arrays: in one request if the shared region
        has room for them.
        """
