"""The control system of a real worker process: channels opened, used and closed while kernels run."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.control_worker_rig import SOURCE, ControlWorkerRig, control_worker_rig
from tests.protocol.worker_rig import needs_walls, worker_rig
from tests.unit.cpu_rig import compile_ptx
from vhost_backend.channels import packets
from vhost_backend.worker_protocol.control_messages import (
    ControlClose,
    ControlConfine,
    ControlFirmware,
    ControlOpen,
    ControlSend,
    ControlSet,
    ControlSnapshot,
    ControlThreshold,
    Terms,
)
from vhost_backend.worker_protocol.protocol import SandboxMode
from virtio_proto.control.records import Function, Level
from virtio_proto.schema import Opcode


@pytest.fixture
def rig() -> Iterator[ControlWorkerRig]:
    with control_worker_rig() as made:
        yield made


@pytest.mark.parametrize("sandbox", ["off", pytest.param("strict", marks=needs_walls)])
def test_a_channel_opened_while_a_kernel_runs_receives_its_records(sandbox: SandboxMode) -> None:
    with control_worker_rig(sandbox=sandbox) as rig:
        functions = rig.load_source()
        pending = rig.run_gated(functions["speaks"])
        rig.set_gate(5)
        rig.wait_made(5)
        assert rig.open(Function.LOG, [1, 2], [0, 1]).ok
        rig.set_gate(8)
        rig.wait_made(8)
        rig.read_until(lambda: len(rig.seen.records(1) + rig.seen.records(2)) == 3)
        assert rig.release([1, 2]).ok
        rig.set_gate(10)
        rig.wait_made(10)
        rig.set_gate(-1)
        rig.finish(pending)
        assert rig.seen.lines(1) + rig.seen.lines(2) == [f"record {n} of speaks" for n in (5, 6, 7)]
        assert {rig.seen.last(n).lost for n in (1, 2)} == {0}
        assert sum(rig.seen.last(n).taken for n in (1, 2)) == 3


def test_unread_records_are_lost_and_counted(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    pending = rig.run_gated(functions["speaks"])
    assert rig.open(Function.LOG, [1, 2], [0, 1], slots=32).ok
    rig.set_gate(200_000)
    while rig.made() < 200_000:
        pass
    rig.set_gate(-1)
    rig.finish(pending)
    assert rig.release([1, 2]).ok
    lasts = [rig.seen.last(1), rig.seen.last(2)]
    assert sum(last.taken for last in lasts) == len(rig.seen.records(1) + rig.seen.records(2))
    assert sum(last.taken + last.lost for last in lasts) == 200_000


def test_unsent_records_of_a_dead_worker_can_be_salvaged(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    rig.run_gated(functions["speaks"])
    assert rig.open(Function.LOG, [1, 2], [0, 1], slots=1024).ok
    rig.set_gate(500)
    rig.wait_made(500)
    rig.process.kill()
    rig.process.wait()
    rig.read()
    had = {number: (rig.seen.last(number).taken if rig.seen.records(number) else 0) for number in (1, 2)}
    rest = [section for number in (1, 2) for section in rig.salvage(number, Function.LOG, number - 1, had[number])]
    rig.seen.sections += rest
    numbers = [record.sequence for number in (1, 2) for record in rig.seen.records(number)]
    assert sorted(numbers) == list(range(500)), "each once"


def test_typed_input_reaches_the_kernel_that_waits(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    assert rig.open(Function.STDIO, [1, 2], [0, 1], in_bytes=256, wait_ns=20 * 10**9).ok
    pending = rig.run_gated(functions["echoes"])
    wants = rig.read_until(lambda: rig.seen.records(1) + rig.seen.records(2))
    assert wants[0].kind == "wants"
    channel = wants[0].pe + 1
    assert rig.command(ControlSend, channel=channel, data=b"hello", eof=False).ok
    rig.finish(pending)
    rig.read_until(lambda: "got hello" in rig.seen.lines(channel))


def test_figures_have_names_and_gauges_have_thresholds() -> None:
    with control_worker_rig(pes=1) as rig:
        functions = rig.load_source()
        assert rig.open(Function.PERF, [1], [0], level=3, period_ns=5_000_000).ok
        rig.finish(rig.run(functions["figures"], struct.pack("<d", 1.0), blocks=64))
        assert rig.command(ControlThreshold, pes=(0,), name="heat", low=0.0, high=10.0).ok
        rig.finish(rig.run(functions["figures"], struct.pack("<d", 99.0), blocks=64))
        crossed = rig.read_until(lambda: [line for line in rig.seen.lines(1) if "crosses" in line])
        assert crossed == ["heat 99 crosses 10"]

        def latest() -> packets.ElementCounts | None:
            figures = [packet for packet in rig.seen.packets if isinstance(packet, packets.Figures)]
            return figures[-1].elements[-1] if figures else None

        def all_counted() -> packets.ElementCounts | None:
            counts = latest()
            return counts if counts is not None and sum(counts.counters.values()) == 2 * 64 * 3 else None

        counts = rig.read_until(all_counted)
        assert {rig.seen.texts[name] for name in counts.counters} == {"things"}
        assert {rig.seen.texts[name]: value for name, value in counts.gauges.items()} == {"heat": 99.0}


def test_kernels_of_ptx_modules_are_watched_as_others() -> None:
    module = """
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .b8 words[7] = {104, 105, 32, 37, 100, 10, 0};
.visible .entry prints()
{
    .local .align 8 .b8 values[8];
    .reg .b64 f, a;
    .reg .b32 x;
    mov.u32 x, %ctaid.x;
    st.local.u32 [values], x;
    cvta.global.u64 f, words;
    cvta.local.u64 a, values;
    { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], f; st.param.b64 [q], a; call (r), vprintf, (p, q); }
}
"""
    with control_worker_rig(pes=1) as rig:
        functions = rig.load_image(compile_ptx(module)[0])
        assert rig.open(Function.STDIO, [1], [0]).ok
        assert rig.open(Function.PERF, [2], [0], level=Level.INFO).ok
        rig.finish(rig.run(functions["prints"], blocks=3))
        assert rig.release([1, 2]).ok
        assert "".join(rig.seen.lines(1)) == "hi 0\nhi 1\nhi 2\n"
        blocks = [(record.type, record.block) for record in rig.seen.records(2) if record.type in (1, 2)]
        assert blocks == [(kind, block) for block in range(3) for kind in (1, 2)]


def test_a_snapshot_shows_the_running_kernel(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    pending = rig.run_gated(functions["speaks"])
    rig.set_gate(1)
    rig.wait_made(1)
    assert rig.command(ControlSnapshot, number=7, deadline_ms=1000).ok
    (snapshot,) = [packet for packet in rig.seen.packets if isinstance(packet, packets.Snapshot)]
    rig.set_gate(-1)
    rig.finish(pending)
    assert (snapshot.number, snapshot.num_pes, len(snapshot.states)) == (7, 2, 2)
    kernels = sorted(rig.seen.texts.get(state.kernel, "") for state in snapshot.states)
    assert kernels == ["", "speaks"]
    assert all(state.answered for state in snapshot.states)


def test_a_block_that_had_begun_before_its_element_was_watched_is_busy(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    pending = rig.run_gated(functions["speaks"])
    rig.set_gate(1)
    rig.wait_made(1)
    assert rig.open(Function.LOAD, [1, 2], [0, 1], period_ns=5_000_000).ok

    def busy() -> list[list[int]]:
        return [[record.words()[0] for record in rig.seen.records(number)] for number in (1, 2)]

    rig.read_until(lambda: any(len(set(times)) > 2 for times in busy()))
    rig.set_gate(-1)
    rig.finish(pending)
    ended = [len(times) for times in busy()]
    rig.read_until(lambda: all(len(times) > before + 1 for times, before in zip(busy(), ended, strict=True)))
    assert sorted(times[-1] > 0 for times in busy()) == [False, True], "one element ran it"
    assert busy() == [sorted(times) for times in busy()], "what was counted stays"


def test_confined_elements_take_no_blocks(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    assert rig.open(Function.LOAD, [1, 2], [0, 1], period_ns=5_000_000).ok
    assert rig.command(ControlConfine, pes=(1,)).ok
    rig.finish(rig.run(functions["figures"], struct.pack("<d", 0.0), blocks=200))

    def blocks() -> dict[int, int]:
        return {record.pe: record.words()[1] for number in (1, 2) for record in rig.seen.records(number)}

    rig.read_until(lambda: blocks().get(1) == 200)
    assert blocks()[0] == 0


def test_many_channels_open_work_and_close() -> None:
    functions = (Function.STDIO, Function.PERF, Function.LOG, Function.FAULT)
    with control_worker_rig(pes=64) as rig:
        names = rig.load_source()
        pending = rig.run_gated(names["speaks"])
        pes = range(64)
        for round_number, function in itertools.product(range(2), functions):
            first = 1 + 64 * function
            ack = rig.open(function, range(first, first + 64), pes)
            assert ack.ok, f"{round_number}: {ack.error}"
            if function is Function.FAULT:
                rig.set_gate(3 + round_number)
                rig.wait_made(3 + round_number)
                assert rig.release(range(1, 257)).ok
        rig.set_gate(-1)
        rig.finish(pending)
        log = range(1 + 64 * Function.LOG, 65 + 64 * Function.LOG)
        assert sum(len(rig.seen.records(number)) for number in log) == 4


REFUSED: list[tuple[type[Any], dict[str, Any], str]] = [
    (ControlOpen, {"pes": (2,), "channels": (1,), "generations": (1,)}, "processing element 2; allowed: 0..1"),
    (ControlOpen, {"pes": (0,), "channels": (1025,), "generations": (1,)}, "channel 1025; allowed: 1..1024"),
    (ControlOpen, {"pes": (0, 1), "channels": (1,), "generations": (1,)}, "[1, 2] elements, channels, generations"),
    (ControlClose, {"channels": (9,)}, "channel 9 is not open"),
    (ControlSet, {"channels": (9,), "level": 1, "sample": 0}, "channel 9 is not open"),
    (ControlSend, {"channel": 9, "data": b"hallo", "eof": False}, "channel 9 is not open"),
    (ControlThreshold, {"pes": (5,), "name": "x", "low": 0.0, "high": 1.0}, "element 5; allowed: 0..1"),
    (ControlConfine, {"pes": (7,)}, "processing element 7; allowed: 0..1"),
    (ControlFirmware, {"action": "activate", "slot": 1, "version": 0, "pes": (7,)}, "processing element 7"),
]


def test_impossible_commands_are_refused_and_disturb_nothing(rig: ControlWorkerRig) -> None:
    for kind, values, why in REFUSED:
        more = {"terms": Terms(Function.LOG, slots=8)} if kind is ControlOpen else {}
        ack = rig.command(kind, **(more | values))
        assert not ack.ok
        assert why in ack.error
    assert rig.open(Function.LOG, [1], [0]).ok
    assert rig.release([1]).ok


def test_bytes_that_are_no_firmware_are_refused(rig: ControlWorkerRig, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(SOURCE.encode())
    with image.open() as file:
        ack = rig.command(ControlFirmware, (file.fileno(),), action="stage", slot=1, version=2, pes=())
    assert not ack.ok
    assert re.search(r"image|ELF", ack.error)


def test_a_worker_without_an_area_refuses_channels() -> None:
    with worker_rig() as rig:
        ack = rig.post(ControlClose, channels=(1,))
        assert (ack.ok, ack.error) == (False, "the VM has no control system")


def test_the_governor_samples_functions_that_cost_too_much() -> None:
    with control_worker_rig(budget_ppm=1) as rig:
        functions = rig.load_source()
        assert rig.open(Function.LOG, [1, 2], [0, 1], slots=1024).ok
        pending = rig.run_gated(functions["speaks"])
        rig.set_gate(1 << 30)

        def coarsest() -> int:
            reports = (packet for packet in rig.seen.packets if isinstance(packet, packets.Samples))
            return max((sample for report in reports for _, _, sample in report.changes), default=0)

        rig.read_until(lambda: coarsest() > 1)
        rig.set_gate(-1)
        rig.finish(pending)
        assert rig.release([1, 2]).ok
        assert sum(rig.seen.last(number).skipped for number in (1, 2)) > 0


def test_texts_follow_the_loading_and_unloading_of_programs(rig: ControlWorkerRig) -> None:
    functions = rig.load_source()
    assert rig.open(Function.LOG, [1, 2], [0, 1]).ok
    pending = rig.run_gated(functions["speaks"])
    rig.set_gate(2)
    rig.wait_made(2)
    rig.set_gate(-1)
    rig.finish(pending)
    rig.driver.request(Opcode.CONTEXT_DESTROY, context=rig.guest_context)
    rig.read_until(lambda: len(rig.seen.records(1) + rig.seen.records(2)) == 2)
    assert sorted(rig.seen.lines(1) + rig.seen.lines(2)) == ["record 0 of speaks", "record 1 of speaks"]
