"""Host of an open device: its built-in functions, and what numpy asks of its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guest_driver.known_functions import KnownFunctions
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from guest_driver.stream import Stream


@dataclass(frozen=True, slots=True)
class DeviceHost:
    """Runs built-in functions of an open device, by its table of functions, `Device.empty` and `Device.call`."""

    known: KnownFunctions
    allocate: Callable[..., DeviceArray]
    call_by_name: Callable[..., object]

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> DeviceArray:
        """See `host.Host.empty`."""
        return self.allocate(shape, dtype)

    def launch(self, name: str, values: Sequence[Any], stream: Stream | None) -> None:
        """See `host.Host.launch`.

        :raise errors.NotFound: the host does not have the function.
        :raise errors.VgcError: the launch failed.
        """
        with self.known.calling(name):
            self.known.of_call(name)[1, 1, 0, stream](*values)

    def call(self, name: str, values: Sequence[Any]) -> None:
        """See `host.Host.call`.

        :raise errors.NotFound: the host does not have the function.
        :raise errors.VgcError: the call failed.
        """
        self.call_by_name(name, grid=1, block=1, args=values)

    def ufunc(self, ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """See `memory.ArrayFunctions`."""
        from guest_driver.functions.numpy_protocols import NumpyProtocols

        return NumpyProtocols(self).ufunc(ufunc, method, inputs, options)

    def function(self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """See `memory.ArrayFunctions`."""
        from guest_driver.functions.numpy_protocols import NumpyProtocols

        return NumpyProtocols(self).function(function, args, options)

    def convert(self, array: DeviceArray, dtype: DTypeLike) -> DeviceArray:
        """See `memory.ArrayFunctions`."""
        from guest_driver.functions.elementwise import Elementwise

        return Elementwise(self).convert(array, dtype)  # type: ignore[no-any-return]

    def select(self, array: DeviceArray, index: Any) -> DeviceArray:
        """See `memory.ArrayFunctions`."""
        from guest_driver.functions.selection import Selection

        select = Selection(self)
        choose = select.masked if index.dtype.kind == "b" else select.take
        return choose(array, index)  # type: ignore[no-any-return]

    def assign(self, array: DeviceArray, mask: Any, value: Any) -> None:
        """See `memory.ArrayFunctions`."""
        from guest_driver.functions.elementwise import Elementwise

        Elementwise(self).assign(array, value, mask)
