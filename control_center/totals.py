"""Sums over an instance's channels."""

from __future__ import annotations

from collections.abc import Sequence

from virtio_proto.control.api import ChannelInfo, Totals


def totals_of(channels: Sequence[ChannelInfo]) -> Totals:
    """What channels come to together; `sample` is the highest that is in force on one of them."""
    return {
        "channels": len(channels),
        "records": sum(channel["records"] for channel in channels),
        "lost": sum(channel["lost"] for channel in channels),
        "skipped": sum(channel["skipped"] for channel in channels),
        "forged": sum(channel["forged"] for channel in channels),
        "cost_ns": sum(channel["cost_ns"] for channel in channels),
        "sample": max((channel["sample"] for channel in channels), default=0),
    }
