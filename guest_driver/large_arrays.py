"""Calls whose arrays are too large for one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from guest_driver.arguments import In, InOut, Out
from guest_driver.errors import OutOfMemory, ResourcesExhausted
from guest_driver.memory import DeviceArray


def call_or_launch(
    call: Callable[[Sequence[Any]], object],
    launch: Callable[[Sequence[Any]], object],
    empty: Callable[..., DeviceArray],
    values: Sequence[Any],
) -> None:
    """Calls a function in one request on numbers, and on `In`, `Out` and `InOut` of numpy arrays.

    If the shared region has no room for them, they are copied to device memory and back in pieces, and the function is
    launched between.

    :param empty: allocates an array on the device, as `Device.empty`.
    """
    try:
        call(values)
        return
    except ResourcesExhausted as error:
        if isinstance(error, OutOfMemory):
            raise
    copies = [copied(value, empty) for value in values]
    launch(copies)
    for value, copy in zip(values, copies, strict=True):
        if isinstance(value, Out | InOut):
            copy.get(value.data)


def copied(value: Any, empty: Callable[..., DeviceArray]) -> Any:
    """Copy of an argument's array on the device; numbers stay what they are."""
    if not isinstance(value, In | Out | InOut):
        return value
    copy = empty(value.data.shape, value.data.dtype)
    if not isinstance(value, Out):
        copy.set(value.data)
    return copy
