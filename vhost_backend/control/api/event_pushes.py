"""Event pushes of the control API: the name and the fields that each event of the bus has for clients.

The form is part of the API (`virtio_proto.control.api.EventPush`) and stays as it is when an event's own fields change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vhost_backend.control import events
from vhost_backend.control.api.push_hub import PushHub
from vhost_backend.control.event_bus import EventBus
from vhost_backend.worker_protocol.marks import Mark
from virtio_proto.schema import MarkKind

MAX_MARK_AGE_NS: Final = 3600 * 10**9


class EventPushes:
    """Subscribes to the bus and pushes events to the clients that follow them.

    Constructed before all other subscribers, so that clients see an event before what other parts make of it.
    """

    def __init__(self, bus: EventBus, hub: PushHub, clock_ns: Callable[[], int]) -> None:
        self._push = hub.event
        self._clock_ns = clock_ns
        bus.subscribe(events.VmConnected, lambda event: self._push("vm_connected", event.vm))
        bus.subscribe(events.VmDisconnected, lambda event: self._push("vm_disconnected", event.vm))
        bus.subscribe(events.VmAdded, lambda event: self._push("vm_added", event.vm))
        bus.subscribe(events.VmLeft, lambda event: self._push("vm_left", event.vm))
        bus.subscribe(events.WorkerReady, self._worker_ready)
        bus.subscribe(events.WorkerLost, self._worker_lost)
        bus.subscribe(events.MigrationChanged, lambda event: self._push("migration", event.vm, **event.info))
        bus.subscribe(events.InstanceOpened, lambda event: self._instance("opened", event))
        bus.subscribe(
            events.InstanceClosed, lambda event: self._instance("expired" if event.expired else "closed", event)
        )
        bus.subscribe(events.InputSent, self._input_sent)
        bus.subscribe(events.SamplingChanged, self._sampling_changed)
        bus.subscribe(events.ThresholdCrossed, self._threshold_crossed)
        bus.subscribe(events.InputWanted, self._input_wanted)
        bus.subscribe(events.GuestMarked, self._guest_marked)
        bus.subscribe(events.FaultNoted, lambda event: self._push("fault", event.vm, **event.info))
        bus.subscribe(events.FaultCleared, self._fault_cleared)
        bus.subscribe(events.PolicyActed, self._policy_acted)
        bus.subscribe(events.FirmwareChanged, lambda event: self._push("firmware", event.vm, **event.detail))

    def _worker_ready(self, event: events.WorkerReady) -> None:
        self._push("worker_ready", event.vm, generation=event.generation, pes=event.pes)

    def _worker_lost(self, event: events.WorkerLost) -> None:
        self._push("worker_lost", event.vm, generation=event.generation, reason=event.loss.reason)

    def _instance(self, name: str, event: events.InstanceOpened | events.InstanceClosed) -> None:
        if not event.internal:
            self._push(name, event.vm, instance=event.instance, selector=event.selector, owner=event.owner)

    def _input_sent(self, event: events.InputSent) -> None:
        self._push("input", event.vm, instance=event.instance, pe=event.pe, data=event.data, eof=event.eof)

    def _sampling_changed(self, event: events.SamplingChanged) -> None:
        self._push("governor", event.vm, channel=event.channel, pe=event.pe, fn=event.function, sample=event.sample)

    def _threshold_crossed(self, event: events.ThresholdCrossed) -> None:
        self._push(
            "threshold",
            event.vm,
            pe=event.pe,
            name=event.name,
            value=event.value,
            threshold=event.threshold,
            at_ns=self._plausible(event.time_ns),
        )

    def _input_wanted(self, event: events.InputWanted) -> None:
        self._push("wants_input", event.vm, pe=event.pe, at_ns=self._plausible(event.time_ns))

    def _guest_marked(self, event: events.GuestMarked) -> None:
        now_ns = self._clock_ns()
        marks = [_mark_fields(mark, now_ns) for mark in event.marks]
        name = _printable(event.name)
        self._push("marks", event.vm, process=event.process, name=name, dropped=event.dropped, marks=marks)

    def _fault_cleared(self, event: events.FaultCleared) -> None:
        self._push("fault_cleared", event.vm, fault=event.fault, by=event.by)

    def _policy_acted(self, event: events.PolicyActed) -> None:
        self._push(
            "policy_acted",
            event.vm,
            policy=event.policy,
            action=event.action,
            fault=event.fault,
            result=event.result,
        )

    def _plausible(self, time_ns: int) -> int:
        """A time that a record states, but not in the future: guest code may have written any time."""
        return min(time_ns, self._clock_ns())


def _mark_fields(mark: Mark, now_ns: int) -> dict[str, Any]:
    """Fields of a mark that has ended by `now_ns` and began in the hour before. What is empty is left out."""
    at_ns = min(max(mark.at_ns, now_ns - MAX_MARK_AGE_NS), now_ns)
    fields = {
        "at_ns": at_ns,
        "duration_ns": None if mark.kind == MarkKind.INSTANT else min(mark.duration_ns, now_ns - at_ns),
        "kind": MarkKind(mark.kind).name.lower(),
        "text": _printable(mark.text),
        "thread": mark.thread,
        "thread_name": _printable(mark.thread_name) or None,
        "domain": _printable(mark.domain) or None,
        "category": _printable(mark.category_name) or mark.category or None,
        "colour": f"#{mark.colour & 0xFFFFFF:06x}" if mark.colour else None,
        "payload": mark.payload,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _printable(text: str) -> str:
    """Text without what changes the direction of writing or cannot be seen."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
