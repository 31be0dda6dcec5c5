"""`Centre`: the objects that requests work on; sends commands to hosts and records them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control_center.access import Access
from control_center.cluster import Cluster, Gathered, Listener
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.recording_port import CommandRow, Recorder
from control_center.scope import Caller, Scope
from control_center.snapshots import SnapshotStore
from control_center.stream import StreamHub
from control_center.usage import Usage
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.faults import Snapshot


class RecorderFeed(Listener):
    """Passes records and events of all hosts to the recorder, and subscribes to the records of all instances."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def records(self, host: Host, push: RecordsPush) -> None:
        self._recorder.record_batch(push, host.name)

    def event(self, host: Host, push: EventPush) -> None:
        self._recorder.record_event(push, host.name)

    def wanted(self, host: Host) -> set[int]:
        return set(host.instances)


def told(scope: Scope, host: Host, error: RefusedError) -> RefusedError:
    """Hides the names of VMs outside of `scope` in a daemon's refusal: the daemon answers the centre, which sees all."""
    names = [vm for vm in host.vms if not scope.sees(host.name, vm)]
    if any(name in error.text for name in names):
        return RefusedError(error.kind, f"{host.name} refuses this, or none of your VMs there matches")
    return error


@dataclass(eq=False, slots=True)
class Centre:
    """Cluster, access rules, recorder, streams and snapshots of a control centre."""

    cluster: Cluster
    access: Access
    recorder: Recorder | None = None
    max_pe_series: int = 10_000
    hub: StreamHub = field(init=False)
    snapshots: SnapshotStore = field(default_factory=SnapshotStore)
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.hub = StreamHub(self.cluster)
        if self.recorder is not None:
            self.cluster.listeners.append(RecorderFeed(self.recorder))

    def recording(self) -> Recorder:
        """:raise RefusedError: "unknown": this centre has no recorder."""
        if self.recorder is None:
            raise RefusedError(
                "unknown", "nothing is recorded here; allowed: a control centre with a recorder configured"
            )
        return self.recorder

    # ---- commands --------------------------------------------------------------------------------

    async def command(self, caller: Caller, host: Host, request: Request) -> Any:
        """Has a host carry out a command, and records the command.

        :raise RefusedError: the host refused or did not answer.
        """
        try:
            answer = await host.ask(request)
        except RefusedError as error:
            self._record(caller, host.name, request, error)
            raise told(caller.scope, host, error) from None
        self._record(caller, host.name, request, None)
        return answer

    async def commands(self, caller: Caller, asked: Mapping[Host, Request]) -> Gathered[Any]:
        """Has several hosts carry out commands at once, and records the commands."""
        found = await self.cluster.gather(asked)
        for host, request in asked.items():
            self._record(caller, host.name, request, found.failed.get(host.name))
            if (error := found.failed.get(host.name)) is not None:
                found.failed[host.name] = told(caller.scope, host, error)
        return found

    def _record(self, caller: Caller, host: str, request: Request, error: RefusedError | None) -> None:
        if self.recorder is None:
            return
        command: CommandRow = {
            "time_ns": self.cluster.clocks.real_ns(),
            "host": host,
            "user": caller.name,
            "verb": request.verb.name,
            "arguments": request.given(),
            "error": None if error is None else f"{error.kind}: {error.text}",
        }
        self.recorder.record_command(command)

    def record_snapshot(self, snapshot: Snapshot) -> None:
        """Records a snapshot, if the centre has a recorder."""
        if self.recorder is not None:
            for host, info in snapshot["hosts"].items():
                self.recorder.record_snapshot(info, host, str(snapshot["id"]))

    def tick(self) -> None:
        """Sends the latest load to streams and to the recorder; called once a second."""
        self.hub.tick()
        if self.recorder is not None:
            for host in self.cluster.hosts.values():
                if host.load is not None and host.state == "up":
                    self.recorder.record_load(host.load, host.name)
