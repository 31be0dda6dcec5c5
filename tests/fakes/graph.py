"""Nodes of graphs, as a driver writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from virtio_proto import schema
from virtio_proto.schema import Opcode


def node(opcode: int, body: Mapping[str, Any] | None = None, params: bytes = b"", *, deps: Sequence[int] = ()) -> bytes:
    """A node: header, dependencies, body (fields that are not given are 0) and parameters."""
    head = schema.GRAPH_NODE.construct.build({"opcode": opcode, "num_deps": len(deps)})
    indices = struct.pack(f"<{len(deps)}I", *deps)
    if opcode not in schema.BODIES or body is None:
        return bytes(head + indices + params)
    layout = schema.BODIES[Opcode(opcode)]
    values = schema.zeroes(layout)
    return bytes(head + indices + layout.construct.build(values | dict(body)) + params)


def nodes_request(nodes: Sequence[bytes], graph: int = 0) -> tuple[dict[str, int], bytes]:
    """Body and trailing bytes of a GRAPH_CREATE or, with a graph's id, of a GRAPH_UPDATE."""
    data = b"".join(nodes)
    return {"graph": graph, "num_nodes": len(nodes), "nodes_len": len(data)}, data
