"""REST API, /api/v1: routes of the verbs, and of the snapshots and recordings that the control centre keeps."""

from __future__ import annotations

from typing import Final

from control_center.rest import channels, faults, hosts, recordings, snapshots
from control_center.rest.fanout import answer
from control_center.rest.route import Handler, Route
from virtio_proto.control.verbs import VERBS
from virtio_proto.control.verbs.base import Verb
from virtio_proto.control.verbs.channels import Ls, Open
from virtio_proto.control.verbs.faults import ClearFaults, TakeSnapshot
from virtio_proto.control.verbs.hosts import Load, Self, Topology
from virtio_proto.control.verbs.status import Status

OWN: Final[dict[type[Verb], Handler]] = {
    Topology: hosts.hosts,
    Load: hosts.load,
    Self: hosts.own,
    Status: hosts.status,
    Ls: channels.channels,
    Open: channels.open_channels,
    TakeSnapshot: snapshots.take_snapshot,
    ClearFaults: faults.clear_faults,
}
"""Handlers of verbs that need more than asking daemons and merging their answers (`fanout.answer`)."""


def routes() -> tuple[Route, ...]:
    """All routes."""
    of_verbs = (Route.of(verb, OWN.get(verb, answer)) for verb in VERBS.values() if verb.rest is not None)
    return (*of_verbs, *snapshots.ROUTES, *recordings.ROUTES)
