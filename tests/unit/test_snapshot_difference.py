"""Difference of two snapshots: each processing element counts once, and only for what it does."""

from __future__ import annotations

from typing import Any

import pytest

from control_center.snapshots import diff
from virtio_proto.control.api import PeState
from virtio_proto.control.verbs.faults import Snapshot


def state(pe: int, **other: Any) -> PeState:
    busy = {"kernel": "spin", "launch": 1, "block": 5, "warps": 8, "since_ns": 10, "hung": False}
    return {"gpu": "cpu", "vm": "web1", "pe": pe, "last_record_ns": 0, "at_ns": 20, **busy, **other}  # type: ignore[typeddict-item]  # its fields


def snapshot(number: int, *pes: PeState, silent: tuple[str, ...] = ()) -> Snapshot:
    info = {"time_ns": number, "skew_ns": 0, "coverage": 1.0, "silent": list(silent), "pes": list(pes)}
    about = {"id": number, "time_ns": number, "owner": "", "selector": "", "failed": []}
    return {**about, "hosts": {"h1": info}}  # type: ignore[typeddict-item]  # its fields


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ({}, {"kernel": "other", "launch": 2}, "other kernel"),
        ({}, {"kernel": None}, "other kernel"),
        ({}, {"launch": 2}, "next launch"),
        ({}, {"block": 6}, "further"),
        ({}, {"hung": True}, "hung"),
        ({"hung": True}, {}, "further"),
        ({}, {"last_record_ns": 9, "warps": 9, "since_ns": 11, "at_ns": 99}, "stuck"),
        ({"kernel": None}, {"kernel": None, "last_record_ns": 9, "since_ns": 3, "warps": 0}, None),
    ],
)
def test_change_is_what_the_element_does(before: dict[str, Any], after: dict[str, Any], kind: str | None) -> None:
    found = diff(snapshot(1, state(0, **before)), snapshot(2, state(0, **after)))
    assert [change["kind"] for change in found["changes"]] == ([] if kind is None else [kind])
    counts = (int(kind not in ("stuck", None)), int(kind == "stuck"), int(kind is None))
    assert (found["changed"], found["stuck"], found["same"]) == counts


def test_elements_that_one_snapshot_lacks_are_changed() -> None:
    found = diff(snapshot(1, state(0), state(1)), snapshot(2, state(2), silent=("web1/1",)))
    assert [(change["pe"], change["kind"]) for change in found["changes"]] == [
        (0, "gone"),
        (1, "silent"),
        (2, "appeared"),
    ]
    assert (found["changed"], found["stuck"], found["same"]) == (3, 0, 0)
