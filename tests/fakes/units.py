"""Programs of several sources, as a guest sends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtio_proto import schema


@dataclass(frozen=True, slots=True)
class Unit:
    """Source of a program of several."""

    name: str
    source: str | bytes
    """CUDA C, or what another compiler has made."""
    options: tuple[str, ...] = ()


def pack(units: Sequence[Unit]) -> bytes:
    """Program of kind ``CUDA_UNITS``."""
    head = schema.UNITS.construct.build({"num_units": len(units), "reserved": 0})
    entries, texts = [], []
    for unit in units:
        name = unit.name.encode()
        source = unit.source.encode() if isinstance(unit.source, str) else unit.source
        options = b"".join(option.encode() + b"\0" for option in unit.options)
        sizes = {"name_len": len(name), "options_len": len(options), "text_len": len(source)}
        entries.append(schema.UNIT.construct.build(sizes))
        texts.append(name + options + source)
    return head + b"".join(entries) + b"".join(texts)
