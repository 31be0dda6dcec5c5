"""Messages that set up a worker for its VM. Each gets its `seq` from the link that sends it."""

from __future__ import annotations

import secrets
from typing import Final

from vhost_backend.config.daemon import VmConfig
from vhost_backend.daemon.engines import Choice
from vhost_backend.vhost_user.memory import MappedRegion
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import Answer, WorkerLink
from vhost_backend.worker_protocol.migration_messages import ArenaSetup

ARENA_FIRST: Final = 0x2000_0000_0000
ARENA_END: Final = 0x5000_0000_0000
"""Arenas lie between low addresses (heaps of programs without PIE, a GPU driver's reservations, a sanitizer's shadow) and
those where the kernel puts programs, libraries and stacks. They are addresses, not memory: nothing is reserved there."""

ARENA_ALIGN: Final = 1 << 30
SMALLEST_ARENA: Final = 1 << 40
ARENA_ROUNDS: Final = 8
"""Size of an arena, in multiples of the most that a VM can hold: freed addresses are not given again at once."""


def choose_arena(config: VmConfig) -> ArenaSetup:
    """Chooses a random range for all addresses that the VM's guest can learn, the region's included.

    Two workers of a VM get the same range, so that a migration keeps the guest's addresses.
    """
    needed = ARENA_ROUNDS * (config.quota.memory_bytes + config.region_bytes)
    size = min(max(SMALLEST_ARENA, -(-needed // ARENA_ALIGN) * ARENA_ALIGN), ARENA_END - ARENA_FIRST)
    places = (ARENA_END - ARENA_FIRST - size) // ARENA_ALIGN + 1
    return ArenaSetup(ARENA_FIRST + secrets.randbelow(places) * ARENA_ALIGN, size)


def setup(
    choice: Choice, generation: int, arena: ArenaSetup, allotment: int, *, has_gate: bool = False
) -> protocol.Setup:
    """Builds the Setup message: engine, quota and limits of a new worker; `allotment` is their number.

    `has_gate`: the worker's launches take turns with those of other VMs.
    """
    config = choice.config
    return protocol.Setup(
        seq=0,
        vm=config.name,
        engine=protocol.EngineSetup(choice.engine, dict(config.engine.options)),
        num_queues=config.num_queues,
        quota=protocol.Quota(choice.pes, config.quota.memory_bytes, config.quota.queue_depth),
        deadline_ns=config.deadline_ns,
        max_contexts=config.quota.contexts,
        max_streams=config.quota.streams,
        generation=generation,
        sandbox=config.sandbox,
        arena=arena,
        allotment=allotment,
        gate=has_gate,
    )


def limits(config: VmConfig, pes: int, allotment: int) -> protocol.Limits:
    """Builds the message that changes the limits of a worker, of which `pes` elements take work."""
    return protocol.Limits(
        seq=0,
        quota=protocol.Quota(pes, config.quota.memory_bytes, config.quota.queue_depth),
        deadline_ns=config.deadline_ns,
        max_contexts=config.quota.contexts,
        max_streams=config.quota.streams,
        allotment=allotment,
    )


def post_memory(link: WorkerLink, entry: MappedRegion | None, region_address: int = 0) -> Answer:
    """Sends the guest's region with its descriptor, as the only memory; None: an empty table.

    `region_address`: where kernels must see the region; 0: anywhere.
    """
    if entry is None:
        return link.post(lambda seq: protocol.MemTable(seq, ()))
    region = entry.region
    shared = protocol.MemRegion(region.gpa, region.uva, region.size_bytes, region.offset_bytes)
    return link.post(lambda seq: protocol.MemTable(seq, (shared,), region_address), (entry.fd.fileno(),))
