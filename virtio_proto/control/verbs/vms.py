"""Verbs about the VMs that a daemon serves: reload, remove."""

from __future__ import annotations

from typing import TypedDict

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
