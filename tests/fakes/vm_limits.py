"""Limits of a VM, as a daemon answers `show_limits` and `set_limits`."""

from __future__ import annotations

from collections.abc import Mapping

from virtio_proto.control.verbs.vms import LimitFigures, LimitsInfo


def limits_info(vm: str, given: Mapping[str, int]) -> LimitsInfo:
    """Limits of a VM that `given` has been set for; more than 4 elements count from its next QEMU on."""
    told: LimitFigures = {
        "pes": None,
        "memory_bytes": 256 << 20,
        "queue_depth": 256,
        "contexts": 256,
        "streams": 64,
        "weight": 100,
        "deadline_ns": 10**10,
    }
    configured: LimitFigures = {**told, **given}  # type: ignore[typeddict-item]  # `given` has some of its keys
    later = ["pes"] if (configured["pes"] or 0) > 4 else []
    enforced: LimitFigures = {**configured, "pes": told["pes"] if later else configured["pes"]}
    return {
        "vm": vm,
        "configured": configured,
        "told": enforced,
        "enforced": enforced,
        "used": {"memory_bytes": 64 << 20, "queue_depth": 0, "contexts": 1},
        "pending": [],
        "later": later,
        "exceeded": ["memory_bytes"] if enforced["memory_bytes"] < 64 << 20 else [],
        "allotment": 2 if given else 1,
        "acknowledged": 1,
        "allotment_state": "pending" if given else "taken",
    }
