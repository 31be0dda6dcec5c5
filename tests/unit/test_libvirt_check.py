"""Check of definitions before their launch: values on which QEMU fails, and values that `vgcd` has otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.unit.libvirt_rig import device, devices, domain, plain
from vgc_libvirt import definition_check
from vgc_libvirt.device import Device

BY_HAND = "vhost-user-test-device-pci,chardev=c,virtio-id=38,num_vqs=4,vq_size=256,config_size=256,bus=pcie.0,addr=0x1e"
MEMORY = "memory-backend-memfd,id=m,size=64M,share=on"
SHMEM = '<shmem name="{name}"><model type="{model}"/><size unit="M">{size}</size></shmem>'


def attached(*wanted: Device, machine: str = "pc-q35-10.0") -> str:
    made = domain(plain(machine=machine))
    for one in wanted:
        made.attach(one)
    return made.text()


def by_hand(
    line: str = BY_HAND,
    *,
    chardev: str = "socket,id=c,path=/run/vgcd/web1.sock",
    memory: str = MEMORY,
    machine: str = "pc-q35-10.0",
) -> str:
    """Definition whose arguments a person has written."""
    values = ["-object", memory, "-device", "ivshmem-plain,memdev=m", "-chardev", chardev, "-device", line]
    rows = "".join(f"<qemu:arg value='{value}'/>" for value in values if value)
    return plain(f"<qemu:commandline>{rows}</qemu:commandline>", machine=machine)


def errors(text: str, known: Sequence[Device] | None = None) -> list[str]:
    found = definition_check.findings(domain(text), [device()] if known is None else known)
    return [finding.text for finding in found if not finding.is_warning]


def the_error(text: str, known: Sequence[Device] | None = None) -> str:
    (found,) = errors(text, known)
    return found


def test_attached_devices_have_no_findings() -> None:
    known = devices({"a": {"num_queues": 4}, "b": {"region": "256M"}, "c": {"region_file": "/srv/c", "region": "1M"}})
    assert errors(attached(*known), known) == []
    assert errors(attached(*known, machine="pc-i440fx-7.2"), known) == []


def test_a_device_that_a_person_has_written_well_has_no_findings() -> None:
    assert errors(by_hand()) == []
    assert errors(by_hand(BY_HAND.replace(",bus=pcie.0,addr=0x1e", ""), machine="pc-i440fx-7.2")) == []


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "-1", "\u00b2"])
def test_numbers_of_any_length_are_findings(number: str) -> None:
    """Python does not print integers of thousands of digits."""
    assert errors(by_hand(BY_HAND.replace("num_vqs=4", f"num_vqs={number}")))
    assert errors(by_hand(memory=MEMORY.replace("64M", number)))
    shmem = SHMEM.format(name="a", model="ivshmem-plain", size=number)
    assert errors(attached(device()).replace("</devices>", f"{shmem}</devices>"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"driver":' + "[" * 100_000, "argument 7 of <qemu:commandline>, -device: the value is nested too deeply"),
        (r'{"driver":"edu","id":"\ud800"}', "-device: the value is no JSON: .*surrogates not allowed"),
        ('{"driver":' + "9" * 5000 + "}", "-device: the value is no JSON: Exceeds the limit"),
    ],
    ids=["depth", "surrogate", "digits"],
)
def test_json_that_cannot_be_read_or_shown_is_a_finding(line: str, message: str) -> None:
    found = "\n".join(errors(by_hand(line)))
    assert re.search(message, found)
    assert found.encode()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("virtio-id=38", "virtio-id=42", "virtio-id is '42'; allowed: 38; QEMU aborts"),
        ("virtio-id=38,", "", "virtio-id is missing; allowed: 38"),
        ("virtio-id=38", "virtio-id=many", "virtio-id is 'many'; allowed: 38"),
        ("config_size=256", "config_size=257", "config_size is '257'; allowed: 256; QEMU aborts"),
        ("vq_size=256", "vq_size=2048", "vq_size is '2048'; allowed: a power of two up to 256; QEMU aborts above 1024"),
        ("vq_size=256", "vq_size=100", "vq_size is '100'; allowed: a power of two"),
        ("num_vqs=4", "num_vqs=257", "num_vqs is '257'; allowed: 1 to 256"),
        ("num_vqs=4", "num_vqs=17", "num_vqs is 17; allowed: up to 16, num_queues of vgcd's configuration"),
        ("chardev=c", "chardev=d", "its chardev is 'd'; allowed: the id of a -chardev socket"),
        ("-test-device", "-device", "the driver is vhost-user-device-pci, which no QEMU lets users create"),
        (
            ",bus=pcie.0,addr=0x1e",
            "",
            "its options are key=value, without bus and addr: QEMU gives it a slot that libvirt",
        ),
    ],
)
def test_a_device_line_that_was_edited_by_hand_is_told(old: str, new: str, message: str) -> None:
    assert any(message in error for error in errors(by_hand(BY_HAND.replace(old, new))))


@pytest.mark.parametrize(
    ("chardev", "message"),
    [
        ("socket,id=c,path=/run/vgcd/web1.sock,reconnect-ms=100", "it has reconnect-ms=100; allowed: no reconnect-ms"),
        ("socket,id=c,path=/run/vgcd/web1.sock,server=on", "it has server=on; allowed: no server"),
        ("socket,id=c,path=/run/vgcd/web1.sock,server,nowait", "it has server=on; allowed: no server"),
        ("socket,id=c,path=/run/vgcd/web1.sock,abstract=on", "its socket is abstract"),
        ("socket,id=c,host=localhost,port=1", "allowed: socket,id=...,path=..."),
        ("null,id=c", "allowed: socket,id=...,path=..."),
        (f"socket,id=c,path=/run/{'x' * 103}", "has 108 bytes; allowed: an absolute path of at most 107"),
        ("socket,id=c,path=vgcd.sock", "allowed: an absolute path"),
        (
            "socket,id=c,path=/run/vgcd/other.sock",
            "no VM of vgcd has the socket /run/vgcd/other.sock; its sockets: /run/vgcd/web1.sock",
        ),
    ],
)
def test_a_chardev_that_does_not_do_is_told(chardev: str, message: str) -> None:
    assert any(message in error for error in errors(by_hand(chardev=chardev)))


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("memory-backend-memfd,id=m,size=3M,share=on", "its size is 3 MiB; allowed: a power of two from 1 MiB on"),
        ("memory-backend-memfd,id=m,size=512K,share=on", "its size is 524288 bytes; allowed: a power of two"),
        (
            "memory-backend-memfd,id=m,size=32M,share=on",
            "the domain's region has 32 MiB; allowed: 64 MiB, region of vgcd's",
        ),
        ("memory-backend-memfd,id=m,size=64M,share=off", "its memory is private; allowed: share=on"),
        ("memory-backend-ram,id=m,size=64M", "its memory is private; allowed: share=on"),
        ("memory-backend-memfd,id=other,size=64M,share=on", "it has no size, or no memory of that id"),
    ],
)
def test_a_region_that_does_not_do_is_told(memory: str, message: str) -> None:
    assert any(message in error for error in errors(by_hand(memory=memory)))


def test_a_domain_without_a_region_is_told() -> None:
    line = '{"driver":"vhost-user-test-device-pci","chardev":"c","virtio-id":38,"num_vqs":4,"vq_size":256,"config_size":256}'
    rows = "".join(
        f"<qemu:arg value='{value}'/>"
        for value in ("-chardev", "socket,id=c,path=/run/vgcd/web1.sock", "-device", line)
    )
    text = plain(f"<qemu:commandline>{rows}</qemu:commandline>")
    assert "shares no region with the host; allowed: the region that `attach` adds, of 64 MiB" in the_error(text)
    known = [device(region_file="/dev/shm/vgc-web1")]
    assert "allowed: a <shmem> named vgc-web1, of 64 MiB" in the_error(text, known)


@pytest.mark.parametrize(
    ("name", "model", "size", "message"),
    [
        ("vgc-web1", "ivshmem-plain", 3, "its size is 3 MiB; allowed: a power of two"),
        ("vgc-web1", "ivshmem-plain", 128, "the domain's region has 128 MiB; allowed: 64 MiB"),
        ("vgc-web1", "ivshmem-doorbell", 64, "its model is ivshmem-doorbell; allowed: ivshmem-plain"),
        ("other", "ivshmem-plain", 64, "no region is the file /dev/shm/vgc-web1, region_file of vgcd's configuration"),
    ],
)
def test_a_shmem_that_does_not_do_is_told(name: str, model: str, size: int, message: str) -> None:
    wanted = device(region_file="/dev/shm/vgc-web1")
    made = attached(wanted)
    start, end = made.index("<shmem"), made.index("</shmem>") + len("</shmem>")
    text = made[:start] + SHMEM.format(name=name, model=model, size=size) + made[end:]
    assert any(message in error for error in errors(text, [wanted]))


def test_two_devices_at_one_socket_are_told() -> None:
    one = attached(device())
    end = one.index("</qemu:commandline>")
    rows = "".join(
        f"<qemu:arg value='{value}'/>"
        for value in ("-chardev", "socket,id=d,path=/run/vgcd/web1.sock", "-device", BY_HAND.replace("=c", "=d", 1))
    )
    found = errors(one[:end] + rows + one[end:])
    assert any(
        "2 devices are at the socket /run/vgcd/web1.sock; allowed: one at each socket" in error for error in found
    )


def test_ids_that_appear_twice_are_told() -> None:
    one = attached(device())
    start, end = one.index("<qemu:arg"), one.index("</qemu:commandline>")
    found = errors(one[:end] + one[start:end] + one[end:])
    assert any("2 options -chardev have the id vgc-web1; allowed: one of each id" in error for error in found)


def test_json_that_cannot_be_read_is_told() -> None:
    found = errors(by_hand('{"driver":"vhost-user-test-device-pci",'))
    assert "argument 7 of <qemu:commandline>, -device: the value is no JSON" in found[0]
    found = errors(by_hand(chardev='{"backend":"socket"}'))
    assert "argument 5 of <qemu:commandline>, -chardev: QEMU takes no JSON for -chardev" in found[0]


def test_an_argument_without_a_value_is_told() -> None:
    text = plain('<qemu:commandline><qemu:arg value="-device"/></qemu:commandline>')
    assert any("-device has no value" in error for error in errors(text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('type="kvm"', 'type="xen"', "its type is 'xen'; allowed: kvm or qemu"),
        ('arch="x86_64"', 'arch="aarch64"', "its architecture is aarch64; allowed: x86_64"),
        ("pc-q35-10.0", "microvm", "its machine is microvm, which has no PCI"),
    ],
)
def test_a_machine_that_the_device_does_not_go_into_is_told(old: str, new: str, message: str) -> None:
    assert any(message in error for error in errors(attached(device()).replace(old, new)))


def test_regions_of_one_size_of_which_libvirt_places_some_are_told() -> None:
    """The guest takes the n-th region for the n-th device, in the order of PCI addresses."""
    known = devices({"a": {}, "b": {"region_file": "/dev/shm/b"}})
    assert "VMs a, b have regions of 64 MiB, some in /dev/shm and some not" in the_error(attached(*known), known)


def test_regions_of_one_size_without_a_device_are_told() -> None:
    text = attached(device()).replace(
        "</devices>", SHMEM.format(name="x", model="ivshmem-plain", size=64) + "</devices>"
    )
    assert "2 regions have 64 MiB, for 1 devices with such a region" in the_error(text)


def test_a_domain_without_a_device_is_told() -> None:
    assert the_error(plain()) == "it has no device of vgcd"


def test_shared_ram_and_files_that_stay_are_warnings() -> None:
    known = [device(region_file="/dev/shm/vgc-web1")]
    text = attached(*known).replace("<devices>", '<memoryBacking><access mode="shared"/></memoryBacking><devices>')
    found = definition_check.findings(domain(text), known)
    assert all(finding.is_warning for finding in found)
    assert [finding.text.split(":")[0] for finding in found] == [
        "the guest's RAM is shared (memoryBacking)",
        "region 'vgc-web1'",
    ]
