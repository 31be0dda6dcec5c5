"""VM in the control system: its channels, their records and the figures of its processing elements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vhost_backend.control.api.push_hub import Lexicon, PushHub, RecordsOf
from vhost_backend.control.background_tasks import BackgroundTasks
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import FirmwareReported, FirmwareTold, SamplingChanged, WorkerLost, WorkerReady
from vhost_backend.control.functions import base
from vhost_backend.control.instances.channel_table import ChannelTable, DeviceChannel
from vhost_backend.control.instances.instance import Instance
from vhost_backend.control.instances.records import Confinement
from vhost_backend.control.links.channel_port import Batch, ChannelError, DeviceClock, ElementFigures, Loss
from vhost_backend.control.links.firmware import FirmwareFound, FirmwareReport
from vhost_backend.control.links.vm_port import ControlledVm
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.log import Logger
from virtio_proto.control import records
from virtio_proto.control.records import Function, RecordError

WINDOW_NS: Final = 2_000_000_000
"""Averaging window of a processing element's displayed busy share: at least this long, at most twice as long."""

GROWTH_PAUSE_S: Final = 1.0
"""Least time between two passes that bind channels on newly numbered processing elements. Each pass goes through all
instances, and a hostile worker may number its elements one at a time; a real device numbers all of them at once."""


class VmSide:
    """Listens to the channels of one VM, and binds the channels that its instances need in each of its workers."""

    def __init__(
        self,
        vm: ControlledVm,
        bus: EventBus,
        hub: PushHub,
        tasks: BackgroundTasks,
        log: Logger,
        *,
        quota: int,
        shelf: Shelf,
        confined_to: tuple[int, ...] | None = None,
    ) -> None:
        """`shelf`: of all VMs at the keeper. `confined_to`: elements to which an earlier daemon has confined the VM."""
        self.vm = vm
        self.instances: dict[int, Instance] = {}
        """The instances that cover the VM, by number."""
        self.table = ChannelTable(vm.channels, quota)
        self.lexicon = Lexicon()
        self.figures: dict[int, ElementFigures] = {}
        self.figures_then: dict[int, tuple[int, ElementFigures]] = {}
        """Each element's figures at the begin of the averaging window, with their time."""
        self._figures_next: dict[int, tuple[int, ElementFigures]] = {}
        self.figures_ns = 0
        self.clock: DeviceClock | None = None
        """Clock of the device; None while it is not known."""
        self._num_pes = 0
        self._grows = False
        self._has_left = False
        self.torn = 0
        """Number of malformed batches."""
        self.records_seen = 0
        self.cost_seen_ns = 0
        self.confined_to = confined_to
        self._shelf = shelf
        self._bus = bus
        self._hub = hub
        self._tasks = tasks
        self._log = log
        vm.channels.listen(self)
        if vm.channels.ready:
            self.on_ready(vm.channels.num_pes)

    @property
    def name(self) -> str:
        return self.vm.name

    def confine(self, pes: tuple[int, ...] | None) -> None:
        """Notes that the VM's worker is confined to some elements, as later ones are to be; None: it has all."""
        self.confined_to = pes
        self._shelf.set({self.name: None if pes is None else Confinement(pes)})

    def leave(self) -> None:
        """Ends the VM's part in the control system: it publishes nothing any more."""
        self.confine(None)
        self._has_left = True

    def chosen_pes(self, instance: Instance) -> tuple[int, ...]:
        """Elements of this VM that an instance covers; none while no worker is ready."""
        facts = self.vm.facts()
        if not self.vm.channels.ready or not instance.selector.matches_gpu(*facts.gpu_names):
            return ()
        return instance.selector.pes_of(self.vm.channels.num_pes)

    # ---- the channels' Listener ------------------------------------------------------------------

    def on_ready(self, num_pes: int) -> None:
        """Binds in a new worker the channels of all instances that cover the VM."""
        self._num_pes = num_pes
        self.lexicon = Lexicon()
        for instance in self.instances.values():
            self.table.detach(instance)
            self.table.attach_what_fits(instance, self.chosen_pes(instance))
        self._tasks.spawn(self._settle_all())

    async def _settle_all(self) -> None:
        if self.confined_to is not None:
            await self._confine_again()
        await self.table.settle()
        if self._has_left:
            return
        self._bus.publish(WorkerReady(self.name, self.vm.facts().generation, self.vm.channels.num_pes))
        if troubles := {channel.problem for channel in self.table if channel.problem}:
            self._log.warning("channels_not_bound", of_vm=self.name, problems=sorted(troubles)[:4], guest=True)

    async def _confine_again(self) -> None:
        """Confines the new worker to the elements that the old one was confined to, as far as it has them."""
        pes = [pe for pe in self.confined_to or () if pe < self.vm.channels.num_pes]
        try:
            await self.vm.channels.confine(pes)
        except ChannelError as error:
            self._log.warning("not_confined", of_vm=self.name, error=str(error), guest=True)

    def on_lost(self, loss: Loss) -> None:
        self.table.lost()
        self.clock = None
        self.figures.clear()
        self.figures_then.clear()
        self._figures_next.clear()
        self._bus.publish(WorkerLost(self.name, self.vm.facts().generation, loss))

    def on_texts(self, texts: Mapping[int, str]) -> None:
        self.lexicon.add(texts)

    def on_batch(self, batch: Batch) -> None:
        channel = self.table.find(batch.channel, batch.generation)
        if channel is None:
            return
        before = channel.now
        channel.count(batch)
        made = max(0, channel.now.records - before.records)
        self.records_seen += made
        self.cost_seen_ns += max(0, channel.now.cost_ns - before.cost_ns)
        try:
            self._pass_on(channel, batch, made)
        except RecordError as error:
            self.torn += 1
            self._log.warning("records_torn", of_vm=self.name, channel=batch.channel, error=str(error), guest=True)

    def _pass_on(self, channel: DeviceChannel, batch: Batch, made: int) -> None:
        """Has the function's module digest a batch, and pushes to each instance the records of its level.

        `made`: number of the batch's records, without samples. Records of a malformed batch count as given, too: peers see
        that they have not got them.

        :raise RecordError: the batch is malformed.
        """
        facts = self.vm.facts()
        source = base.Source(facts.gpu, self.name, channel.pe, batch.clock_ns)
        instances = channel.receivers()
        if not instances:
            return
        module = instances[0].module
        number = made + records.has_sample(batch.data)
        for instance in instances:
            channel.given[instance.number] = channel.given.get(instance.number, 0) + number
        module.digest(source, batch.data, self.lexicon.names, self._bus)
        highest = 0 if channel.bound is None else channel.bound.level
        for instance in instances:
            if instance.internal:
                continue
            level = instance.terms.level
            data = batch.data
            if level < highest:
                data = module.filter(batch.data, level)
                channel.given[instance.number] -= number - records.count(data)
            if data or batch.lost:
                self._hub.records(
                    RecordsOf(instance.number, self._frame(instance, channel, source, data), self.lexicon)
                )

    def _frame(self, instance: Instance, channel: DeviceChannel, source: base.Source, data: bytes) -> dict[str, object]:
        return {
            "push": "records",
            "instance": instance.number,
            "channel": channel.number,
            "gpu": source.gpu,
            "vm": self.name,
            "pe": channel.pe,
            "clock_ns": source.clock_ns,
            "lost": channel.counts.lost,
            "fn": channel.function.name.lower(),
            "opened_ns": channel.opened_ns,
            "records": channel.given[instance.number],
            "data": data,
        }

    def on_figures(self, time_ns: int, figures: Sequence[ElementFigures]) -> None:
        self.figures_ns = time_ns
        for element in filter(self._counts, figures):
            now = (time_ns, element)
            following = self._figures_next.setdefault(element.pe, now)
            self.figures_then.setdefault(element.pe, now)
            if time_ns - following[0] >= WINDOW_NS:
                self.figures_then[element.pe], self._figures_next[element.pe] = following, now
            self.figures[element.pe] = element

    def _counts(self, element: ElementFigures) -> bool:
        """True if the element counts: only while it has a channel of perf or load."""
        return any(self.table.at(element.pe, function) is not None for function in (Function.PERF, Function.LOAD))

    def drop_figures(self) -> None:
        """Forgets the figures of elements that no longer count."""
        for element in [item for item in self.figures.values() if not self._counts(item)]:
            del self.figures[element.pe]
            self._begin_window(element.pe)

    def begin_windows(self, pes: Iterable[int]) -> None:
        """Starts the averaging windows of these elements again, for a client that begins to follow them."""
        for pe in pes:
            self._begin_window(pe)

    def _begin_window(self, pe: int) -> None:
        self.figures_then.pop(pe, None)
        self._figures_next.pop(pe, None)

    def on_samples(self, samples: Mapping[int, int]) -> None:
        """Takes note of sampling that the governor has changed."""
        for number, sample in samples.items():
            channel = self.table.numbered(number)
            if channel is not None and channel.sample != sample:
                channel.sample = sample
                function = channel.function.name.lower()
                self._bus.publish(SamplingChanged(self.name, number, channel.pe, function, sample))

    def on_firmware(self, report: FirmwareReport) -> None:
        self._bus.publish(FirmwareReported(self.name, report))

    def on_firmware_found(self, found: FirmwareFound) -> None:
        self._bus.publish(FirmwareTold(self.name, found))

    def on_device(self, clock: DeviceClock, num_pes: int) -> None:
        there = self.vm.channels.num_pes
        if not self.vm.channels.ready:  # a late packet of a worker that is gone
            return
        self.clock = clock
        if num_pes > there:
            self._log.warning("elements_unseen", of_vm=self.name, numbered_up_to=num_pes, seen=there, guest=True)
        if there > self._num_pes and not self._grows:
            self._grows = True
            self._tasks.spawn(self._grow())

    async def _grow(self) -> None:
        """Binds channels on elements that are numbered late: a device need not number them without gaps."""
        try:
            while (there := self.vm.channels.num_pes) > self._num_pes:
                self._num_pes = there
                for instance in self.instances.values():
                    self.table.attach_what_fits(instance, self.chosen_pes(instance))
                await self.table.settle()
                await asyncio.sleep(GROWTH_PAUSE_S)
        finally:
            self._grows = False


def gather_settled(sides: Iterable[VmSide]) -> asyncio.Future[list[None]]:
    """Settles the tables of several VMs at once."""
    return asyncio.gather(*(side.table.settle() for side in sides))
