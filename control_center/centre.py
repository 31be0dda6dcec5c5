"""The control centre's control module: what a request reaches, and how commands get to hosts and into the recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from control_center.access import Access
from control_center.cluster import Cluster, Gathered, Listener
from control_center.daemon_link import ANSWER_S
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.recording_port import CommandRow, Recorder
from control_center.scope import Caller, Scope
from control_center.snapshots import Snapshot, SnapshotStore
from control_center.stream import StreamHub
from control_center.usage import Usage
from virtio_proto.control.api import EventPush, RecordsPush


class RecorderFeed(Listener):
    """Passes everything on to the recorder, and has hosts send everything."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def records(self, host: Host, push: RecordsPush) -> None:
        self._recorder.record_batch(push, host.name)

    def event(self, host: Host, push: EventPush) -> None:
        self._recorder.record_event(push, host.name)

    def wanted(self, host: Host) -> set[int]:
        return set(host.instances)


def told(scope: Scope, host: Host, error: RefusedError) -> RefusedError:
    """A daemon's refusal as somebody may read it: the daemon knows the centre, which sees all VMs, and names them."""
    names = [vm for vm in host.vms if not scope.sees(host.name, vm)]
    if any(name in error.text for name in names):
        return RefusedError(error.kind, f"{host.name} has nothing of yours that this could be done to, or refuses it")
    return error


@dataclass(eq=False, slots=True)
class Centre:
    """Everything that requests work on."""

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
        """:raise RefusedError: "unknown": nothing is recorded here."""
        if self.recorder is None:
            raise RefusedError(
                "unknown", "nothing is recorded here; allowed: a control centre with a recorder configured"
            )
        return self.recorder

    # ---- commands --------------------------------------------------------------------------------

    async def command(
        self, caller: Caller, host: Host, verb: str, fields: Mapping[str, Any], timeout_s: float = ANSWER_S
    ) -> Any:
        """Has one host do something, and records that.

        :raise RefusedError: it was not done.
        """
        try:
            answer = await host.ask(verb, fields, timeout_s)
        except RefusedError as error:
            self._record(caller, host.name, verb, fields, error)
            raise told(caller.scope, host, error) from None
        self._record(caller, host.name, verb, fields, None)
        return answer

    async def commands(
        self, caller: Caller, asked: Mapping[Host, Mapping[str, Any]], verb: str, timeout_s: float = ANSWER_S
    ) -> Gathered[Any]:
        """Has several hosts do something at once, and records that."""
        found = await self.cluster.gather(asked, verb, timeout_s)
        for host, fields in asked.items():
            self._record(caller, host.name, verb, fields, found.failed.get(host.name))
            if (error := found.failed.get(host.name)) is not None:
                found.failed[host.name] = told(caller.scope, host, error)
        return found

    def _record(
        self, caller: Caller, host: str, verb: str, fields: Mapping[str, Any], error: RefusedError | None
    ) -> None:
        if self.recorder is None:
            return
        command: CommandRow = {
            "time_ns": self.cluster.clocks.real_ns(),
            "host": host,
            "user": caller.name,
            "verb": verb,
            "arguments": dict(fields),
            "error": None if error is None else f"{error.kind}: {error.text}",
        }
        self.recorder.record_command(command)

    def record_snapshot(self, snapshot: Snapshot) -> None:
        """Has the recorder keep a snapshot, if there is one."""
        if self.recorder is not None:
            for host, info in snapshot["hosts"].items():
                self.recorder.record_snapshot(info, host, str(snapshot["id"]))

    def tick(self) -> None:
        """The load as it is known now, to streams and the recorder; called once a second."""
        self.hub.tick()
        if self.recorder is not None:
            for host in self.cluster.hosts.values():
                if host.load is not None and host.state == "up":
                    self.recorder.record_load(host.load, host.name)
