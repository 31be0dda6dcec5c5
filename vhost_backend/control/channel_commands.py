"""Verbs about channels: open, close, set, send, threshold, ls, subscribe, unsubscribe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from vhost_backend.control.access import Peer
from vhost_backend.control.channel_port import ChannelError
from vhost_backend.control.channel_table import Counts, DeviceChannel
from vhost_backend.control.commands import Caller, Handler
from vhost_backend.control.events import EventHub
from vhost_backend.control.fields import Fields
from vhost_backend.control.functions import MODULES
from vhost_backend.control.functions.base import MAX_SAMPLE
from vhost_backend.control.instances import Instance
from vhost_backend.control.interface import MAX_INSTANCES, Interface, Opening
from vhost_backend.control.refusal import RefusedError
from vhost_backend.control.vm_side import VmSide
from virtio_proto.control.api import MAX_INPUT_BYTES, ChannelInfo, InstanceInfo
from virtio_proto.control.records import Level
from virtio_proto.control.selector import MAX_PES, SelectorError

MAX_TTL_S: Final = 30 * 24 * 3600.0
MIN_TTL_S: Final = 0.1
MAX_NAME_CHARS: Final = 63


class ChannelCommands:
    """A group of verbs over the interface."""

    def __init__(self, interface: Interface, hub: EventHub) -> None:
        self._interface = interface
        self._hub = hub

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "open": self._open,
            "close": self._close,
            "set": self._set,
            "send": self._send,
            "threshold": self._threshold,
            "ls": self._ls,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
        }

    async def _open(self, caller: Caller, fields: Fields) -> InstanceInfo:
        selector = fields.selector()
        try:
            module = MODULES[selector.one_fn()]
        except SelectorError as error:
            raise RefusedError("malformed", f"open: {error}") from None
        keep = fields.flag("keep")
        opening = Opening(
            selector=selector,
            terms=module.terms(fields),
            ttl_s=fields.optional_number("ttl_s", MIN_TTL_S, MAX_TTL_S),
            owner=fields.optional_text("owner", 64) or "",
            keep=keep,
        )
        fields.done()
        if keep and opening.ttl_s is None:
            raise RefusedError("malformed", "open: keep without ttl_s; allowed: keep with a ttl_s, so that it ends")
        instance = await self._interface.open(caller.peer, opening, caller.connection)
        return self._info(instance)

    async def _close(self, caller: Caller, fields: Fields) -> InstanceInfo | dict[str, Any]:
        """One instance by its number, or all that a selector's function and VMs name."""
        if "selector" not in fields:
            instance = self._instance(caller.peer, fields)
            fields.done()
            held = self._held(instance)
            await self._interface.close_instance(instance)
            return _info(instance, held)
        selector = fields.selector()
        if selector.gpu != "*" or selector.pe is not None:
            raise fields.wrong("selector", "vm and fn: an instance is closed whole")
        fields.done()
        chosen = [
            item
            for item in self._interface.instances(caller.peer)
            if selector.matches_fn(item.function) and all(selector.matches_vm(vm) for vm in item.vms)
        ]
        await asyncio.gather(*(self._interface.close_instance(item) for item in chosen))
        return {"closed": [item.number for item in chosen]}

    def _instance(self, peer: Peer, fields: Fields) -> Instance:
        return self._interface.instance(peer, fields.integer("instance", 1, 1 << 53))

    async def _set(self, caller: Caller, fields: Fields) -> InstanceInfo:
        instance = self._instance(caller.peer, fields)
        level = fields.optional_integer("level", Level.CRITICAL, Level.DEBUG)
        sample = fields.optional_integer("sample", 0, MAX_SAMPLE)
        ttl_s = fields.optional_number("ttl_s", MIN_TTL_S, MAX_TTL_S)
        fields.done()
        await self._interface.change(instance, level=level, sample=sample, ttl_s=ttl_s)
        return self._info(instance)

    async def _send(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        instance = self._instance(caller.peer, fields)
        data = fields.data("data", MAX_INPUT_BYTES)
        pe = fields.optional_integer("pe", 0, MAX_PES - 1)
        vm = fields.optional_text("vm")
        eof = fields.flag("eof")
        fields.done()
        return {"elements": await self._interface.send(instance, data, eof=eof, vm=vm, pe=pe)}

    async def _threshold(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        selector = fields.selector()
        name = fields.text("name", MAX_NAME_CHARS)
        low, high = fields.optional_number("low", -1e300, 1e300), fields.optional_number("high", -1e300, 1e300)
        fields.done()
        low, high = -1e300 if low is None else low, 1e300 if high is None else high
        if low > high:
            raise RefusedError("malformed", f"threshold: low is {low:g}, high is {high:g}; allowed: low up to high")
        elements = 0
        for side in self._interface.chosen(caller.peer, selector):
            pes = selector.pes_of(side.vm.channels.num_pes)
            try:
                await side.vm.channels.threshold(pes, name, low, high)
            except ChannelError as error:
                raise RefusedError("busy", f"{side.name}: {error}") from None
            elements += len(pes)
        return {"elements": elements}

    async def _ls(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        selector = fields.selector()
        totals = fields.flag("totals")
        fields.done()
        found = [
            item
            for item in self._interface.instances(caller.peer)
            if selector.matches_fn(item.function) and any(selector.matches_vm(vm) for vm in item.vms)
        ]
        return {"instances": [self._summary(item) if totals else self._info(item) for item in found]}

    async def _subscribe(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        named = fields.integers("records", MAX_INSTANCES)
        said = "events" in fields
        events = fields.flag("events")
        fields.done()
        numbers = {self._interface.instance(caller.peer, number).number for number in named}
        self._hub.subscribe(caller.subscriber, numbers, events=events if said else None)
        return {}

    async def _unsubscribe(self, caller: Caller, fields: Fields) -> dict[str, Any]:
        """``{"records": [...], "events": true}``: those; without fields: everything."""
        everything = "records" not in fields and "events" not in fields
        numbers = set(fields.integers("records", MAX_INSTANCES))
        events = fields.flag("events")
        fields.done()
        self._hub.unsubscribe(caller.subscriber, None if everything else numbers, events=events)
        return {}

    def _held(self, instance: Instance) -> list[tuple[VmSide, DeviceChannel]]:
        sides = [self._interface.sides[vm] for vm in sorted(instance.vms)]
        return [(side, channel) for side in sides for channel in side.table.of(instance)]

    def _info(self, instance: Instance) -> InstanceInfo:
        return _info(instance, self._held(instance))

    def _summary(self, instance: Instance) -> InstanceInfo:
        """Without its channels, of which there may be thousands, but what they come to."""
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
        "policy": instance.terms.policy,
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
