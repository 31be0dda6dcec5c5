"""Shapes of what the REST API takes and answers where they are not those of `virtio_proto.control.api` themselves."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from control_center.hosts_view import HostInfo
from control_center.recording_port import RecorderStatus
from control_center.snapshots import HostError
from virtio_proto.control.api import (
    ChannelInfo,
    FirmwareInfo,
    LoadInfo,
    MigrationInfo,
    MoveInfo,
    OpenRequest,
    PeStat,
    PolicyInfo,
    Role,
    SelfInfo,
    Totals,
)

__all__ = ["HostInfo", "OpenRequest"]


class ErrorBody(TypedDict):
    kind: str
    """malformed, unknown, denied, quota, busy or failed"""
    text: str
    """What is wrong, and what is allowed."""


class ErrorAnswer(TypedDict):
    """What every refusal looks like."""

    error: ErrorBody


# ---- what is asked -------------------------------------------------------------------------------


class SetRequest(TypedDict):
    level: NotRequired[int]
    sample: NotRequired[int]
    ttl_s: NotRequired[float]


class InputRequest(TypedDict):
    """Standard input: one of text and base64, or only eof."""

    text: NotRequired[str]
    base64: NotRequired[str]
    pe: NotRequired[int | None]
    vm: NotRequired[str | None]
    eof: NotRequired[bool]


class ThresholdRequest(TypedDict):
    selector: NotRequired[str]
    name: str
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class SnapshotRequest(TypedDict):
    selector: NotRequired[str]
    deadline_ms: NotRequired[int]


class ClearRequest(TypedDict):
    """Which faults: those of a selector, or by their ids."""

    selector: NotRequired[str]
    ids: NotRequired[list[str]]
    """Each ``host/number``."""


class PoliciesRequest(TypedDict):
    policies: list[PolicyInfo]


class MigrationRequest(TypedDict):
    host: str
    vm: str
    gpu: NotRequired[str | None]
    pes: NotRequired[str | None]


class ConfineRequest(TypedDict):
    host: str
    vm: str
    pes: NotRequired[str | None]
    """As ``0-3|8``; null: all of them again."""


class BalanceRequest(TypedDict):
    host: NotRequired[str | None]
    apply: NotRequired[bool]


class StageRequest(TypedDict):
    selector: NotRequired[str]
    image: str
    """Base64."""


class ActivateRequest(TypedDict):
    selector: NotRequired[str]
    version: str


class RollbackRequest(TypedDict):
    selector: NotRequired[str]


# ---- what is answered ----------------------------------------------------------------------------


class HostedInstance(TypedDict):
    """An instance, as its daemon describes it; `totals` are of all its channels, also where these are not listed."""

    instance: str
    """host/number"""
    host: str
    function: str
    selector: str
    owner: str
    level: int
    policy: str
    opened_ns: int
    expires_ns: int | None
    channels: list[ChannelInfo]
    totals: Totals


class OpenAnswer(TypedDict):
    instances: list[HostedInstance]
    failed: list[HostError]


class CloseAnswer(TypedDict):
    closed: list[str]


class LoadAnswer(TypedDict):
    """Bytes of `pes` are base64: a byte per element, busy part of the last second in 1/255."""

    time_ns: int
    hosts: dict[str, LoadInfo]


class InputAnswer(TypedDict):
    elements: int
    """To how many it went."""


class HostedStat(PeStat):
    host: str


class HostedFault(TypedDict):
    """A fault, as its daemon describes it."""

    fault: str
    """host/number"""
    host: str
    time_ns: int
    last_ns: int
    count: int
    gpu: str
    vm: str
    pe: int | None
    kind: str
    xid: int | None
    text: str
    advice: str
    cleared: bool


class ClearAnswer(TypedDict):
    cleared: int
    failed: list[HostError]


class ElementsAnswer(TypedDict):
    elements: int
    failed: list[HostError]


class HostedMigration(MigrationInfo):
    host: str


class HostedMove(MoveInfo):
    host: str


class BalanceAnswer(TypedDict):
    moves: list[HostedMove]
    failed: list[HostError]


class FirmwareAnswer(TypedDict):
    hosts: dict[str, FirmwareInfo]
    failed: list[HostError]


class CentreInfo(TypedDict):
    """What the control centre itself is and costs."""

    version: str
    time_ns: int
    cpu_percent: float
    """Since the last time that somebody asked, of one CPU."""
    memory_bytes: int
    hosts: int
    hosts_up: int
    streams: int


class SelfAnswer(TypedDict):
    role: Role
    """Of who asks."""
    name: str
    vms: list[str] | None
    """That there are for who asks; null: all."""
    centre: CentreInfo
    hosts: dict[str, SelfInfo]
    failed: list[HostError]
    recorder: RecorderStatus | None


class Done(TypedDict):
    """It was done; there is no more to say."""


Document = dict[str, Any]
"""An OpenAPI document, a Perfetto trace: described elsewhere."""
