"""The device is on the guest's PCI bus, and its configuration space is the daemon's. No driver yet."""

from __future__ import annotations

import shlex

import pytest

from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from virtio_proto import schema

pytestmark = pytest.mark.vm

SYSFS = "/sys/bus/pci/devices"
DEVICE_AREA = 0x2000
"""Offset of the device-specific configuration in BAR 2, as QEMU lays it out."""

READ_CONFIG = f"""
import mmap, sys
with open(sys.argv[1], "r+b") as bar, mmap.mmap(bar.fileno(), {DEVICE_AREA + 0x1000}) as area:
    print(area[{DEVICE_AREA}:{DEVICE_AREA + schema.CONFIG.construct.sizeof()}].hex())
"""


def pci_address(guest: Guest, ids: str) -> str:
    """The one PCI function with those vendor and device ids, in the guest."""
    script = f"cd {SYSFS}; for d in *; do test $(cat $d/vendor)$(cat $d/device) = {ids} && echo $d; done; true"
    (address,) = guest.run(script).stdout.split()
    return address


def test_guest_sees_device_region_and_configuration() -> None:
    settings = VmSettings("seen", region_bytes=32 << 20, num_queues=3, extra={"engine": "null"})
    with Vgcd(settings) as vgcd, Guest(vgcd.device("seen")) as guest:
        device = pci_address(guest, f"0x1af40x{0x1040 + schema.VIRTIO_ID:04x}")
        region = pci_address(guest, "0x1af40x1110")
        guest.run(f"echo {device} > {SYSFS}/{device}/driver/unbind")  # the kernel's virtio-pci driver holds the BAR
        guest.run(f"printf '\\006' | dd of={SYSFS}/{device}/config bs=1 seek=4 conv=notrunc 2>/dev/null")
        text = guest.run(f"python3 -c {shlex.quote(READ_CONFIG)} {SYSFS}/{device}/resource2").stdout
        config = schema.CONFIG.construct.parse(bytes.fromhex(text))

        assert config.magic == schema.CONFIG_MAGIC
        assert config.fingerprint == schema.FINGERPRINT
        assert config.num_queues == 3
        assert config.region_size == 32 << 20
        assert bytes(config.vm_name).rstrip(b"\0") == b"seen"
        assert guest.run(f"stat -c %s {SYSFS}/{region}/resource2").stdout == f"{32 << 20}\n"
