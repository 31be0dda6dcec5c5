"""Records of simulated elements for `tests.fakes.control_daemon`: a batch per channel and tick."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fakes.control_world import FakeVm, World
from virtio_proto.control.api import ChannelInfo, InstanceInfo, RecordsPush, Totals
from virtio_proto.control.records import MAX_PAYLOAD, Function, Level, Record, pack

FORMATS: Final = {0x1000: "%s: block %u done", 0x1008: "residual", 0x1010: "iteration"}
"""Texts by the addresses that records name."""


@dataclass(slots=True)
class FakeChannel:
    number: int
    vm: FakeVm
    pe: int
    records: int = 0
    lost: int = 0
    heard: bytearray = field(default_factory=bytearray)
    """Standard input that was sent to the element and not printed back yet."""


@dataclass(slots=True, eq=False)
class FakeInstance:
    number: int
    function: Function
    selector: str
    owner: str
    level: int
    policy: str
    sample: int
    opened_ns: int
    expires_ns: int | None
    channels: list[FakeChannel]
    connection: object | None
    """The connection whose end closes the instance; None: the instance is kept."""

    def channel_info(self, channel: FakeChannel) -> ChannelInfo:
        return {
            "channel": channel.number,
            "gpu": str(channel.vm.gpu),
            "vm": channel.vm.name,
            "pe": channel.pe,
            "records": channel.records,
            "lost": channel.lost,
            "skipped": 0,
            "forged": 0,
            "cost_ns": 40 * channel.records,
            "sample": self.sample,
        }

    def totals(self) -> Totals:
        records = sum(channel.records for channel in self.channels)
        return {
            "channels": len(self.channels),
            "records": records,
            "lost": sum(channel.lost for channel in self.channels),
            "skipped": 0,
            "forged": 0,
            "cost_ns": 40 * records,
        }

    def info(self, *, totals: bool = False) -> InstanceInfo:
        info: InstanceInfo = {
            "instance": self.number,
            "function": self.function.name.lower(),
            "selector": self.selector,
            "owner": self.owner,
            "level": self.level,
            "policy": self.policy,
            "opened_ns": self.opened_ns,
            "expires_ns": self.expires_ns,
            "channels": [] if totals else [self.channel_info(channel) for channel in self.channels],
        }
        if totals:
            info["totals"] = self.totals()
        return info


def push_of(world: World, instance: FakeInstance, channel: FakeChannel) -> RecordsPush | None:
    """The push with the records of a channel's element for this tick; None if it has none."""
    made = list(_payloads(world, instance, channel))
    now_ns = world.clock_ns()
    data = b""
    for level, kind, payload in made:
        place = channel.records % (1 << 32)
        data += pack(Record(now_ns, instance.function, level, kind, channel.pe, place % 8, place, place, payload))
        channel.records += 1
    if not data:
        return None
    return {
        "push": "records",
        "instance": instance.number,
        "channel": channel.number,
        "gpu": str(channel.vm.gpu),
        "vm": channel.vm.name,
        "pe": channel.pe,
        "clock_ns": 0,
        "lost": channel.lost,
        "fn": instance.function.name.lower(),
        "opened_ns": instance.opened_ns,
        "records": channel.records,
        "data": data,
        "dictionary": {f"{address:x}": text for address, text in FORMATS.items()},
    }


def _format(kernel: str, block: int) -> bytes:
    text = kernel.encode()
    return struct.pack("<QQQ", 0x1000, len(text) << 32 | 16, block) + text


def _read(channel: FakeChannel) -> Any:
    """Records of an element that reads all of its input, if there is any, and prints the begin of it."""
    heard, channel.heard = bytes(channel.heard), bytearray()
    for at in range(0, len(heard), MAX_PAYLOAD):
        yield Level.INFO, 4, heard[at : at + MAX_PAYLOAD]
    if heard:
        yield Level.INFO, 1, b"you said: " + heard[:1000]


def _payloads(world: World, instance: FakeInstance, channel: FakeChannel) -> Any:
    """Records that the element makes in one tick, as (level, type, payload)."""
    vm, pe = channel.vm, channel.pe
    if vm.frozen or not vm.runs_on(pe):
        return
    stat = world.stat(vm, pe)
    match instance.function:
        case Function.STDIO:
            yield from _read(channel)
            yield Level.INFO, 1, f"{world.kernel(vm)}: block {stat['blocks']}\n".encode()
        case Function.LOG:
            level = (Level.INFO, Level.INFO, Level.WARNING, Level.DEBUG, Level.ERROR)[channel.records % 5]
            if level <= instance.level:
                yield level, 1, _format(world.kernel(vm), stat["blocks"])
        case Function.PERF:
            figures = (stat["blocks"], stat["warps"], stat["busy_ns"], stat["stall_ns"])
            yield Level.CRITICAL, 5, struct.pack("<4Q", *figures)
            for name, (low, high) in vm.thresholds.items():
                value = stat["gauges"].get(name, 0.0)
                if not low <= value <= high:
                    crossed = low if value < low else high
                    yield Level.WARNING, 4, struct.pack("<Qdd", 0x1008, value, crossed)
        case Function.LOAD:
            yield Level.CRITICAL, 1, struct.pack("<Q", int(255 * stat["busy_share"]))
        case _:
            return
