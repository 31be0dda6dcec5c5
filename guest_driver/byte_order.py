"""Byte order of numbers: kernels see little-endian ones, whatever the guest's machine.

Arrays on the device have this machine's types, and are converted as they are copied. Buffers that the device reads and
writes in place are not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def is_swapped(dtype: Any) -> bool:
    """Whether numbers of a type of numpy's, or of a similar library, lie in memory otherwise than kernels see them."""
    order = getattr(dtype, "byteorder", "|")
    return order == ">" or (order == "=" and sys.byteorder == "big")


def on_device(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type of the same numbers as kernels see them."""
    return dtype.newbyteorder("<")


def here(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type of the same numbers in the order of this machine."""
    return dtype.newbyteorder("=")


def scalar_bytes(value: Any) -> bytes:
    """Bytes of a scalar of numpy, or of a similar library, as kernels see them."""
    return bytes((value.byteswap() if is_swapped(value.dtype) else value).tobytes())
