"""`vgc trace`: what processes have written down, read, drawn and counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from guest_driver.trace import lines, perfetto, summary
from guest_driver.trace.lines import Trace
from virtio_proto.schema import Opcode

MS = 1_000_000


def request(start: int, end: int, *, opcode: int = Opcode.LAUNCH, queued: int = 0, run: int = 0, name: str = "") -> str:
    return f"request\t7\tvm\t2\t{int(opcode)}\t1\t{start}\t{end}\t{queued}\t{run}\t0\t{name}"


def traced(*words: str) -> Trace:
    trace = Trace()
    for line in words:
        trace.add(5, line)
    return trace


def test_files_of_all_processes_are_read(tmp_path: Path) -> None:
    (tmp_path / "5-0.trace").write_text(f"{request(10, 40, name='add')}\ncall\t7\t5\t50\tcuLaunchKernel\n\0\0\0")
    (tmp_path / "5-1.trace").write_text("\0\0sleep\t7\tvm\t2\t20\t30\n\0")
    (tmp_path / "6-0.trace").write_text("call\t6\t1\t2\tcuInit\ncall\t6\t3")  # killed in the middle of a line
    trace = lines.read(tmp_path)
    assert [(one.pid, one.kind, one.name, one.queue, one.stream) for one in trace.requests] == [
        (5, "LAUNCH", "add", 2, 1)
    ]
    assert [(call.pid, call.name) for call in trace.calls] == [(5, "cuLaunchKernel"), (6, "cuInit")]
    assert [(sleep.start_ns, sleep.end_ns) for sleep in trace.sleeps] == [(20, 30)]
    assert (trace.lost, trace.begins_ns()) == (1, 1)


def test_files_of_the_program_s_own_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "5-0.trace").write_text("call\t7\t5\t50\tcuInit\n")
    for name in ("notes.trace", "x-0.trace", "-1-0.trace", "5-0.trace.old", "\N{SUPERSCRIPT TWO}-0.trace"):
        (tmp_path / name).write_text("call\t7\t5\t50\tcuCtxCreate\n")
    (tmp_path / "6-0.trace").mkdir()
    (tmp_path / "7-0.trace").symlink_to(tmp_path / "5-0.trace")
    os.mkfifo(tmp_path / "8-0.trace")  # nobody would ever write into it
    assert [(call.pid, call.name) for call in lines.read(tmp_path).calls] == [(5, "cuInit")]


@pytest.mark.parametrize("number", [f"{2**64}", "9" * 400, "9" * 5000, "-" + "9" * 400, "nan", "1e3"])
def test_numbers_that_are_none_are_lines_without_sense(number: str) -> None:
    trace = traced(
        f"call\t7\t{number}\t2\tcuInit",
        f"sleep\t7\tvm\t2\t{number}\t2",
        request(1, 2, name="add").replace("\t7\t", f"\t{number}\t"),
    )
    assert trace.lost == 3
    assert list(perfetto.export(trace)) == []


@pytest.mark.parametrize(
    "line", ["", "call", "call\tx\t1\t2\tname", "request\t1", "sleep\t1\tvm\t0\t1\t2\t3", "other\t1"]
)
def test_lines_without_sense_are_counted(line: str) -> None:
    trace = traced(line)
    assert (trace.lost, list(trace.entries())) == (1, [])


def test_lines_that_had_no_room_are_told(tmp_path: Path) -> None:
    (tmp_path / "5-0.trace").write_text("call\t7\t5\t50\tcuInit\nlost\t7\n\0\0")
    (tmp_path / "6-0.trace").touch()  # none of its lines had room
    trace = lines.read(tmp_path)
    assert (trace.lost, trace.unwritten) == (0, 8)
    assert "8 lines or more are missing: there is no room in $TMPDIR" in summary.text(trace, 0)


def test_operations_of_a_later_version_have_numbers() -> None:
    assert traced(request(1, 2, opcode=0xFFF)).requests[0].kind == "0xfff"


def test_the_timeline_has_threads_requests_and_streams() -> None:
    trace = traced(
        "call\t7\t1000\t9000\tcuMemcpyDtoH_v2",
        "sleep\t7\tvm\t2\t3000\t8000",
        request(2000, 8500, queued=500, run=3000, name="add"),
        request(2100, 8600, queued=900, run=1000, name="scale"),
    )
    events = list(perfetto.export(trace))
    slices = {event["name"]: (event["ts"], event["dur"]) for event in events if event["ph"] == "X"}
    assert slices["cuMemcpyDtoH_v2"] == (0, 8)
    assert slices["sleep"] == (2, 5)
    assert slices["add"] == (1.5, 3)
    assert slices["scale"] == (4.5, 1)  # behind the one before it in its stream
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    ended = {event["id"]: event for event in events if event["ph"] == "e"}
    assert [(begun[i]["ts"], ended[i]["ts"], begun[i]["args"]["function"]) for i in begun] == [
        (1, 7.5, "add"),
        (1.1, 7.6, "scale"),
    ]
    labels = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert labels == {"process", "device vm", "stream 1 of process 5"}


def test_numbers_are_those_of_the_entries() -> None:
    trace = traced(
        *["call\t7\t0\t1000000\tcuLaunchKernel"] * 3,
        "call\t7\t0\t500000\tcuInit",
        request(1 * MS, 2 * MS, run=MS // 2, name="add"),
        request(2 * MS, 4 * MS, opcode=Opcode.ALLOC),
    )
    shown = summary.text(trace, 2).splitlines()
    assert shown[0].split() == ["number", "per", "step", "time"]
    assert shown[1].split() == ["calls", "of", "CUDA", "4", "2.0", "3.5", "ms", "cuLaunchKernel", "3,", "cuInit", "1"]
    assert shown[2].split() == ["requests", "2", "1.0", "3.0", "ms", "LAUNCH", "1,", "ALLOC", "1"]
    assert shown[3].split() == ["sleeps", "0", "0.0", "0.0", "ms"]
    assert shown[4].split() == ["on", "the", "device", "1", "0.5", "0.5", "ms", "add", "1"]
    assert "per step" not in summary.text(trace, 0)
    assert summary.numbers(trace)["calls_of_cuda"] == {
        "number": 4,
        "time_ns": 3_500_000,
        "names": {"cuLaunchKernel": 3, "cuInit": 1},
    }


def test_a_wait_that_goes_on_counts_once() -> None:
    """The driver looks at the device after 100 ms, and sleeps again."""
    trace = traced(
        f"sleep\t7\tvm\t2\t0\t{101 * MS}",
        f"sleep\t7\tvm\t2\t{101 * MS + 5000}\t{202 * MS}",
        f"sleep\t7\tvm\t2\t{202 * MS + 5000}\t{230 * MS}",
        f"sleep\t7\tvm\t2\t{230 * MS + 5000}\t{231 * MS}",
        f"sleep\t8\tvm\t2\t{230 * MS}\t{231 * MS}",
    )
    assert summary.numbers(trace)["sleeps"]["number"] == 3


def test_many_names_are_cut() -> None:
    trace = traced(*[f"call\t7\t0\t1\tcu{number}" for number in range(9)])
    assert summary.text(trace, 0).splitlines()[1].endswith(" and 3 more")
