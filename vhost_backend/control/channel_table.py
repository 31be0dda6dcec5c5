"""Control link management of one VM: which device channels there are, with which numbers, on which terms, for whom.

There is one device channel for an element and a function; instances share it. The table holds what is *wanted*, and
`settle` makes it so in the worker, in as few commands as it takes. So a worker that is replaced, a VM whose worker
comes later and an instance that joins another's channel are all the same case.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from vhost_backend.control.channel_port import Batch, Binding, ChannelError, Terms, VmChannels, WorkerGoneError
from vhost_backend.control.instances import Instance
from vhost_backend.control.refusal import RefusedError
from virtio_proto.control.records import Function

MAX_COUNT: Final = 1 << 62
"""A count that says more is of no element's life time: guest code, or a worker, has made it up. All sums stay below
what the API's numbers hold, so that nobody's counts keep anybody from seeing theirs."""

MAX_PER_COMMAND: Final = 1024
"""So many channels fit a command's packet."""


@dataclass(slots=True)
class Counts:
    """What a channel has said of its records."""

    records: int = 0
    lost: int = 0
    skipped: int = 0
    forged: int = 0
    cost_ns: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(
            min(self.records + other.records, MAX_COUNT),
            min(self.lost + other.lost, MAX_COUNT),
            min(self.skipped + other.skipped, MAX_COUNT),
            min(self.forged + other.forged, MAX_COUNT),
            min(self.cost_ns + other.cost_ns, MAX_COUNT),
        )


@dataclass(slots=True, eq=False)
class DeviceChannel:
    """One channel between an element and the host. `bound` are the terms on which the worker has it; None: it has not."""

    number: int
    pe: int
    function: Function
    generation: int = 0
    instances: dict[int, Instance] = field(default_factory=dict)
    leaving: Instance | None = None
    """The last one that it had, while it is being released: what is still in it is for that one."""
    bound: Terms | None = None
    sample: int = 0
    """In force: the governor may have raised it."""
    problem: str = ""
    """Why the worker does not have it as it is wanted."""
    before: Counts = field(default_factory=Counts)
    """Of earlier generations."""
    now: Counts = field(default_factory=Counts)

    @property
    def counts(self) -> Counts:
        return self.before.plus(self.now)

    def receivers(self) -> list[Instance]:
        """Whom its records are for."""
        return list(self.instances.values()) or ([] if self.leaving is None else [self.leaving])

    def wanted(self) -> Terms:
        """What suits all of its instances: the highest level, the least sampling, the most room, the shortest period."""
        terms = [instance.terms for instance in self.instances.values()]
        periods = [item.period_ms for item in terms if item.period_ms]
        return Terms(
            level=max(item.level for item in terms),
            policy=terms[0].policy,
            sample=min(item.sample for item in terms),
            slots=max(item.slots for item in terms),
            in_bytes=max(item.in_bytes for item in terms),
            wait_ns=max(item.wait_ns for item in terms),
            period_ms=min(periods, default=0),
        )

    def count(self, batch: Batch) -> None:
        said = Counts(batch.records, batch.lost, batch.skipped, batch.forged, batch.cost_ns)
        self.now = said.plus(Counts())

    def unbind(self) -> None:
        """It is bound no more: its counts go on from here."""
        self.before, self.now = self.counts, Counts()
        self.generation, self.bound, self.problem, self.leaving = 0, None, "", None


class ChannelTable:
    """The channels of one VM, at most `quota`."""

    def __init__(self, port: VmChannels, quota: int) -> None:
        self._port = port
        self._quota = quota
        self._by_place: dict[tuple[int, Function], DeviceChannel] = {}
        self._by_number: dict[int, DeviceChannel] = {}
        self._of: dict[int, dict[int, DeviceChannel]] = defaultdict(dict)
        """By instance, by element."""
        self._dirty: dict[int, DeviceChannel] = {}
        self._free: list[int] = []
        self._next = 1
        self._generations = itertools.count(1)
        self._lock = asyncio.Lock()
        self._lost = 0
        """Workers so far."""

    def __len__(self) -> int:
        return len(self._by_place)

    def __iter__(self) -> Iterator[DeviceChannel]:
        return iter(self._by_place.values())

    def find(self, number: int, generation: int) -> DeviceChannel | None:
        """The channel that a batch is of; None for one of the past."""
        channel = self._by_number.get(number)
        return channel if channel is not None and channel.generation == generation else None

    def numbered(self, number: int) -> DeviceChannel | None:
        return self._by_number.get(number)

    def at(self, pe: int, function: Function) -> DeviceChannel | None:
        return self._by_place.get((pe, function))

    def of(self, instance: Instance) -> list[DeviceChannel]:
        """An instance's channels, by element."""
        return [channel for _, channel in sorted(self._of.get(instance.number, {}).items())]

    # ---- what is wanted --------------------------------------------------------------------------

    def attach(self, instance: Instance, pes: Iterable[int]) -> None:
        """Wants channels for an instance; `settle` makes them.

        :raise RefusedError: "quota": nothing has changed then.
        """
        function = instance.module.function
        places = [(pe, function) for pe in pes]
        new = sum(place not in self._by_place for place in places)
        if len(self._by_place) + new > self._quota:
            has = len(self._by_place)
            raise RefusedError(
                "quota", f"{new} more channels, where {has} are open; allowed: {self._quota} for each VM"
            )
        for place in places:
            channel = self._by_place.get(place)
            if channel is None:
                channel = self._by_place[place] = DeviceChannel(self._number(), *place)
                self._by_number[channel.number] = channel
            channel.instances[instance.number] = instance
            channel.leaving = None
            self._of[instance.number][channel.pe] = channel
            self._dirty[channel.number] = channel

    def attach_what_fits(self, instance: Instance, pes: Sequence[int]) -> None:
        """As `attach`, with the first of `pes` for as long as the quota lasts: for a worker with more elements than the last."""
        function = instance.module.function
        there = [pe for pe in pes if (pe, function) in self._by_place]
        new = [pe for pe in pes if (pe, function) not in self._by_place]
        self.attach(instance, [*there, *new[: max(0, self._quota - len(self._by_place))]])

    def detach(self, instance: Instance) -> None:
        """Wants its channels no more, as far as no other instance does."""
        for channel in self._of.pop(instance.number, {}).values():
            del channel.instances[instance.number]
            if not channel.instances and channel.bound is not None:
                channel.leaving = instance
            self._dirty[channel.number] = channel

    def changed(self, instance: Instance) -> None:
        """Its terms are others now."""
        self._dirty.update((channel.number, channel) for channel in self.of(instance))

    def lost(self) -> None:
        """The worker is gone, and with it every binding."""
        self._lost += 1
        for channel in list(self._by_place.values()):
            channel.unbind()
            self._dirty[channel.number] = channel
            if not channel.instances:
                self._forget(channel)

    def _number(self) -> int:
        if self._free:
            return self._free.pop()
        self._next += 1
        return self._next - 1

    def _forget(self, channel: DeviceChannel) -> None:
        del self._by_place[channel.pe, channel.function]
        del self._by_number[channel.number]
        self._dirty.pop(channel.number, None)
        self._free.append(channel.number)

    # ---- making it so ----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Makes the worker's channels the wanted ones, as far as it can: `DeviceChannel.problem` says where it could not.

        Without a worker nothing happens: they are made when one is ready.
        """
        async with self._lock:
            if not self._port.ready:
                self._drop_unwanted()
                return
            try:
                await self._release([item for item in self._dirty.values() if item.bound and _must_go(item)])
                self._drop_unwanted()
                # what must go only since then is for whoever wanted that, who settles next
                await self._adjust([item for item in self._dirty.values() if item.bound and not _must_go(item)])
                await self._bind([item for item in self._dirty.values() if not item.bound and item.instances])
            except WorkerGoneError:
                return  # the next worker gets them all

    def _drop_unwanted(self) -> None:
        for channel in [item for item in self._dirty.values() if not item.instances and item.bound is None]:
            self._forget(channel)

    async def _release(self, channels: Sequence[DeviceChannel]) -> None:
        for part in _parts(channels):
            await self._told(part, self._port.close([channel.number for channel in part]))
            for channel in part:
                channel.unbind()

    async def _adjust(self, channels: Sequence[DeviceChannel]) -> None:
        groups: dict[Terms, list[DeviceChannel]] = defaultdict(list)
        for channel in channels:
            wanted = channel.wanted()
            if wanted == channel.bound:
                self._dirty.pop(channel.number, None)
            else:
                groups[wanted].append(channel)
        for terms, group in groups.items():
            for part in _parts(group):
                numbers = [channel.number for channel in part]
                if await self._told(part, self._port.set(numbers, terms.level, terms.sample)):
                    self._are_bound(part, terms)

    async def _bind(self, channels: Sequence[DeviceChannel]) -> None:
        groups: dict[tuple[Function, Terms], list[DeviceChannel]] = defaultdict(list)
        for channel in channels:
            groups[channel.function, channel.wanted()].append(channel)
        for (function, terms), group in groups.items():
            for part in _parts(group):
                for channel in part:
                    channel.generation = next(self._generations) & 0xFFFFFFFF
                bindings = [Binding(channel.number, channel.generation, channel.pe) for channel in part]
                if await self._told(part, self._port.open(function, terms, bindings)):
                    self._are_bound(part, terms)

    async def _told(self, channels: Sequence[DeviceChannel], command: Awaitable[None]) -> bool:
        """Whether the worker did it. If not, its channels have a problem, and are left alone until something changes.

        :raise WorkerGoneError: it was lost, perhaps after it had answered: what it did is gone, too.
        """
        lost = self._lost
        try:
            await command
        except ChannelError as error:
            if lost != self._lost or isinstance(error, WorkerGoneError):
                raise WorkerGoneError(str(error)) from None
            for channel in channels:
                channel.problem = str(error)
                self._dirty.pop(channel.number, None)
            return False
        if lost != self._lost:
            raise WorkerGoneError("the worker was lost")
        return True

    def _are_bound(self, channels: Iterable[DeviceChannel], terms: Terms) -> None:
        """They are on these terms now. What was wanted meanwhile stays to be settled."""
        for channel in channels:
            channel.bound, channel.sample, channel.problem = terms, terms.sample, ""
            if channel.instances and channel.wanted() == terms:
                self._dirty.pop(channel.number, None)


def _must_go(channel: DeviceChannel) -> bool:
    """Nobody wants it, or not with the links that it has: those are made with the channel."""
    if not channel.instances or channel.bound is None:
        return True
    wanted = channel.wanted()
    return replace(wanted, level=0, sample=0) != replace(channel.bound, level=0, sample=0)


def _parts(channels: Sequence[DeviceChannel]) -> Iterator[Sequence[DeviceChannel]]:
    for start in range(0, len(channels), MAX_PER_COMMAND):
        yield channels[start : start + MAX_PER_COMMAND]
