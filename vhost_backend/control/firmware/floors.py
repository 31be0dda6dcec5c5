"""Least firmware version that each VM accepts: versions only rise, so that an old image with a known fault stays away.

A signature says who made an image, not that it is still wanted. The floor of a VM is the highest version that has run
on all elements chosen for it, workers before the present one included. No failure lowers it: guest code could forge one.
"""

from __future__ import annotations

from vhost_backend.control.links.firmware import FirmwareError
from virtio_proto.control.firmware import version_number


class VersionFloors:
    """Floors of all VMs of a host."""

    def __init__(self, built_in: str) -> None:
        """`built_in`: version that every VM starts with."""
        self._built_in = built_in
        self._ran: dict[str, set[str]] = {}

    def of(self, vm: str) -> str:
        """Least version that the VM accepts."""
        versions: set[str] = {self._built_in, *self._ran.get(vm, ())}
        return max(versions, key=version_number)

    def raise_to(self, vm: str, version: str) -> None:
        """Notes that a version runs on the VM; an older one than the floor changes nothing."""
        self._ran.setdefault(vm, set()).add(version)

    def ran(self, vm: str) -> tuple[str, ...]:
        """Versions that have run on the VM."""
        return tuple(sorted(self._ran.get(vm, ())))

    def forget_vm(self, vm: str) -> None:
        """Notes that the VM has left; a new VM may have its name."""
        self._ran.pop(vm, None)

    def refuse_older(self, vm: str, version: str) -> None:
        """Refuses a version below the floor.

        :raise FirmwareError: "denied": the VM has run a newer version.
        """
        floor = self.of(vm)
        if version_number(version) < version_number(floor):
            raise FirmwareError(
                "denied", f"{vm} has run firmware {floor}, and {version} is older; allowed: {floor} or newer, or force"
            )
