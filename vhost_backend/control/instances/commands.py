"""Verbs about channels: open, close, set, send, threshold, ls, subscribe, unsubscribe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.api.push_hub import PushHub
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.functions.modules import MODULES
from vhost_backend.control.instances.channel_table import Counts, DeviceChannel
from vhost_backend.control.instances.instance import Instance
from vhost_backend.control.instances.registry import InstanceRegistry, Opening
from vhost_backend.control.instances.vm_side import VmSide
from vhost_backend.control.links.channel_port import ChannelError
from virtio_proto.control.api import POLICIES, ChannelInfo, InstanceInfo, Nothing
from virtio_proto.control.verbs.base import Verb
from virtio_proto.control.verbs.channels import (
    Close,
    Closed,
    Elements,
    InputAnswer,
    Instances,
    Ls,
    Open,
    Send,
    Set,
    Threshold,
)
from virtio_proto.control.verbs.session import Subscribe, Unsubscribe

ANY_VALUE: Final = 1e300
"""Absolute value of a bound that no gauge crosses."""


class ChannelCommands:
    """Handlers of the verbs about channels and subscriptions."""

    def __init__(self, registry: InstanceRegistry, hub: PushHub) -> None:
        self._registry = registry
        self._hub = hub

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {
            Open: self._open,
            Close: self._close,
            Set: self._set,
            Send: self._send,
            Threshold: self._threshold,
            Ls: self._ls,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
        }

    async def _open(self, caller: Caller, asked: Open.Request) -> InstanceInfo:
        selector = asked.chosen
        opening = Opening(
            selector=selector,
            terms=MODULES[selector.one_fn()].terms(asked),
            ttl_s=asked.ttl_s,
            owner=asked.owner or "",
            keep=asked.keep,
        )
        instance = await self._registry.open(caller.peer, opening, caller.connection)
        return self._info(instance)

    async def _close(self, caller: Caller, asked: Close.Request) -> InstanceInfo | Closed:
        """Closes an instance by its number, or all instances of a selector's functions and VMs."""
        if asked.instance is not None:
            instance = self._registry.instance(caller.peer, asked.instance)
            held = self._held(instance)
            await self._registry.close_instance(instance)
            return _info(instance, held)
        selector = asked.chosen
        chosen = [
            item
            for item in self._registry.instances(caller.peer)
            if selector.matches_fn(item.function) and all(selector.matches_vm(vm) for vm in item.vms)
        ]
        await asyncio.gather(*(self._registry.close_instance(item) for item in chosen))
        return {"closed": [item.number for item in chosen]}

    async def _set(self, caller: Caller, asked: Set.Request) -> InstanceInfo:
        instance = self._registry.instance(caller.peer, asked.instance)
        await self._registry.change(instance, level=asked.level, sample=asked.sample, ttl_s=asked.ttl_s)
        return self._info(instance)

    async def _send(self, caller: Caller, asked: Send.Request) -> InputAnswer:
        instance = self._registry.instance(caller.peer, asked.instance)
        sent = await self._registry.send(instance, asked.data, eof=asked.eof, vm=asked.vm, pe=asked.pe)
        return {"elements": sent}

    async def _threshold(self, caller: Caller, asked: Threshold.Request) -> Elements:
        selector = asked.chosen
        low = -ANY_VALUE if asked.low is None else asked.low
        high = ANY_VALUE if asked.high is None else asked.high
        elements = 0
        for side in self._registry.chosen(caller.peer, selector):
            pes = selector.pes_of(side.vm.channels.num_pes)
            try:
                await side.vm.channels.threshold(pes, asked.name, low, high)
            except ChannelError as error:
                raise RefusedError("busy", f"{side.name}: {error}") from None
            elements += len(pes)
        return {"elements": elements}

    async def _ls(self, caller: Caller, asked: Ls.Request) -> Instances:
        selector = asked.chosen
        found = [
            item
            for item in self._registry.instances(caller.peer)
            if selector.matches_fn(item.function) and any(selector.matches_vm(vm) for vm in item.vms)
        ]
        return {"instances": [self._summary(item) if asked.totals else self._info(item) for item in found]}

    async def _subscribe(self, caller: Caller, asked: Subscribe.Request) -> Nothing:
        numbers = {self._registry.instance(caller.peer, number).number for number in asked.records or ()}
        self._hub.subscribe(caller.subscriber, numbers, events=asked.events)
        return {}

    async def _unsubscribe(self, caller: Caller, asked: Unsubscribe.Request) -> Nothing:
        everything = asked.records is None and asked.events is None
        numbers = None if everything else set(asked.records or ())
        self._hub.unsubscribe(caller.subscriber, numbers, events=bool(asked.events))
        return {}

    def _held(self, instance: Instance) -> list[tuple[VmSide, DeviceChannel]]:
        sides = [self._registry.sides[vm] for vm in sorted(instance.vms)]
        return [(side, channel) for side in sides for channel in side.table.of(instance)]

    def _info(self, instance: Instance) -> InstanceInfo:
        return _info(instance, self._held(instance))

    def _summary(self, instance: Instance) -> InstanceInfo:
        """Describes an instance with the sums over its channels, which may be thousands, instead of a list."""
        held = self._held(instance)
        total = Counts()
        for _, channel in held:
            total = total.plus(channel.counts)
        sample = max((channel.sample for _, channel in held), default=0)
        return {**_info(instance, ()), "totals": {"channels": len(held), "sample": sample, **asdict(total)}}  # type: ignore[typeddict-item]  # its fields are the rest of Totals


def _info(instance: Instance, held: Iterable[tuple[VmSide, DeviceChannel]]) -> InstanceInfo:
    return {
        "instance": instance.number,
        "function": instance.function,
        "selector": str(instance.selector),
        "owner": instance.owner,
        "level": instance.terms.level,
        "policy": POLICIES[instance.terms.policy],
        "opened_ns": instance.opened_ns,
        "expires_ns": instance.expires_ns,
        "channels": [_channel(side, channel) for side, channel in held],
    }


def _channel(side: VmSide, channel: DeviceChannel) -> ChannelInfo:
    counts = channel.counts
    return {
        "channel": channel.number,
        "gpu": side.vm.facts().gpu,
        "vm": side.name,
        "pe": channel.pe,
        "records": counts.records,
        "lost": counts.lost,
        "skipped": counts.skipped,
        "forged": counts.forged,
        "cost_ns": counts.cost_ns,
        "sample": channel.sample,
    }
