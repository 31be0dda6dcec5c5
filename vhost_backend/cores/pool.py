"""Pool of the host's processors: some VMs have some for their own, and all other VMs, and the daemon, share what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from vhost_backend.cores import lists
from vhost_backend.errors import HostError

OwnCores: TypeAlias = frozenset[int] | Literal["own"] | None
"""Processors that a VM is to have for its own: these, or as many as it has elements; None: it shares those of others."""

_SYSTEM: Final = Path("/sys/devices/system/cpu")
_HINT: Final = "whoever runs the host may change quota.pes and quota.cores of its VMs"


class CorePool:
    """Processors that a daemon's VMs may use. One of them at least is nobody's own."""

    def __init__(self, cores: Collection[int], system: Path = _SYSTEM) -> None:
        """`cores`: those of the host that this process may use."""
        self.cores: Final = frozenset(cores)
        self._near = sorted(self.cores, key=lambda core: _location(core, system))
        """Processors, such that neighbours share as much of the hardware as can be."""
        self._system = system
        self._owners: dict[int, str] = {}
        self._lent: dict[int, Place] = {}
        self._watchers: list[Callable[[], None]] = []

    @property
    def shared(self) -> frozenset[int]:
        """Processors that no VM has for its own, or for now."""
        return self.cores.difference(self._owners, self._lent)

    @property
    def competed(self) -> int:
        """Number of processors that VMs share which have none for their own, with those that are lent to some of them."""
        return len(self.cores) - len(self._owners)

    def lend(self, loans: Mapping[Place, int]) -> bool:
        """Gives each of these VMs, which have none for their own, so many of the shared processors for now, and takes back
        those of all others. One at least stays for others: what is beyond is not lent. False: all is as before.
        """
        before = self._lent
        self._take_back({place for place in before.values() if len(place.lent) != loans.get(place)})
        for place, count in loans.items():
            if not place.lent and count < len(self.shared):
                place.lent = self._nearest(self.shared, count)
                self._lent = {**self._lent, **dict.fromkeys(place.lent, place)}
        if self._lent == before:
            return False
        self._tell()
        return True

    def _take_back(self, places: Collection[Place]) -> None:
        for place in places:
            place.lent = frozenset()
        self._lent = {core: place for core, place in self._lent.items() if place not in places}

    @contextlib.contextmanager
    def watched(self, moved: Callable[[], None]) -> Iterator[None]:
        """Has `moved` called whenever VMs get processors for their own, or leave them."""
        self._watchers.append(moved)
        try:
            yield
        finally:
            self._watchers.remove(moved)

    @contextlib.contextmanager
    def place(self, vm: str, wanted: OwnCores, pes: int | None) -> Iterator[Place]:
        """A VM's place in the pool, until it leaves. `pes`: its number of processing elements.

        :raise HostError: other VMs have those processors, this process may not use them, or none would be left to others.
        """
        if wanted is None:
            place = Place(self, None)
            try:
                yield place
            finally:
                if place.lent:
                    self._take_back({place})
                    self._tell()
            return
        self._take_back(set(self._lent.values()))
        try:
            own = self._chosen(vm, wanted, pes or 1)
        except HostError:
            self._tell()
            raise
        self._owners |= dict.fromkeys(own, vm)
        self._tell()
        try:
            yield Place(self, own)
        finally:
            for core in own:
                del self._owners[core]
            self._tell()

    def _chosen(self, vm: str, wanted: frozenset[int] | Literal["own"], pes: int) -> frozenset[int]:
        free = self.shared
        count = pes if wanted == "own" else len(wanted)
        if wanted != "own":
            if strange := wanted - self.cores:
                raise HostError(
                    f"{vm} is to have the cores {lists.shown(wanted)}, and vgcd may not use {lists.shown(strange)} here; "
                    f"allowed: of {lists.shown(self.cores)}",
                    _HINT,
                )
            if taken := wanted - free:
                owners = ", ".join(sorted({self._owners[core] for core in taken}))
                raise HostError(
                    f"{vm} is to have the cores {lists.shown(wanted)}, and {lists.shown(taken)} are those of {owners}; "
                    f"allowed: of {lists.shown(free)}",
                    _HINT,
                )
        if count >= len(free):
            raise HostError(
                f"{vm} is to have {count} of the host's cores for its own, and {len(free)} of {len(self.cores)} are left, of "
                f"which one stays for all others; allowed: {len(free) - 1}",
                _HINT,
            )
        return self._nearest(free, pes) if wanted == "own" else wanted

    def _nearest(self, free: frozenset[int], count: int) -> frozenset[int]:
        """The last processors of a package that has so many free, or else of all: the first ones often serve interrupts."""
        packages: dict[int, list[int]] = {}
        for core in self._near:
            if core in free:
                packages.setdefault(_location(core, self._system)[0], []).append(core)
        fitting = [cores for cores in reversed(packages.values()) if len(cores) >= count]
        best = min(fitting, key=len, default=[core for core in self._near if core in free])
        return frozenset(best[-count:])

    def _tell(self) -> None:
        for moved in list(self._watchers):
            moved()


class Place:
    """Processors of one VM."""

    def __init__(self, pool: CorePool, own: frozenset[int] | None) -> None:
        """`own`: those that are the VM's own; None: it has none."""
        self.pool = pool
        self.own = own
        self.lent: frozenset[int] = frozenset()
        """Processors that a VM which has none for its own has to itself for now (`CorePool.lend`)."""

    @property
    def elements(self) -> frozenset[int]:
        """Processors on which the VM's processing elements run."""
        return self.own or self.lent or self.pool.shared

    @property
    def others(self) -> frozenset[int]:
        """Processors on which the VM's other threads run, which serve its elements."""
        return self.pool.shared | (self.own or self.lent)


def _location(core: int, system: Path) -> tuple[int, int, int]:
    """Package and physical core of a processor, and itself."""
    topology = system / f"cpu{core}/topology"
    return _number(topology / "physical_package_id"), _number(topology / "core_id"), core


def _number(path: Path) -> int:
    """Number that a file holds; 0 if it does not."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
