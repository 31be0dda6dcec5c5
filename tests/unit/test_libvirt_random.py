"""Random definitions of domains: attaching and detaching lose nothing, add nothing else, and keep the order."""

from __future__ import annotations

import os
from random import Random
from typing import Final

import pytest
from lxml import etree

from tests.unit.libvirt_rig import devices, domain
from vgc_libvirt.device import Device

DOCUMENTS: Final = int(os.environ.get("VGC_RANDOM_DOMAINS", "400"))
_PER_TEST: Final = 100
_QEMU: Final = 'xmlns:{}="http://libvirt.org/schemas/domain/qemu/1.0"'
_TEXTS: Final = (
    "",
    " ",
    "\n  ",
    "\n\n\t",
    "kept",
    " kept &amp; &lt;kept&gt; ",
    '<![CDATA[<qemu:arg value="&quot;\'">]]>',
)
_ASIDES: Final = (
    "<!-- kept -->",
    '<!--<qemu:arg value="a&quot;b"/>-->',
    '<?kept <qemu:arg value="&quot;"?>',
    "<!---->",
)
_VALUES: Final = (
    "-s",
    "-append",
    "a=&quot;b&quot;",
    "it's &quot;so&quot;",
    "ü,,\U0001f600",
    "-device",
    "--device",
    "",
    "{&quot;",
    "&#10;",
)
_DEVICES: Final = (
    "<disk/>",
    '<disk type="file"><source file="/a"/></disk>',
    '<shmem name="x"><model type="ivshmem-plain"/></shmem>',
    '<d:disk xmlns:d="urn:d" d:a="&#9;"/>',
)
VMS: Final = devices(
    {"a": {}, "b": {"region": "128M"}, "c": {"region_file": "/dev/shm/c"}, "d": {"region_file": "/r/d"}}
)


class Writer:
    """Writes definitions as people, programs and enemies might."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def definition(self) -> str:
        prefix = self._random.choice(("qemu", "q", ""))
        is_local = not prefix or self._random.random() < 0.3
        space = _QEMU.format(prefix).replace("xmlns:=", "xmlns=")
        lines = [
            self._command_line(prefix, space if is_local else "") for _ in range(self._random.choice((0, 1, 1, 1, 2)))
        ]
        parts = [self._element("name", "a"), self._element("devices", self._among(_DEVICES)), *lines]
        self._random.shuffle(parts)
        body = self._text() + "".join(part + self._text() for part in parts)
        head = self._random.choice(("", "<?xml version='1.0'?>", '<?xml version="1.0" encoding="UTF-8"?>\n'))
        return f"{head}{self._aside()}<domain type='kvm' {'' if is_local else space}>{body}</domain>{self._aside()}\n"

    def _command_line(self, prefix: str, space: str) -> str:
        colon = f"{prefix}:" if prefix else ""
        names = [f'<{colon}arg value="{value}"/>' for value in _VALUES] + [f'<{colon}env name="A" value="b"/>'] * 3
        return f"<{colon}commandline {space}>{self._among(names)}</{colon}commandline>"

    def _element(self, name: str, body: str) -> str:
        return f"<{name}>{body}</{name}>"

    def _among(self, elements: tuple[str, ...] | list[str]) -> str:
        chosen = self._random.choices(elements, k=self._random.randrange(6))
        return self._text() + "".join(one + self._aside() + self._text() for one in chosen)

    def _aside(self) -> str:
        return self._random.choice(_ASIDES) if self._random.random() < 0.2 else ""

    def _text(self) -> str:
        return self._random.choice(_TEXTS)

    def vms(self) -> list[Device]:
        return self._random.sample(VMS, self._random.randrange(1, len(VMS) + 1))


def nodes(text: str) -> list[str]:
    """Elements, comments and instructions of a document in their order, with all text in the end, without white space.

    Command lines themselves are left out: an empty one goes with its last argument.
    """
    root = etree.fromstring(text.encode())
    found = [*reversed([*root.itersiblings(preceding=True)]), *root.iter(), *root.itersiblings()]
    lines = [f"{len([*node.iterancestors()])} {node.tag} {_own(node)}" for node in found]
    return [line for line in lines if "}commandline " not in line] + [
        "".join("".join(map(str, root.itertext())).split())
    ]


def _own(node: etree._Element) -> str:
    return str(sorted(node.attrib.items())) if isinstance(node.tag, str) else node.text or ""


@pytest.mark.parametrize("first", range(0, DOCUMENTS, _PER_TEST))
def test_nothing_else_of_a_random_definition_changes(first: int) -> None:
    for seed in range(first, first + _PER_TEST):
        writer = Writer(seed)
        text = writer.definition()
        made = domain(text)
        before, arguments = made.text(), made.arguments()
        assert nodes(before) == nodes(text), seed
        assert [aside for aside in (*_ASIDES, "<![CDATA[") if before.count(aside) != text.count(aside)] == [], seed
        chosen = writer.vms()
        for vm in chosen:
            made.attach(vm)
        after = made.text()
        assert domain(after).arguments() == [*arguments, *(word for vm in chosen for word in vm.command_line())], seed
        again = domain(after)
        for vm in sorted(chosen, key=lambda vm: vm.vm):
            again.detach(vm)
        assert nodes(again.text()) == nodes(before), (seed, text)
