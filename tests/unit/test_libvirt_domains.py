"""Devices in definitions of domains: everything else of them stays as it was, in its order."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
from lxml import etree

from tests.unit.libvirt_rig import Definition, definitions, device, devices, domain, is_valid, plain
from vgc_libvirt import domain as definition
from vgc_libvirt.device import Device, RegionKind
from vgc_libvirt.domain import Domain
from vgc_libvirt.errors import DomainError

DEFINITIONS = list(definitions())
SHMEM = "/dev/shm/vgc-web1"


def lines(text: str) -> list[str]:
    """Nodes of a document in their order, with their depths, attributes and texts; white space between elements left out."""
    root = etree.fromstring(text.encode())
    return [
        f"{len(list(node.iterancestors()))} {node.tag} {sorted(node.attrib.items())} {(node.text or '').strip()} {(node.tail or '').strip()}"
        for node in root.getroottree().getroot().iter()
    ]


def added(before: str, after: str) -> list[str]:
    """Lines of `after` that are new.

    :raise AssertionError: a line of `before` is missing, or has changed its place.
    """
    old, new = lines(before), lines(after)
    found = []
    for kind, from_old, to_old, from_new, to_new in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        assert kind in ("equal", "insert"), (old[from_old:to_old], new[from_new:to_new])
        found += new[from_new:to_new] if kind == "insert" else []
    return found


def attached(text: str, *wanted: Device) -> str:
    made = domain(text)
    for one in wanted:
        made.attach(one)
    return made.text()


def detached(text: str, *wanted: Device) -> str:
    made = domain(text)
    for one in wanted:
        made.detach(one)
    return made.text()


def test_there_are_forty_definitions_and_libvirt_knows_all_their_elements() -> None:
    assert len(DEFINITIONS) == 40
    assert [one.name for one in DEFINITIONS if not is_valid(one.text)] == []


@pytest.mark.parametrize("given", DEFINITIONS, ids=lambda one: one.name)
@pytest.mark.parametrize("file", [None, SHMEM, "/srv/regions/web1"])
def test_attaching_adds_the_device_and_changes_nothing_else(given: Definition, file: str | None) -> None:
    wanted = device(**({} if file is None else {"region_file": file}))
    after = attached(given.text, wanted)
    new = added(given.text, after)
    values = [f"('value', {value!r})" for value in wanted.command_line()]
    arguments = [line for line in new if "}arg " in line]
    assert [value for value, line in zip(values, arguments, strict=True) if value in line] == values
    assert len([line for line in new if " shmem [" in line]) == (wanted.kind is RegionKind.SHMEM)
    others = [line for line in new if "}arg " not in line and "}commandline" not in line]
    assert len(others) == (3 if wanted.kind is RegionKind.SHMEM else 0)
    assert is_valid(after)


@pytest.mark.parametrize("given", DEFINITIONS, ids=lambda one: one.name)
def test_detaching_gives_back_the_definition_byte_by_byte(given: Definition) -> None:
    before = domain(given.text).text()
    for wanted in (device(), device(region_file=SHMEM)):
        assert detached(attached(given.text, wanted), wanted) == before


@pytest.mark.parametrize("given", DEFINITIONS, ids=lambda one: one.name)
def test_devices_of_several_vms_are_removed_in_any_order(given: Definition) -> None:
    one, two, three = devices({"a": {}, "b": {"region": "128M"}, "c": {"region_file": "/dev/shm/c"}})
    after = attached(given.text, one, two, three)
    assert [found.socket for found in domain(after).devices()] == [one.socket, two.socket, three.socket]
    assert is_valid(after)
    assert detached(after, two, three, one) == domain(given.text).text()


@pytest.mark.parametrize("given", DEFINITIONS, ids=lambda one: one.name)
def test_a_definition_is_written_as_it_was(given: Definition) -> None:
    """How quotes are written, and the order of names in the first element, are XML's affair."""
    before, after = (one.replace("&quot;", '"').replace("'", '"') for one in (given.text, domain(given.text).text()))
    assert after.partition("<name>")[2] == before.partition("<name>")[2]
    assert ("AUTO-GENERATED" in after, "<?xml" in after) == ("AUTO-GENERATED" in before, "<?xml" in before)


def test_devices_are_json_behind_all_other_arguments() -> None:
    given = next(one for one in DEFINITIONS if one.name == "with_command_line-written")
    values = domain(attached(given.text, device())).arguments()
    assert values[:3] == ["-s", "-fw_cfg", "name=opt/org.example/answer,string=42,,43"]
    assert [json.loads(value)["driver"] for value in values if value.startswith('{"driver"')][1:] == [
        "ivshmem-plain",
        "vhost-user-test-device-pci",
    ]


def test_commas_in_a_sockets_path_reach_qemu() -> None:
    wanted = device(socket="/run/vgcd/a,b.sock")
    (found,) = domain(attached(plain(), wanted)).devices()
    assert found.socket == Path("/run/vgcd/a,b.sock")
    assert "path=/run/vgcd/a,,b.sock" in wanted.command_line()[5]


def test_a_region_is_memory_without_a_file_unless_the_configuration_names_one() -> None:
    regions = [domain(attached(plain(), device(**settings))).regions() for settings in ({}, {"region_file": SHMEM})]
    assert [(region.file, region.size_bytes) for (region,) in regions] == [(None, 64 << 20), (Path(SHMEM), 64 << 20)]


def test_a_device_is_attached_once() -> None:
    after = attached(plain(), device())
    with pytest.raises(
        DomainError, match=r"has a device at /run/vgcd/web1.sock already; allowed: one device at each socket"
    ):
        attached(after, device())


def test_an_id_that_something_else_has_is_refused() -> None:
    body = '<qemu:commandline><qemu:arg value="-chardev"/><qemu:arg value="null,id=vgc-web1"/></qemu:commandline>'
    with pytest.raises(DomainError, match="another option -chardev with the id vgc-web1"):
        attached(plain(body), device())


def test_a_shmem_of_the_same_name_is_refused() -> None:
    text = plain().replace(
        "</devices>", '<shmem name="vgc-web1"><model type="ivshmem-plain"/><size unit="M">64</size></shmem></devices>'
    )
    with pytest.raises(DomainError, match="has a <shmem> named vgc-web1 already"):
        attached(text, device(region_file=SHMEM))


def test_a_device_that_is_not_there_cannot_be_detached() -> None:
    with pytest.raises(
        DomainError, match=r"no device at /run/vgcd/b.sock, the socket of VM b; its devices are at: /run/vgcd/web1.sock"
    ):
        detached(attached(plain(), device()), device("b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: web1", "is no XML: Start tag expected.* allowed: the XML of one domain, as `virsh dumpxml"),
        ("", "is no XML"),
        ("<domain><name>a</name>", "is no XML: .*line 1"),
        ("<network><name>a</name></network>", "root element <network>"),
        ("<domain><devices/></domain>", "no <name> or no <devices>"),
        ("<domain><name>a</name></domain>", "no <name> or no <devices>"),
        ("\0", "is no XML"),
    ],
)
def test_what_is_no_domain_is_refused(text: str, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        domain(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_a_document_type_is_refused_and_its_entities_with_it(encoding: str) -> None:
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    text = head + '<!DOCTYPE domain [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + plain("<title>&x;</title>")
    with pytest.raises(DomainError, match=r"has a document type; allowed: the XML of one domain.*, without one"):
        Domain.parse(text.encode(encoding), "test.xml")


def test_entities_that_grow_are_refused() -> None:
    rows = ['<!ENTITY x0 "0123456789">', *(f'<!ENTITY x{n} "{f"&x{n - 1};" * 10}">' for n in range(1, 10))]
    text = f"<!DOCTYPE domain [{''.join(rows)}]>" + plain('<title a="&x9;">&x9;</title>')
    with pytest.raises(DomainError, match=r"is no XML|has a document type"):
        domain(text)


def test_arguments_go_behind_all_others_wherever_these_are() -> None:
    """The first half of an option may stand before, and its value behind, what has no place there."""
    body = (
        '<qemu:commandline><qemu:arg value="-device"/></qemu:commandline>'
        '<qemu:commandline><qemu:env name="A"/><qemu:arg value="edu"/><qemu:env name="B"/></qemu:commandline>'
    )
    after = domain(attached(plain(body), device()))
    assert after.arguments() == ["-device", "edu", *device().command_line()]
    assert detached(after.text(), device()) == domain(plain(body)).text()


def test_quotes_of_an_argument_are_written_in_time_that_is_in_proportion_to_it() -> None:
    value = "&quot;" * 300_000 + "'"
    after = attached(plain(f'<qemu:commandline><qemu:arg value="{value}"/></qemu:commandline>'), device())
    assert f'"{value}"' in after


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="cannot be read: No such file or directory"):
        list(definition.definitions([tmp_path / "none.xml"]))


def test_parts_have_all_that_a_domain_needs() -> None:
    root = etree.fromstring(definition.parts(devices({"a": {}, "b": {"region_file": SHMEM}})).encode())
    assert [element.get("name") for element in root.iterfind("devices/shmem")] == ["vgc-web1"]
    assert len(root.findall("{*}commandline/{*}arg")) == 8 + 4
