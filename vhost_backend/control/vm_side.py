"""One VM in the control interface: its channels, what they bring, what is known of its elements."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from vhost_backend.control.channel_port import Batch, ChannelError, ElementFigures, Loss
from vhost_backend.control.channel_table import ChannelTable, DeviceChannel
from vhost_backend.control.events import EventHub, Lexicon, RecordsOf
from vhost_backend.control.firmware.elements import FirmwareReport
from vhost_backend.control.functions import base
from vhost_backend.control.instances import Instance
from vhost_backend.control.vm_port import ControlledVm
from vhost_backend.log import Logger
from virtio_proto.control.records import Function, RecordError

WINDOW_NS: Final = 2_000_000_000
"""How busy an element is said to be of: so long at least, and twice as long at most."""


class Owner(Protocol):
    """What a VM's side asks of the interface."""

    def instances_of(self, vm: str) -> Iterable[Instance]:
        """All instances that cover the VM."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Does something in the background."""
        ...

    def function_host(self) -> base.Host:
        """Whom function modules tell what they find."""
        ...

    def worker_ready(self, side: VmSide) -> None:
        """The VM has a worker, and that all channels."""
        ...

    def worker_lost(self, side: VmSide, loss: Loss) -> None: ...

    def firmware_reported(self, side: VmSide, report: FirmwareReport) -> None: ...


class VmSide:
    """Listens to one VM's channels, and keeps its table in step with its workers."""

    def __init__(self, vm: ControlledVm, quota: int, hub: EventHub, owner: Owner, log: Logger) -> None:
        self.vm = vm
        self.table = ChannelTable(vm.channels, quota)
        self.lexicon = Lexicon()
        self.figures: dict[int, ElementFigures] = {}
        self.figures_then: dict[int, tuple[int, ElementFigures]] = {}
        """What an element's figures were some seconds ago, or when it began to count, and when that was."""
        self._figures_next: dict[int, tuple[int, ElementFigures]] = {}
        self.figures_ns = 0
        self.torn = 0
        """Batches that were no batches."""
        self.records_seen = 0
        self.cost_seen_ns = 0
        self.confined_to: tuple[int, ...] | None = None
        self._hub = hub
        self._owner = owner
        self._log = log
        vm.channels.listen(self)
        if vm.channels.ready:
            self.on_ready(vm.channels.num_pes)

    @property
    def name(self) -> str:
        return self.vm.name

    def chosen_pes(self, instance: Instance) -> tuple[int, ...]:
        """The elements of this VM that an instance is for, now that a worker is ready; none before."""
        facts = self.vm.facts()
        if not self.vm.channels.ready or not instance.selector.matches_gpu(*facts.gpu_names):
            return ()
        return instance.selector.pes_of(self.vm.channels.num_pes)

    # ---- the channels' Listener ------------------------------------------------------------------

    def on_ready(self, num_pes: int) -> None:
        """A new worker gets every channel that its predecessor had, and those that waited for one."""
        del num_pes
        self.lexicon = Lexicon()
        for instance in self._owner.instances_of(self.name):
            self.table.detach(instance)
            self.table.attach_what_fits(instance, self.chosen_pes(instance))
        self._owner.spawn(self._settle_all())

    async def _settle_all(self) -> None:
        if self.confined_to is not None:
            await self._confine_again()
        await self.table.settle()
        self._owner.worker_ready(self)
        if troubles := {channel.problem for channel in self.table if channel.problem}:
            self._log.warning("channels_not_bound", of_vm=self.name, problems=sorted(troubles)[:4], guest=True)

    async def _confine_again(self) -> None:
        """The new worker's work runs where the old one's did, as far as there are such elements."""
        pes = [pe for pe in self.confined_to or () if pe < self.vm.channels.num_pes]
        try:
            await self.vm.channels.confine(pes)
        except ChannelError as error:
            self._log.warning("not_confined", of_vm=self.name, error=str(error), guest=True)

    def on_lost(self, loss: Loss) -> None:
        self.table.lost()
        self.figures.clear()
        self.figures_then.clear()
        self._figures_next.clear()
        self._owner.worker_lost(self, loss)

    def on_texts(self, texts: Mapping[int, str]) -> None:
        self.lexicon.add(texts)

    def on_batch(self, batch: Batch) -> None:
        channel = self.table.find(batch.channel, batch.generation)
        if channel is None:
            return
        before = channel.now
        channel.count(batch)
        self.records_seen += max(0, channel.now.records - before.records)
        self.cost_seen_ns += max(0, channel.now.cost_ns - before.cost_ns)
        try:
            self._pass_on(channel, batch)
        except RecordError as error:
            self.torn += 1
            self._log.warning("records_torn", of_vm=self.name, channel=batch.channel, error=str(error), guest=True)

    def _pass_on(self, channel: DeviceChannel, batch: Batch) -> None:
        """To the function's module once, and to each instance what it is for.

        :raise RecordError: the batch is none.
        """
        facts = self.vm.facts()
        source = base.Source(facts.gpu, self.name, channel.pe, batch.clock_ns)
        instances = channel.receivers()
        if not instances:
            return
        module = instances[0].module
        module.digest(source, batch.data, self.lexicon.names, self._owner.function_host())
        highest = 0 if channel.bound is None else channel.bound.level
        for instance in instances:
            if instance.internal:
                continue
            level = instance.terms.level
            data = batch.data if level >= highest else module.filter(batch.data, level)
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
        """Whether the element counts: only while somebody has it do so."""
        return any(self.table.at(element.pe, function) is not None for function in (Function.PERF, Function.LOAD))

    def drop_figures(self) -> None:
        """Forgets the figures of elements that count no more."""
        for element in [item for item in self.figures.values() if not self._counts(item)]:
            del self.figures[element.pe]
            self._begin_window(element.pe)

    def begin_windows(self, pes: Iterable[int]) -> None:
        """Somebody looks at these elements anew: how busy they are is counted from now on."""
        for pe in pes:
            self._begin_window(pe)

    def _begin_window(self, pe: int) -> None:
        self.figures_then.pop(pe, None)
        self._figures_next.pop(pe, None)

    def on_samples(self, samples: Mapping[int, int]) -> None:
        """The governor has made channels keep fewer records, or more again."""
        for number, sample in samples.items():
            channel = self.table.numbered(number)
            if channel is not None and channel.sample != sample:
                channel.sample = sample
                detail = {"channel": number, "pe": channel.pe, "fn": channel.function.name.lower(), "sample": sample}
                self._hub.event("governor", self.name, **detail)

    def on_firmware(self, report: FirmwareReport) -> None:
        self._owner.firmware_reported(self, report)


def gather_settled(sides: Iterable[VmSide]) -> asyncio.Future[list[None]]:
    """Settles the tables of several VMs at once."""
    return asyncio.gather(*(side.table.settle() for side in sides))
