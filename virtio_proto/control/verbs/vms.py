"""Verbs about the VMs that a daemon serves: reload, add, remove."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import HostError, Reach, Rest, Verb, by_host, unchanged


class VmChanges(TypedDict):
    """Names of VMs that a daemon serves in another way than before."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    """VMs with other settings. They count from the VM's next QEMU on; at once if it has none."""
    waiting: list[str]
    """Removed and changed VMs that still have a QEMU, whose end they wait for."""


_QUOTA = ("pes", "memory", "queue_depth", "contexts", "streams", "weight")
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
    """Serves a VM no more once its QEMU has ended, or now, which ends it."""

    name = "remove_vm"
    role = "admin"
    reach = Reach.VM
    rest = Rest("POST", "/vms/{host}/{vm}/remove", "vms")
    Answer = VmChanges
    merged = unchanged(VmChanges)

    class Request(base.VmRequest, kw_only=True, frozen=True):
        now: bool = False
