"""Requests that each engine serves: every opcode of the wire, as docs/cuda.md says in its table."""

from __future__ import annotations

import re
import select
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes.graph import node, nodes_request
from tests.unit.cuda_rig import CUDA_LIMITS, fake_driver, plane
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from tests.waiting import until
from vhost_backend._dataplane import lib
from vhost_backend.engines.base import Engine
from vhost_backend.engines.cpu import CpuEngine
from virtio_proto import schema
from virtio_proto.schema import Opcode, Status

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "cuda.md"
ENGINES: Final = ("software GPU", "CUDA engine")
GRAPH_NODES: Final = (Opcode.NOP, Opcode.COPY_DEVICE, Opcode.FILL, Opcode.LAUNCH, Opcode.COPY_BOX)


def rig_of(stack: ExitStack, name: str) -> Rig:
    if name == "CUDA engine":
        driver = stack.enter_context(fake_driver())
        return stack.enter_context(plane(driver, CUDA_LIMITS, lib.VGC_CUDA_MEMORY))
    engine: Engine = CpuEngine(2)
    engine.start()
    return stack.enter_context(plane_rig(LIMITS, engine=engine))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, Rig]]:
    with ExitStack() as stack:
        yield request.param, rig_of(stack, request.param)


def status_of(rig: Rig, opcode: Opcode, context: int) -> Status:
    """Answer to a request whose body is zeroes, or that does nothing."""
    layout = schema.BODIES.get(opcode)
    body: dict[str, Any] = {} if layout is None else schema.zeroes(layout)
    if opcode is Opcode.CONTEXT_DESTROY:
        context = rig.context()
    data = b""
    if opcode is Opcode.PROGRAM_LOAD:
        body |= {"kind": schema.ProgramKind.CUDA_SOURCE, "source_len": 1}  # which is not there
    if opcode is Opcode.GRAPH_CREATE:
        body, data = nodes_request([node(Opcode.NOP)])
    if opcode is Opcode.CONTEXT_CREATE:
        return rig.driver.request(opcode).status
    return answer(rig, rig.driver.submit(opcode, body or b"", data, context=context, writable_len=1024))


def answer(rig: Rig, pending: Any) -> Status:
    """Waits for an answer, also of what Python serves: on the test's thread."""

    def is_answered() -> bool:
        if select.select([rig.plane.notify_fd], [], [], 0)[0]:
            rig.serve_cold()
        rig.driver.queues[0].poll()
        return pending.reply is not None

    until(is_answered)
    return Status(pending.reply.status)


def table() -> dict[str, dict[str, str]]:
    """The page's rows: what it says of each engine, by opcode."""
    text = PAGE.read_text()
    rows = re.findall(r"^\| ([A-Z_ ]+) \| (\w[^|]*) \| (\w[^|]*) \|$", text, flags=re.MULTILINE)
    return {
        opcode: dict(zip(ENGINES, (cpu.strip(), cuda.strip()), strict=True))
        for names, cpu, cuda in rows
        for opcode in names.split()
    }


def test_the_page_names_every_opcode_once() -> None:
    assert sorted(table()) == sorted(opcode.name for opcode in Opcode)


def test_engines_serve_what_the_page_says(engine: tuple[str, Rig]) -> None:
    name, rig = engine
    context = rig.context()
    served = {opcode.name: status_of(rig, opcode, context) is not Status.UNSUPPORTED for opcode in Opcode}
    assert served == {opcode: says[name].startswith("yes") for opcode, says in table().items()}


def test_graphs_hold_the_same_operations_on_all_engines(engine: tuple[str, Rig]) -> None:
    """Nodes that name nothing are refused as their requests are, and not as operations that no graph holds."""
    _, rig = engine
    context = rig.context()
    for opcode in GRAPH_NODES:
        body, data = nodes_request([node(opcode, None if opcode is Opcode.NOP else {})])
        reply = rig.driver.request(Opcode.GRAPH_CREATE, body, data, context=context, writable_len=1024)
        assert reply.status not in (Status.UNSUPPORTED, Status.BAD_REQUEST), (opcode, reply.text)
