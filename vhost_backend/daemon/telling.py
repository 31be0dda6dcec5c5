"""What a worker is told of its VM, in the words of `vhost_backend.worker.protocol`. The `seq` is the link's to fill in."""

from __future__ import annotations

from vhost_backend.daemon.engines import Choice
from vhost_backend.vhost_user.memory import MemoryTable
from vhost_backend.vhost_user.messages import VirtioFeature
from vhost_backend.vhost_user.vring import Vring
from vhost_backend.worker import protocol
from vhost_backend.worker.moving_messages import ArenaSetup


def setup(choice: Choice, generation: int, arena: ArenaSetup) -> protocol.Setup:
    """What to be."""
    config = choice.config
    return protocol.Setup(
        seq=0,
        vm=config.name,
        engine=protocol.EngineSetup(choice.engine, config.engine.options),
        num_queues=config.num_queues,
        quota=protocol.Quota(choice.pes, config.quota.memory_bytes, config.quota.queue_depth),
        deadline_ns=config.deadline_ns,
        max_contexts=config.quota.contexts,
        max_streams=config.quota.streams,
        generation=generation,
        sandbox=config.sandbox,
        arena=arena,
    )


def regions(table: MemoryTable) -> tuple[protocol.MemRegion, ...]:
    """Where the guest's memory lies; the descriptors go beside it, in the same order."""
    return tuple(
        protocol.MemRegion(entry.region.gpa, entry.region.uva, entry.region.size_bytes, entry.region.offset_bytes)
        for entry in table
    )


def vring_start(vring: Vring, features: VirtioFeature, base: int, *, recover: bool) -> protocol.VringStart:
    """A ring to serve from `base` on."""
    assert vring.address is not None  # the session starts no other
    return protocol.VringStart(
        seq=0,
        index=vring.index,
        size=vring.size,
        base=base,
        desc_uva=vring.address.desc,
        avail_uva=vring.address.avail,
        used_uva=vring.address.used,
        event_idx=bool(features & VirtioFeature.RING_EVENT_IDX),
        indirect=bool(features & VirtioFeature.RING_INDIRECT_DESC),
        enabled=vring.enabled,
        recover=recover,
        has_kick=vring.kick is not None,
        has_call=vring.call is not None,
        has_err=vring.err is not None,
    )
