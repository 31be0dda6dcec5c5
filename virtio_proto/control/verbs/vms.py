"""Verbs about the VMs that a daemon serves: reload, add, remove, limits."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

from msgspec import Meta

from virtio_proto.control.api import AllotmentState
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import LOOK_S, HostError, Reach, Rest, Verb, by_host, unchanged
from virtio_proto.schema import LIMITS


class VmChanges(TypedDict):
    """Names of VMs that a daemon serves in another way than before."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    """VMs with other settings. They count from the VM's next QEMU on; at once if it has none."""
    live: NotRequired[list[str]]
    """VMs with other limits that count now, while their QEMU runs."""
    later: NotRequired[dict[str, list[str]]]
    """Keys of the configuration whose values a changed VM with a QEMU has from its next one on."""
    waiting: list[str]
    """Removed and changed VMs that still have a QEMU, whose end they wait for."""


_QUOTA = ("pes", "memory", "queue_depth", "contexts", "streams", "weight", "cores")
"""Fields of `AddVm` that stand under ``quota`` in the configuration."""


class Changes(TypedDict):
    hosts: dict[str, VmChanges]
    failed: list[HostError]


class ReloadVms(Verb):
    """Reads a daemon's configuration again: VMs come and go, others notice nothing."""

    name = "reload_vms"
    role = "admin"
    reach = Reach.HOSTS
    rest = Rest("POST", "/vms/reload", "vms")
    Answer = VmChanges
    merged = by_host(Changes)

    class Request(base.Request, kw_only=True, frozen=True):
        now: bool = False
        """Whether removed and changed VMs lose their QEMU now."""


_SIZE = Meta(description="A size such as 64M or 1G.")


class AddVm(Verb):
    """Serves one VM more, without a file: with the keys, the checks and the defaults of the configuration.

    The VM outlasts reloads, and with `persist` the daemon.
    """

    name = "add_vm"
    role = "admin"
    reach = Reach.HOST
    rest = Rest("POST", "/vms/{host}/add", "vms")
    Answer = VmChanges
    merged = unchanged(VmChanges)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        socket: Annotated[str, Meta(min_length=1, description="Absolute path at which QEMU connects.")]
        uuid: str | None = None
        region: Annotated[str, _SIZE] | None = None
        region_file: str | None = None
        engine: str | None = None
        pes: int | None = None
        memory: Annotated[str, _SIZE] | None = None
        queue_depth: int | None = None
        contexts: int | None = None
        streams: int | None = None
        weight: int | None = None
        cores: Annotated[str, Meta(description="own, or processors of the host such as 2-5.")] | None = None
        deadline: Annotated[str, Meta(description="A time such as 500ms, 10s or 2m.")] | None = None
        num_queues: int | None = None
        sandbox: str | None = None
        cache_domain: str | None = None
        persist: bool = False
        """Whether the VM is served again after a restart of the daemon."""

        def settings(self) -> dict[str, Any]:
            """Settings of the VM, as they stand in the configuration."""
            given = {name: value for name, value in self.given().items() if name not in ("vm", "persist")}
            quota = {name: given.pop(name) for name in _QUOTA if name in given}
            return {**given, "quota": quota} if quota else given


class RemoveVm(Verb):
    """Serves a VM no more once its QEMU has ended, or now, which QEMU does not survive."""

    name = "remove_vm"
    role = "admin"
    reach = Reach.VM
    rest = Rest("POST", "/vms/{host}/{vm}/remove", "vms")
    Answer = VmChanges
    merged = unchanged(VmChanges)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        now: bool = False


class LimitFigures(TypedDict):
    """Limits of a VM, by names of the configuration's keys."""

    pes: int | None
    """None: all processing elements that there are."""
    memory_bytes: int
    queue_depth: int
    contexts: int
    streams: int
    weight: int
    """Share of the host's processors beside other VMs. The guest is not told."""
    deadline_ns: int


class UseFigures(TypedDict):
    """Use of a VM, as its worker has told last; at most a second old while it computes."""

    memory_bytes: int
    queue_depth: int
    """Requests in flight."""
    contexts: int


class LimitsInfo(TypedDict):
    """Limits of a VM on their way from the configuration to its worker."""

    vm: str
    configured: LimitFigures
    """Limits that count from the VM's next QEMU on, at the latest."""
    told: LimitFigures
    """Limits that the guest can read."""
    enforced: LimitFigures
    """Limits that its worker enforces."""
    used: UseFigures
    pending: list[str]
    """Limits that are not enforced yet, as the guest has not acknowledged them, or of which it was not told yet."""
    later: list[str]
    """Limits that count from the VM's next QEMU on."""
    exceeded: list[str]
    """Limits that were lowered below the VM's use, of which it gets no more until it uses less."""
    allotment: int
    acknowledged: int | None
    allotment_state: AllotmentState


class ShowLimits(Verb):
    """Shows a VM's limits: configured, told to the guest, enforced, and used."""

    name = "show_limits"
    reach = Reach.VM
    timeout_s = LOOK_S
    rest = Rest("GET", "/vms/{host}/{vm}/limits", "vms")
    Request = base.VmRequest
    Answer = LimitsInfo
    merged = unchanged(LimitsInfo)


MIN_MEMORY_BYTES: Final = 1 << 20
MAX_MEMORY_BYTES: Final = 64 << 40
MIN_DEADLINE_NS: Final = 1_000_000
MAX_DEADLINE_NS: Final = 24 * 3600 * 10**9


class SetLimits(Verb):
    """Changes limits of a VM while it computes: of one of the configuration until that is read again, of an added one for good."""

    name = "set_limits"
    role = "admin"
    reach = Reach.VM
    rest = Rest("POST", "/vms/{host}/{vm}/limits", "vms")
    Answer = LimitsInfo
    merged = unchanged(LimitsInfo)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        """Limits that are left out stay as they are."""

        pes: Annotated[int, Meta(ge=0, le=4096)] | None = None
        """0: all that there are."""
        memory_bytes: Annotated[int, Meta(ge=MIN_MEMORY_BYTES, le=MAX_MEMORY_BYTES)] | None = None
        queue_depth: Annotated[int, Meta(ge=1, le=LIMITS["MAX_QUEUES"] * LIMITS["MAX_QUEUE_SIZE"])] | None = None
        contexts: Annotated[int, Meta(ge=1, le=LIMITS["MAX_CONTEXTS"])] | None = None
        streams: Annotated[int, Meta(ge=1, le=LIMITS["MAX_STREAMS"])] | None = None
        weight: Annotated[int, Meta(ge=1, le=10_000)] | None = None
        deadline_ns: Annotated[int, Meta(ge=MIN_DEADLINE_NS, le=MAX_DEADLINE_NS)] | None = None

        def __post_init__(self) -> None:
            base.VmRequest.__post_init__(self)
            if not self.limits:
                raise ValueError(f"no limit is given; allowed: at least one of {', '.join(LIMIT_NAMES)}")

        @property
        def limits(self) -> dict[str, int]:
            """Limits that are given, by name."""
            given = {name: getattr(self, name) for name in LIMIT_NAMES}
            return {name: value for name, value in given.items() if value is not None}


LIMIT_NAMES: Final = tuple(LimitFigures.__annotations__)
