"""The control system of a real worker process whose engine is CUDA, on the fake GPU with the real control code."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import cuda_cubin, cuda_driver
from tests.protocol.control_worker_rig import ControlWorkerRig, control_worker_rig
from vhost_backend.channels.packets import DeviceState
from vhost_backend.engines.cuda.compiler.trailer import with_kinds
from vhost_backend.worker_protocol.protocol import EngineSetup
from virtio_proto.control.records import Function, Record

BLOCK_BEGIN, BLOCK_END = 1, 2
TRAP = 3
SM = 100
"""Number of an SM beyond the VM's number of processing elements: elements have the device's numbers."""


@pytest.fixture
def rig() -> Iterator[ControlWorkerRig]:
    pytest.importorskip("cuda.bindings.driver", reason="needs cuda-bindings")
    engine = EngineSetup("cuda", {"driver": str(cuda_driver.build())})
    with control_worker_rig(pes=48, engine=engine) as made:
        yield made


def test_records_of_an_sm_come_with_their_texts(rig: ControlWorkerRig) -> None:
    functions = rig.load_image(with_kinds(cuda_cubin.hooked(), b""))
    assert rig.open(Function.PERF, [1], [SM]).ok
    rig.finish(rig.run(functions["watched"], struct.pack("<IIQ", SM, 2, 0)))
    rig.read_until(lambda: len(blocks(rig)) == 4)
    assert rig.release([1]).ok
    assert [record.pe for record in blocks(rig)] == [SM] * 4
    assert {rig.seen.texts[record.words()[0]] for record in blocks(rig)} == {"watched"}
    assert (rig.seen.last(1).taken, rig.seen.last(1).lost) == (4, 0)


def blocks(rig: ControlWorkerRig) -> list[Record]:
    """Records of begins and ends of blocks."""
    return [record for record in rig.seen.records(1) if record.type in (BLOCK_BEGIN, BLOCK_END)]


def test_last_records_of_a_kernel_that_traps_outlive_its_worker(rig: ControlWorkerRig) -> None:
    functions = rig.load_image(with_kinds(cuda_cubin.hooked(), b""))
    assert rig.open(Function.STDIO, [1], [SM]).ok
    assert rig.open(Function.FAULT, [2], [SM]).ok
    rig.run(functions["traps"], struct.pack("<IIQ", SM, 3, 0x1000))
    rig.process.wait()
    rig.read()
    for channel, function in ((1, Function.STDIO), (2, Function.FAULT)):
        had = rig.seen.last(channel).taken if rig.seen.records(channel) else 0
        rig.seen.sections += rig.salvage(channel, function, SM, had)
    assert [(record.words(), record.block) for record in rig.seen.records(1)] == [((0x1000,), n) for n in range(3)]
    assert [record.payload for record in rig.seen.records(2)] == [struct.pack("<Q4s", TRAP, b"trap")]


def test_sms_whose_numbers_lie_behind_a_gap_are_seen(tmp_path: Path) -> None:
    """The range of SM numbers is known with the first program; the area has rows for more elements than SMs."""
    engine = EngineSetup("cuda", {"driver": str(cuda_driver.with_settings(tmp_path, "smid_base 20\n"))})
    with control_worker_rig(pes=48, engine=engine) as rig:
        functions = rig.load_image(with_kinds(cuda_cubin.hooked(), b""))
        assert rig.open(Function.PERF, [1], [20 + 120]).ok
        rig.finish(rig.run(functions["watched"], struct.pack("<IIQ", 120, 2, 0)))
        rig.read_until(lambda: len(blocks(rig)) == 4)
        assert {record.pe for record in blocks(rig)} == {20 + 120}
        told = rig.read_until(
            lambda: [
                packet.num_pes for packet in rig.seen.packets if isinstance(packet, DeviceState) and packet.num_pes
            ]
        )
        assert told[0] == 20 + 132


def test_an_element_that_the_device_has_no_number_for_is_refused(rig: ControlWorkerRig) -> None:
    """The area has rows for more elements than SMs, whose numbers may have gaps."""
    assert "allowed: 0..164" in rig.open(Function.PERF, [1], [165]).error
