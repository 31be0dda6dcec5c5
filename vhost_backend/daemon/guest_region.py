"""Region of a VM among the memory that its frontend shares: the only memory that the VM's workers get.

A frontend shares everything that has a descriptor, also guest RAM with ``share=on`` (for virtiofs, say), and the regions of
the guest's other devices. The region is told apart by its file and by the driver, which places its rings in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from vhost_backend.config.daemon import MIB, VmConfig
from vhost_backend.vhost_user.memory import MappedRegion, MemoryTable
from vhost_backend.vhost_user.messages import Region, VringAddr


class GuestRegion:
    """Chooses the region whenever the memory table changes or a ring starts.

    The region is the file that the configuration names, or else a whole file of the configured size: guest RAM is neither.
    Of several such, it is the one in which the running rings lie; if there is not exactly one, the VM has no region.
    """

    def __init__(self, config: VmConfig) -> None:
        self._config = config
        self.entry: MappedRegion | None = None
        """The region, which stays the memory table's; None: no running ring lies in it, or `problem` says why not."""
        self.problem = ""

    def choose(self, table: MemoryTable, rings: Collection[VringAddr]) -> bool:
        """Chooses anew, by the addresses of the running rings; True if the region has changed."""
        before = self.entry
        candidates = [entry for entry in table if self._fits(entry)]
        holders = [entry for entry in candidates if any(_holds(entry.region, ring) for ring in rings)]
        self.entry = holders[0] if len(holders) == 1 else None
        self.problem = "" if self.entry is not None or not rings else self._why_none(table, candidates, holders)
        return self.entry is not before

    def forget(self) -> None:
        """Forgets the region, before its memory table goes."""
        self.entry = None
        self.problem = ""

    def _fits(self, entry: MappedRegion) -> bool:
        region, size = entry.region, self._config.region_bytes
        if (region.offset_bytes, region.size_bytes) != (0, size):
            return False
        if self._config.region_file is not None:
            return entry.fd.identity() == _identity(self._config.region_file)
        return entry.fd.file_size() == size

    def _why_none(
        self, table: Iterable[MappedRegion], candidates: list[MappedRegion], holders: list[MappedRegion]
    ) -> str:
        size = _mib(self._config.region_bytes)
        if len(holders) > 1:
            return (
                f"the rings lie in {len(holders)} shared files of {size} each; allowed: all in one, which region_file in "
                "the VM's configuration may name"
            )
        if candidates:
            return "the rings lie in other memory than the region; allowed: rings in the region, as docs/device.md says"
        wanted = f"{self._config.region_file}, {size}" if self._config.region_file else f"a whole file of {size}"
        shared = ", ".join(_mib(entry.region.size_bytes) for entry in table) or "nothing"
        return (
            f"the frontend shares {shared}, and no region; allowed: {wanted}, as QEMU shares it with -object "
            "memory-backend-file,share=on,... and -device ivshmem-plain"
        )


def _holds(region: Region, ring: VringAddr) -> bool:
    end = region.uva + region.size_bytes
    return all(region.uva <= part < end for part in (ring.desc, ring.avail, ring.used))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:g} MiB"
