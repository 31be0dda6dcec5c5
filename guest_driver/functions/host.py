"""Place where built-in functions run: one request for numpy arrays, a launch for device arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from guest_driver.known_functions import KnownFunctions
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from guest_driver.stream import Stream


class Host(Protocol):
    """Runs built-in functions by name. Values are in the order of a function's parameters."""

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> DeviceArray:
        """Allocates an array on the device."""

    def launch(self, name: str, values: Sequence[Any], stream: Stream | None) -> None:
        """Runs a function on device arrays and numbers. Waits for it, or sends it to a stream."""

    def call(self, name: str, values: Sequence[Any]) -> None:
        """Runs a function in one request on numbers, and on `In`, `Out` and `InOut` of numpy arrays."""


@dataclass(frozen=True, slots=True)
class DeviceHost:
    """Host of an open device, by its table of functions, `Device.empty` and `Device.call`."""

    known: KnownFunctions
    allocate: Callable[..., DeviceArray]
    call_by_name: Callable[..., object]

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> DeviceArray:
        """See `Host.empty`."""
        return self.allocate(shape, dtype)

    def launch(self, name: str, values: Sequence[Any], stream: Stream | None) -> None:
        """See `Host.launch`.

        :raise errors.NotFound: the host does not have the function.
        :raise errors.VgcError: the launch failed.
        """
        with self.known.calling(name):
            self.known.of_call(name)[1, 1, 0, stream](*values)

    def call(self, name: str, values: Sequence[Any]) -> None:
        """See `Host.call`.

        :raise errors.NotFound: the host does not have the function.
        :raise errors.VgcError: the call failed.
        """
        self.call_by_name(name, grid=1, block=1, args=values)
