"""Verbs about hosts: topology, load, counters, the control system's cost, the workers of VMs."""

from __future__ import annotations

from typing import TypedDict

from virtio_proto.control import api
from virtio_proto.control.api import (
    CentreInfo,
    HostInfo,
    LoadInfo,
    PeStat,
    RecorderStatus,
    Role,
    SelfInfo,
)
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import (
    LOOK_S,
    HostError,
    Merged,
    Reach,
    Rest,
    Selecting,
    Verb,
    rows,
    unchanged,
)


class Topology(Verb):
    """Lists all registered hosts with their GPUs and VMs.

    A host that does not answer is listed as last known, with its state and since when.
    """

    name = "topology"
    timeout_s = LOOK_S
    rest = Rest("GET", "/hosts", "hosts")
    Answer = api.TopologyInfo
    merged = Merged(list[HostInfo], lambda answers, _failed: list(answers.values()))


class LoadAnswer(TypedDict):
    """Load of hosts. Bytes of `pes`: one per processing element, busy part of the last second in 1/255."""

    time_ns: int
    hosts: dict[str, LoadInfo]


class Load(Verb):
    """Shows the load of hosts, GPUs, VMs and processing elements during the last second."""

    name = "load"
    timeout_s = LOOK_S
    rest = Rest("GET", "/load", "hosts")
    Answer = LoadInfo
    merged = Merged(
        LoadAnswer,
        lambda answers, _failed: {"time_ns": max(one["time_ns"] for one in answers.values()), "hosts": dict(answers)},
    )

    class Request(Selecting, kw_only=True, frozen=True):
        """Hosts, GPUs, VMs and processing elements to show."""


class HostedStat(PeStat):
    host: str


class Stats(TypedDict):
    pes: list[PeStat]


class Stat(Verb):
    """Shows counters and gauges of processing elements with an open channel of perf or load."""

    name = "stat"
    timeout_s = LOOK_S
    rest = Rest("GET", "/stats", "figures")
    Answer = Stats
    merged = rows(HostedStat, "pes")

    class Request(Selecting, kw_only=True, frozen=True):
        """Processing elements to show."""


class SelfProblem(TypedDict):
    """Problem of the control system itself, with its remedy."""

    host: str
    """Host that has it, or ``centre``."""
    what: str
    remedy: str


class SelfAnswer(TypedDict):
    role: Role
    """Role of the caller."""
    name: str
    """Name of the caller."""
    vms: list[str] | None
    """VMs that the caller may see; null: all."""
    centre: CentreInfo
    hosts: dict[str, SelfInfo]
    failed: list[HostError]
    recorder: RecorderStatus | None
    problems: list[SelfProblem]
    """Problems that need attention now; empty: the control system is well."""


class Self(Verb):
    """Shows the control system's cost and health on each host and in the centre, the recorder's state, and the caller's rights.

    Callers that may not see all VMs get no costs of hosts and no problems.
    """

    name = "self"
    timeout_s = LOOK_S
    rest = Rest("GET", "/self", "self")
    Answer = SelfInfo
    merged = Merged(SelfAnswer, lambda answers, failed: {"hosts": dict(answers), "failed": list(failed)})


# ---- workers -------------------------------------------------------------------------------------


class ResetWorker(Verb):
    """Replaces a VM's worker; kernels that run in it end."""

    name = "reset_worker"
    role = "operate"
    reach = Reach.VM
    rest = Rest("POST", "/workers/{host}/{vm}/reset", "load")
    Answer = api.Nothing
    merged = unchanged(api.Nothing)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        """VM whose worker is meant."""


class Quiesce(Verb):
    """Stops a VM's worker from taking new requests until `resume`."""

    name = "quiesce"
    role = "operate"
    reach = Reach.VM
    rest = Rest("POST", "/workers/{host}/{vm}/quiesce", "load")
    Answer = api.Nothing
    merged = unchanged(api.Nothing)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        """VM whose worker is meant."""


class Resume(Verb):
    """Lets a quiesced worker take requests again."""

    name = "resume"
    role = "operate"
    reach = Reach.VM
    rest = Rest("POST", "/workers/{host}/{vm}/resume", "load")
    Answer = api.Nothing
    merged = unchanged(api.Nothing)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        """VM whose worker is meant."""
