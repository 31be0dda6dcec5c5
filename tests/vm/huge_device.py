"""Device whose region lies in huge pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Self

from tests import huge_pages
from tools.machine import Device


@dataclass(frozen=True, slots=True)
class HugeDevice(Device):
    """Device with a region of huge pages."""

    pages: huge_pages.Kind = huge_pages.OF_2_MIB

    @classmethod
    def of(cls, device: Device, pages: huge_pages.Kind) -> Self:
        """Makes such a device of an ordinary device."""
        return cls(**{field.name: getattr(device, field.name) for field in fields(device)}, pages=pages)

    @contextmanager
    def region(self) -> Iterator[int]:
        """Yields the region's file.

        :raise huge_pages.NoHugePagesError: the machine does not have so many.
        """
        descriptor = self.pages.file(self.region_bytes)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
