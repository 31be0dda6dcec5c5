"""A data plane that dies over a request: run as a process of its own by test_last_words.

``python -m tests.unit.dying_plane BEHAVIOUR INFLIGHT_FD DEADLINE_NS KICKED``
"""

from __future__ import annotations

import dataclasses
import sys

from tests.fakes.graph import node, nodes_request
from tests.unit.plane_rig import LIMITS, plane_rig
from virtio_proto.schema import Opcode

LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1]}


def main(behaviour: str, inflight_fd: int, deadline_ns: int, *, kicked: bool) -> None:
    """Launch a null kernel of that behaviour in stream 1, behind another request that waits, and wait for it.

    With "graph-" in front the kernel is the last node of a graph.
    """
    in_graph, behaviour = behaviour.startswith("graph-"), behaviour.removeprefix("graph-")
    limits = dataclasses.replace(LIMITS, deadline_ns=deadline_ns)
    with plane_rig(limits, inflight_fd=inflight_fd) as rig:
        context = rig.context()
        ids = rig.load(context, f"kernel hold behaviour=hold\nkernel culprit behaviour={behaviour}")
        if behaviour != "hold":
            rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context, stream=2)
        launch = LAUNCH | {"function": ids["culprit"]}
        if in_graph:
            body, data = nodes_request([node(Opcode.NOP), node(Opcode.LAUNCH, launch)])
            graph = rig.ok(Opcode.GRAPH_CREATE, body, data, context=context).value
            pending = rig.driver.submit(Opcode.GRAPH_LAUNCH, {"graph": graph}, context=context, stream=1)
        else:
            pending = rig.driver.submit(Opcode.LAUNCH, launch, context=context, stream=1)
        if not kicked:
            rig.plane.set_kick(0, -1)
        rig.driver.wait(pending)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), kicked=sys.argv[4] == "True")
