"""What each verb of a daemon's control API answers, and the check that a daemon has answered that.

A daemon may be of another version, broken or taken over: what does not have its verb's shape is an error of that host
and reaches nobody. Fields that are not known are let through.
"""

from __future__ import annotations

from typing import Any, Final, TypedDict

from control_center.errors import UnreachableError
from control_center.shapes import ShapeError, check
from virtio_proto.control.api import (
    EventPush,
    FaultInfo,
    FirmwareInfo,
    InstanceInfo,
    LoadInfo,
    MigrationInfo,
    MoveInfo,
    PeStat,
    PolicyInfo,
    RecordsPush,
    SelfInfo,
    SnapshotInfo,
    Topology,
)
from virtio_proto.control.frames import Frame, FrameError


class Instances(TypedDict):
    instances: list[InstanceInfo]


class Stats(TypedDict):
    pes: list[PeStat]


class Faults(TypedDict):
    faults: list[FaultInfo]


class Cleared(TypedDict):
    cleared: int


class Policies(TypedDict):
    policies: list[PolicyInfo]


class Migrations(TypedDict):
    migrations: list[MigrationInfo]


class Moves(TypedDict):
    moves: list[MoveInfo]


class Elements(TypedDict):
    elements: int


class Closed(TypedDict):
    closed: list[int]


class Nothing(TypedDict):
    """An answer that says no more than that it was done."""


MAX_NAME: Final = 256

ANSWERS: Final[dict[str, Any]] = {
    "topology": Topology,
    "ls": Instances,
    "stat": Stats,
    "load": LoadInfo,
    "snapshot": SnapshotInfo,
    "faults": Faults,
    "clear_faults": Cleared,
    "policies": Policies,
    "set_policies": Policies,
    "migrations": Migrations,
    "migrate": MigrationInfo,
    "confine": MigrationInfo,
    "balance": Moves,
    "reset_worker": Nothing,
    "quiesce": Nothing,
    "resume": Nothing,
    "self": SelfInfo,
    "subscribe": Nothing,
    "unsubscribe": Nothing,
    "open": InstanceInfo,
    "set": InstanceInfo,
    "close": InstanceInfo | Closed,
    "send": Elements,
    "threshold": Elements,
    "firmware": FirmwareInfo,
    "stage_firmware": FirmwareInfo,
    "activate_firmware": FirmwareInfo,
    "rollback_firmware": FirmwareInfo,
}
"""By verb."""

_PUSHES: Final[dict[str, Any]] = {"records": RecordsPush, "event": EventPush}


def checked(verb: str, answer: Any) -> Any:
    """`answer`, if it is one to `verb`.

    :raise UnreachableError: it is not; with the place that is wrong.
    """
    try:
        check(answer, ANSWERS[verb], verb)
        if verb == "topology":
            _check_names({f"VM {index}": vm["vm"] for index, vm in enumerate(answer["vms"])})
            _check_names({f"GPU {index}": gpu["gpu"] for index, gpu in enumerate(answer["gpus"])})
    except ShapeError as error:
        raise UnreachableError(f"the daemon's answer is wrong: {error}") from None
    return answer


def _check_names(names: dict[str, str]) -> None:
    """Names go into stores, labels and lines of text.

    :raise ShapeError: one cannot be a name.
    """
    for where, name in names.items():
        if len(name) > MAX_NAME or not name.isprintable():
            raise ShapeError(f"{where} is {name[:80]!r}; allowed: up to {MAX_NAME} printable characters")


def check_push(frame: Frame) -> None:
    """:raise FrameError: a push of a kind that we know has another shape than it should."""
    shape = _PUSHES.get(frame["push"])
    try:
        if shape is not None:
            check(frame, shape, f"push {frame['push']}")
            _check_names({key: frame[key] for key in ("vm", "gpu", "event") if frame.get(key) is not None})
    except ShapeError as error:
        raise FrameError(str(error)) from None
