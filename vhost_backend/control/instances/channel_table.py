"""Channel table of a VM: its device channels, their numbers and terms, and the instances that they serve.

Instances of one function share the device channel of a processing element. The table holds the *wanted* channels, and
`settle` brings the worker's channels to that, in as few commands as it takes. So a replaced worker, a worker that
becomes ready later, and an instance that shares a channel are all handled in the same way.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.instances.instance import Instance
from vhost_backend.control.links.channel_port import (
    MAX_COUNT,
    Batch,
    Binding,
    ChannelError,
    VmChannels,
    WorkerGoneError,
)
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control.records import Function

MAX_PER_COMMAND: Final = 1024
"""Most channels in the packet of one command."""


@dataclass(slots=True)
class Counts:
    """Counts of a channel's records, as its worker reports them."""

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
    """Channel between a processing element and the host."""

    number: int
    pe: int
    function: Function
    opened_ns: int
    """When the channel was added to the table, CLOCK_REALTIME."""
    generation: int = 0
    given: dict[int, int] = field(default_factory=dict)
    """Number of records that each instance was to get, by instance."""
    instances: dict[int, Instance] = field(default_factory=dict)
    leaving: Instance | None = None
    """Last instance of a channel that is being released: it gets the records that are still in the channel."""
    bound: Terms | None = None
    """Terms on which the worker has the channel; None: the channel is not bound."""
    sample: int = 0
    """Sampling in force, which the governor may have raised."""
    problem: str = ""
    """Reason why the worker does not have the channel on the wanted terms; "" if it has."""
    before: Counts = field(default_factory=Counts)
    """Sum of the counts of earlier generations."""
    now: Counts = field(default_factory=Counts)
    """Counts of this generation."""

    @property
    def counts(self) -> Counts:
        return self.before.plus(self.now)

    def receivers(self) -> list[Instance]:
        """Instances that get the channel's records."""
        return list(self.instances.values()) or ([] if self.leaving is None else [self.leaving])

    def wanted(self) -> Terms:
        """Terms that suit all instances: the highest level, the lowest `sample`, the most slots, the shortest period."""
        terms = [instance.terms for instance in self.instances.values()]
        periods = [item.period_ns for item in terms if item.period_ns]
        return Terms(
            function=self.function,
            level=max(item.level for item in terms),
            policy=terms[0].policy,
            sample=min(item.sample for item in terms),
            slots=max(item.slots for item in terms),
            in_bytes=max(item.in_bytes for item in terms),
            wait_ns=max(item.wait_ns for item in terms),
            period_ns=min(periods, default=0),
        )

    def count(self, batch: Batch) -> None:
        said = Counts(batch.records, batch.lost, batch.skipped, batch.forged, batch.cost_ns)
        self.now = said.plus(Counts())

    def unbind(self) -> None:
        """Marks the channel as not bound; its counts go on."""
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
        """Channels by instance and processing element."""
        self._dirty: dict[int, DeviceChannel] = {}
        self._free: list[int] = []
        self._next = 1
        self._generations = itertools.count(1)
        self._lock = asyncio.Lock()
        self._lost = 0
        """Number of workers lost so far."""

    def __len__(self) -> int:
        return len(self._by_place)

    @property
    def held(self) -> int:
        """Number of channels that instances of clients hold, without those of the control system's own alone."""
        return sum(any(not one.internal for one in channel.instances.values()) for channel in self)

    def __iter__(self) -> Iterator[DeviceChannel]:
        return iter(self._by_place.values())

    def find(self, number: int, generation: int) -> DeviceChannel | None:
        """Channel with this number and generation; None if that channel has been released."""
        channel = self._by_number.get(number)
        return channel if channel is not None and channel.generation == generation else None

    def numbered(self, number: int) -> DeviceChannel | None:
        return self._by_number.get(number)

    def at(self, pe: int, function: Function) -> DeviceChannel | None:
        return self._by_place.get((pe, function))

    def of(self, instance: Instance) -> list[DeviceChannel]:
        """Channels of an instance, sorted by processing element."""
        return [channel for _, channel in sorted(self._of.get(instance.number, {}).items())]

    # ---- wanted channels -------------------------------------------------------------------------

    def attach(self, instance: Instance, pes: Iterable[int]) -> None:
        """Adds an instance's channels to the wanted ones; `settle` binds them.

        :raise RefusedError: "quota": then nothing has changed.
        """
        function = instance.module.function
        places = [(pe, function) for pe in pes]
        new = sum(place not in self._by_place for place in places)
        if len(self._by_place) + new > self._quota:
            has = len(self._by_place)
            raise RefusedError(
                "quota",
                f"{new} more channels, where {has} are open, and {max(0, self._quota - has)} are left; allowed: {self._quota} "
                "for each VM, which the host's operator may raise: control.channels in vgcd's configuration",
            )
        for place in places:
            channel = self._by_place.get(place)
            if channel is None:
                channel = self._by_place[place] = DeviceChannel(self._number(), *place, time.time_ns())
                self._by_number[channel.number] = channel
            channel.instances[instance.number] = instance
            channel.given = {number: count for number, count in channel.given.items() if number in channel.instances}
            channel.leaving = None
            self._of[instance.number][channel.pe] = channel
            self._dirty[channel.number] = channel

    def attach_what_fits(self, instance: Instance, pes: Sequence[int]) -> None:
        """Attaches only as many of `pes` as the quota allows: a new worker may have more processing elements than the last."""
        function = instance.module.function
        there = [pe for pe in pes if (pe, function) in self._by_place]
        new = [pe for pe in pes if (pe, function) not in self._by_place]
        self.attach(instance, [*there, *new[: max(0, self._quota - len(self._by_place))]])

    def detach(self, instance: Instance) -> None:
        """Removes an instance; channels that no other instance uses are not wanted any more."""
        for channel in self._of.pop(instance.number, {}).values():
            del channel.instances[instance.number]
            if not channel.instances and channel.bound is not None:
                channel.leaving = instance
            self._dirty[channel.number] = channel

    def changed(self, instance: Instance) -> None:
        """Notes that the terms of an instance have changed."""
        self._dirty.update((channel.number, channel) for channel in self.of(instance))

    def lost(self) -> None:
        """Marks all channels as not bound: the worker is gone."""
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

    # ---- the worker's channels -------------------------------------------------------------------

    async def settle(self) -> None:
        """Brings the worker's channels to the wanted ones; `DeviceChannel.problem` says which could not be.

        Without a worker nothing happens: the next worker gets the wanted channels when it is ready.
        """
        async with self._lock:
            if not self._port.ready:
                self._drop_unwanted()
                return
            try:
                await self._release([item for item in self._dirty.values() if item.bound and _must_go(item)])
                self._drop_unwanted()
                # channels that must go only since then are left to the caller that changed them: it settles next
                await self._adjust([item for item in self._dirty.values() if item.bound and not _must_go(item)])
                await self._bind([item for item in self._dirty.values() if not item.bound and item.instances])
            except WorkerGoneError:
                return  # the next worker gets all channels

    def _drop_unwanted(self) -> None:
        for channel in [item for item in self._dirty.values() if not item.instances and item.bound is None]:
            self._forget(channel)

    async def _release(self, channels: Sequence[DeviceChannel]) -> None:
        for part in _parts(channels):
            await self._succeeds(part, self._port.close([channel.number for channel in part]))
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
                if await self._succeeds(part, self._port.set(numbers, terms.level, terms.sample)):
                    self._are_bound(part, terms)

    async def _bind(self, channels: Sequence[DeviceChannel]) -> None:
        groups: dict[Terms, list[DeviceChannel]] = defaultdict(list)
        for channel in channels:
            groups[channel.wanted()].append(channel)
        for terms, group in groups.items():
            for part in _parts(group):
                for channel in part:
                    channel.generation = next(self._generations) & 0xFFFFFFFF
                bindings = [Binding(channel.number, channel.generation, channel.pe) for channel in part]
                if await self._succeeds(part, self._port.open(terms, bindings)):
                    self._are_bound(part, terms)

    async def _succeeds(self, channels: Sequence[DeviceChannel], command: Awaitable[None]) -> bool:
        """Runs a command. False: the worker refused; then its channels have a problem, and are left until they change.

        :raise WorkerGoneError: the worker was lost, even if it had answered before: its channels are gone, too.
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
        """Notes the terms on which channels are bound. Channels with other wanted terms meanwhile stay to be settled."""
        for channel in channels:
            channel.bound, channel.sample, channel.problem = terms, terms.sample, ""
            if channel.instances and channel.wanted() == terms:
                self._dirty.pop(channel.number, None)


def _must_go(channel: DeviceChannel) -> bool:
    """True if a channel must be released: no instance uses it, or other rings are wanted, which are made with the channel."""
    if not channel.instances or channel.bound is None:
        return True
    wanted = channel.wanted()
    return structs.replace(wanted, level=0, sample=0) != structs.replace(channel.bound, level=0, sample=0)


def _parts(channels: Sequence[DeviceChannel]) -> Iterator[Sequence[DeviceChannel]]:
    for start in range(0, len(channels), MAX_PER_COMMAND):
        yield channels[start : start + MAX_PER_COMMAND]
