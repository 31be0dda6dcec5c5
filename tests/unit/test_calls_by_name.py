"""Calls by name in libvgc: registrations, the choice of the side, and going on on the CPU."""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver._lib import check, ffi, lib, text
from tests.fakes.device import SILENCE, Answer, Ask, FakeDevice, FakeFunction
from tests.fakes.guest import GuestProcess, open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake, link
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake", "link"]

CPU, HOST = lib.VGC_SIDE_CPU, lib.VGC_SIDE_HOST
WHY: Final = {
    number: name.removeprefix("VGC_WHY_") for name, number in ffi.typeof("enum vgc_choice_reason").relements.items()
}


@pytest.fixture(autouse=True)
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VGC_CHOICE_FILE", str(tmp_path / "choice"))
    monkeypatch.delenv("VGC_SIDE", raising=False)
    return tmp_path / "choice"


@dataclass
class Table:
    """Functions by name of a device, through libvgc's own calls."""

    pointer: Any
    keep: list[Any] = field(default_factory=list)

    def register(self, name: str | bytes, function: Callable[[list[Any]], int] | None = None) -> None:
        """Registers a function of the buffers, or one that only its caller runs."""

        def call(_user: Any, _geometry: Any, args: Any, num_args: int) -> int:
            assert function is not None
            return function([ffi.buffer(args[i].data, args[i].size) for i in range(num_args)])

        pointer = ffi.NULL if function is None else ffi.callback("vgc_local_call", call)
        self.keep.append(pointer)
        check(lib.vgc_local_register(self.pointer, _name(name), pointer, ffi.NULL))

    def unregister(self, name: str) -> None:
        check(lib.vgc_local_unregister(self.pointer, name.encode()))

    def rules(self, rules: str) -> None:
        check(lib.vgc_choice_rules(self.pointer, rules.encode()))

    def choose(self, name: str | bytes, size: int = 1024, **options: Any) -> Any:
        choice = ffi.new("struct vgc_choice *")
        check(lib.vgc_choose(self.pointer, _name(name), ffi.NULL, 0, _options(size=size, **options), choice))
        return choice

    def end(self, name: str, choice: Any, took_ns: int, result: int = lib.VGC_OK) -> bool:
        return bool(lib.vgc_choice_end(self.pointer, name.encode(), choice, result, took_ns))

    def call(self, name: str | bytes, buffers: Sequence[tuple[int, Any]] = (), **options: Any) -> Any:
        args = ffi.new("struct vgc_arg[]", len(buffers))
        for arg, (direction, data) in zip(args, buffers, strict=True):
            arg.direction, arg.size, arg.data = direction, len(data), ffi.from_buffer(data)
        choice = ffi.new("struct vgc_choice *")
        chosen = _options(**options)
        check(lib.vgc_call_named(self.pointer, _name(name), ffi.NULL, args, len(buffers), chosen, choice))
        return choice

    def learn(self, name: str, times: dict[int, tuple[int, int]], rounds: int = 20) -> None:
        """Calls a function with each size, which takes these nanoseconds on the host and on the CPU."""
        for _ in range(rounds):
            for size, (host_ns, cpu_ns) in times.items():
                choice = self.choose(name, size)
                self.end(name, choice, host_ns if choice.side == HOST else cpu_ns)

    def rows(self, name: str) -> list[Any]:
        rows, count = ffi.new("struct vgc_choice_row[128]"), ffi.new("uint32_t *")
        check(lib.vgc_choice_rows(self.pointer, name.encode(), rows, 128, count))
        return [rows[i] for i in range(count[0])]


def _name(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def _options(**options: Any) -> Any:
    filled = ffi.new("struct vgc_choice_options *")
    for key, value in options.items():
        setattr(filled, key, value)
    return filled


def told(choice: Any) -> tuple[int, str]:
    return choice.side, WHY[choice.why]


@pytest.fixture
def table(dev: vgc.Device, fake: FakeDevice) -> Table:
    fake.functions = [FakeFunction("reverse", call=lambda buffers: [buffer[::-1] for buffer in buffers])]
    return Table(dev._handle.pointer)


def opposite(buffers: list[Any]) -> int:
    """Local version of a function: the complement of each byte."""
    for buffer in buffers:
        buffer[:] = bytes(255 - byte for byte in buffer[:])
    return 0


INOUT, OUT = lib.VGC_ARG_INOUT, lib.VGC_ARG_OUT


# ---- names ---------------------------------------------------------------------------------------


def test_name_that_is_taken_is_refused_until_it_is_given_up(table: Table) -> None:
    table.register("reverse")
    with pytest.raises(vgc.InvalidArgument, match="'reverse' is registered already: unregister it first"):
        table.register("reverse")
    table.unregister("reverse")
    table.register("reverse")


def test_name_that_is_not_registered_is_named(table: Table) -> None:
    with pytest.raises(vgc.NotFound, match="no local function 'reverse'"):
        table.unregister("reverse")
    with pytest.raises(vgc.NotFound, match="no local function 'reverse'"):
        table.choose("reverse", side=CPU)


@pytest.mark.parametrize("size", [0, 1025, 1 << 20])
def test_names_of_wrong_lengths_are_refused(table: Table, fake: FakeDevice, size: int) -> None:
    name = b"x" * size
    for use in (table.register, table.choose, table.call):
        with pytest.raises(vgc.InvalidArgument, match=f"a function name of {size} bytes; allowed: 1 to 1024"):
            use(name)
    assert Opcode.CALL not in fake.opcodes()


@pytest.mark.usefixtures("fake")
def test_longest_and_oddest_names_are_kept(link: GuestLink, tmp_path: Path, times: Path) -> None:
    names = ["x" * 1024, "a b", "50%", "line\nbreak", "tür", "\x01", "#"]
    for second in (False, True):
        with open_device(link, tmp_path) as dev:
            table = Table(dev._handle.pointer)
            for name in names:
                table.register(name)
                assert (table.rows(name) != []) == second
                table.learn(name, {64: (1000, 50)}, 4)
    assert len(times.read_text().splitlines()) == len(names)


def test_many_functions_are_told_apart(table: Table) -> None:
    for i in range(10_000):
        table.register(f"function {i}")
    with pytest.raises(vgc.InvalidArgument, match="'function 7777' is registered"):
        table.register("function 7777")
    table.unregister("function 5000")
    assert told(table.choose("function 4999", side=CPU)) == (CPU, "FORCED")
    with pytest.raises(vgc.NotFound, match="'function 5000'"):
        table.choose("function 5000", side=CPU)


# ---- sides ---------------------------------------------------------------------------------------


def test_forced_side_does_the_work(table: Table) -> None:
    table.register("reverse", opposite)
    for side, expected in ((HOST, b"cba"), (CPU, bytes(255 - byte for byte in b"abc"))):
        data = bytearray(b"abc")
        assert told(table.call("reverse", [(INOUT, data)], side=side)) == (side, "FORCED")
        assert data == expected


def test_function_of_one_side_is_called_there(table: Table) -> None:
    data = bytearray(b"abc")
    assert told(table.call("reverse", [(INOUT, data)])) == (HOST, "ONLY")
    assert data == b"cba"
    table.register("own", opposite)
    table.call("own", [(INOUT, data)])
    assert told(table.call("own", [(INOUT, data)])) == (CPU, "ONLY")
    assert data == b"cba", "twice the complement"


def test_host_that_lacks_a_function_is_not_asked_again_until_a_program_is_loaded(
    table: Table, dev: vgc.Device, fake: FakeDevice
) -> None:
    table.register("own", opposite)
    for _ in range(20):
        assert not table.call("own").fell_back
    assert fake.opcodes().count(Opcode.CALL) == 1
    fake.functions.append(FakeFunction("own"))
    dev.compile("source")
    assert table.call("own").side == HOST
    with pytest.raises(vgc.NotFound):
        table.call("none at all", side=HOST)


def test_output_buffers_begin_with_zeros_on_both_sides(table: Table) -> None:
    seen = []

    def look(buffers: list[Any]) -> int:
        seen.append(bytes(buffers[0][:]))
        return 0

    table.register("reverse", look)
    table.call("reverse", [(OUT, bytearray(b"xyz"))], side=CPU)
    assert seen == [bytes(3)]


def test_local_function_that_fails_ends_the_call_and_is_no_measurement(table: Table) -> None:
    table.register("own", lambda _: 7)
    with pytest.raises(vgc.LaunchFailed, match="'own' has failed: it returned 7"):
        table.call("own", side=CPU)
    assert table.rows("own") == []


def test_local_function_may_call_and_register_others(table: Table) -> None:
    def outer(buffers: list[Any]) -> int:
        table.register("inner", opposite)
        table.call("inner", [(INOUT, buffers[0])], side=CPU)
        table.unregister("outer")
        return 0

    table.register("outer", outer)
    data = bytearray(b"\x00\xff")
    table.call("outer", [(INOUT, data)], side=CPU)
    assert data == b"\xff\x00"


def test_local_function_that_does_not_return_holds_nobody_up(table: Table) -> None:
    begun, ends = threading.Event(), threading.Event()

    def stay(_: list[Any]) -> int:
        begun.set()
        ends.wait()
        return 0

    table.register("stay", stay)
    thread = threading.Thread(target=lambda: table.call("stay", side=CPU))
    thread.start()
    begun.wait()
    table.register("reverse", opposite)
    table.call("reverse", [(INOUT, bytearray(8))])
    table.unregister("stay")
    ends.set()
    thread.join()


def test_threads_that_register_and_call_do_not_disturb_each_other(table: Table) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(300):
                table.register(f"{number} {i}", opposite)
                data = bytearray(4)
                table.call(f"{number} {i}", [(INOUT, data)], side=CPU)
                assert data == b"\xff" * 4
                table.choose("shared")
                if i % 3 == 0:
                    table.unregister(f"{number} {i}")
        except BaseException as error:  # noqa: BLE001  told by the test's own thread
            failures.append(error)

    table.register("shared")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_without_a_device_functions_run_here() -> None:
    table = Table(ffi.NULL)
    table.register("no device", opposite)
    data = bytearray(b"\x0f")
    assert told(table.call("no device", [(INOUT, data)])) == (CPU, "ONLY")
    assert data == b"\xf0"
    with pytest.raises(vgc.NotFound, match="'other' is registered, and there is no device"):
        table.call("other")
    with pytest.raises(vgc.NoDevice):
        table.call("no device", side=HOST)
    table.unregister("no device")


@pytest.mark.usefixtures("fake")
def test_child_of_a_fork_runs_local_functions(link: GuestLink, tmp_path: Path) -> None:
    script = """
import os
from guest_driver._lib import check, ffi, lib
called = []
function = ffi.callback("vgc_local_call", lambda *_: called.append(os.getpid()) or 0)
check(lib.vgc_local_register(dev._handle.pointer, b"own", function, ffi.NULL))
child = os.fork()
choice = ffi.new("struct vgc_choice *")
check(lib.vgc_call_named(dev._handle.pointer, b"own", ffi.NULL, ffi.NULL, 0, ffi.NULL, choice))
if child == 0:
    os._exit(0 if called == [os.getpid()] and choice.side == lib.VGC_SIDE_CPU else 1)
say(str(os.waitpid(child, 0)[1]))
"""
    with GuestProcess(link, tmp_path, script) as process:
        process.expect("0")
        assert process.wait() == 0


# ---- rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "side"),
    [
        ("cpu", CPU),
        ("host", HOST),
        ("gpu", HOST),
        ("sax*=cpu,host", CPU),
        ("say*=cpu,host", HOST),
        ("saxpy=cpu:bytes<1K", HOST),
        ("saxpy=cpu:bytes<2K", CPU),
        ("saxpy=cpu:bytes>=1K:bytes<1M", CPU),
        ("saxpy=cpu:bytes>=1025,host", HOST),
        ("*=cpu:type=float32,host", CPU),
        ("*=cpu:type=float64,host", HOST),
        ("s[a-c]x??=cpu", CPU),
    ],
)
def test_first_rule_that_applies_names_the_side(table: Table, rules: str, side: int) -> None:
    table.register("saxpy")
    kind = ffi.new("char[]", b"float32")
    table.rules(rules + ",host")
    assert told(table.choose("saxpy", 1024, type=kind)) == (side, "RULE")
    found = ffi.new("uint32_t *")
    check(lib.vgc_choice_rule((rules + ",host").encode(), b"saxpy", 1024, kind, found))
    assert found[0] == side


def test_users_rules_come_before_the_programs(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_SIDE", "saxpy=cpu")
    table.register("saxpy")
    table.register("other")
    table.rules("gpu")
    assert told(table.choose("saxpy")) == (CPU, "RULE")
    assert told(table.choose("other")) == (HOST, "RULE")
    table.rules("auto")
    assert told(table.choose("other"))[1] == "TRIED"


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("gpo", "'gpo' is no side; allowed: cpu, gpu, host, auto"),
        ("a=cpu,b=", "'' is no side"),
        ("a=cpu:bytes>4", "'bytes>4' is no condition; allowed: bytes>=N, bytes<N"),
        ("a=cpu:bytes<1KiB", "'bytes<1KiB' is no condition"),
        ("a=cpu:bytes<99999999999999999999", "is no condition"),
        ("a=cpu:bytes<99999999999G", "is no condition"),
        ("a=cpu:", "'' is no condition"),
        ("x" * 256 + "=cpu", "a pattern of 256 bytes; allowed: 255"),
        (",".join(["a=cpu"] * 49), "more than 48 rules"),
    ],
)
def test_rules_that_are_none_are_named(table: Table, monkeypatch: pytest.MonkeyPatch, rules: str, problem: str) -> None:
    with pytest.raises(vgc.InvalidArgument, match=problem):
        table.rules(rules)
    table.rules("cpu")
    monkeypatch.setenv("VGC_SIDE", rules)
    with pytest.raises(vgc.InvalidArgument, match=problem):
        Table(ffi.NULL if "49" in problem else table.pointer).rules("")


def test_rule_for_a_side_that_lacks_the_function_is_passed_over(table: Table) -> None:
    table.rules("cpu")
    assert told(table.call("reverse", [(INOUT, bytearray(4))])) == (HOST, "ONLY")


# ---- measured times ------------------------------------------------------------------------------


def test_faster_side_is_taken(table: Table) -> None:
    table.register("f")
    table.learn("f", {1 << 10: (30_000, 1_000), 1 << 20: (100_000, 900_000)})
    assert told(table.choose("f", 1 << 10)) == (CPU, "FASTER")
    assert told(table.choose("f", 1 << 20)) == (HOST, "FASTER")
    choice = table.choose("f", 1 << 20)
    assert (choice.host_ns, choice.cpu_ns) == (100_000, 900_000)


def test_sizes_between_need_no_measurement(table: Table) -> None:
    """Costs are taken to be a constant and a part that grows with the size."""
    table.register("f")
    table.learn("f", {1 << 10: (30_000, 1_000), 1 << 20: (100_000, 900_000)})
    assert told(table.choose("f", 1 << 13)) == (CPU, "FASTER")
    assert told(table.choose("f", 1 << 18)) == (HOST, "FASTER")
    assert told(table.choose("f", 1 << 30))[0] == HOST


def test_first_sample_that_was_slow_does_not_count(table: Table) -> None:
    """A first call compiles and opens."""
    table.register("f")
    choice = table.choose("f")
    assert choice.side == HOST
    table.end("f", choice, 10**9)
    table.learn("f", {1024: (1_000, 900_000)}, 40)
    assert table.choose("f").side == HOST
    assert table.rows("f")[0].host_ns == 1_000


def test_call_that_was_held_up_does_not_change_sides(table: Table) -> None:
    table.register("f")
    table.learn("f", {1024: (1_000, 2_000)})
    choice = table.choose("f")
    assert choice.side == HOST
    table.end("f", choice, 10**9)
    assert table.choose("f").host_ns < 2_000


def test_side_that_has_become_slow_is_left(table: Table) -> None:
    table.register("f")
    table.learn("f", {1024: (1_000, 2_000)}, 100)
    table.learn("f", {1024: (50_000, 2_000)}, 20)
    assert table.choose("f").side == CPU


def test_side_that_has_become_fast_is_found(table: Table) -> None:
    table.register("f")
    table.learn("f", {1024: (1_000, 2_000)}, 100)
    table.learn("f", {1024: (1_000, 100)}, 1_000)
    assert table.choose("f").side == CPU


@pytest.mark.parametrize("seed", range(4))
def test_time_lost_by_learning_is_bounded(table: Table, seed: int) -> None:
    """Times vary by a tenth, and one call in a hundred is held up."""
    chance = random.Random(seed)
    sizes = [64 << i for i in range(18)]
    table.register("f")
    took, best = 0.0, 0.0
    for _ in range(200):
        for size in sizes:
            choice = table.choose("f", size)
            delay = (1 + chance.random() / 10) * (20 if chance.random() < 0.01 else 1)
            host, cpu = (30_000 + 0.4 * size) * delay, (500 + 3 * size) * delay
            best += min(host, cpu)
            took += host if choice.side == HOST else cpu
            table.end("f", choice, int(host if choice.side == HOST else cpu))
    assert took / best < 1.05


def test_slower_side_is_tried_the_more_rarely_the_slower_it_is(table: Table) -> None:
    tries = []
    for name, slow in (("near", 1_500), ("far", 100_000)):
        table.register(name)
        table.learn(name, {1024: (1_000, slow)}, 50)
        before = table.rows(name)[0].cpu_samples
        table.learn(name, {1024: (1_000, slow)}, 5_000)
        tries.append(table.rows(name)[0].cpu_samples - before)
    assert tries[0] > 50
    assert tries[1] <= 2


def test_call_is_a_measurement(table: Table) -> None:
    table.register("reverse", opposite)
    for side in (HOST, CPU):
        assert table.call("reverse", [(INOUT, bytearray(100))], side=side).took_ns > 0
    (row,) = table.rows("reverse")
    assert (row.host_samples, row.cpu_samples) == (1, 1)
    assert (row.size_from, row.size_to) == (96, 128)


# ---- from run to run -----------------------------------------------------------------------------


@pytest.mark.usefixtures("fake")
def test_times_are_kept_from_run_to_run(link: GuestLink, tmp_path: Path) -> None:
    with open_device(link, tmp_path) as dev:
        table = Table(dev._handle.pointer)
        table.register("f")
        table.learn("f", {1024: (30_000, 1_000)})
    with open_device(link, tmp_path) as dev:
        table = Table(dev._handle.pointer)
        table.register("f")
        assert told(table.choose("f")) == (CPU, "FASTER")


@pytest.mark.usefixtures("fake")
def test_times_are_written_when_the_process_ends(link: GuestLink, tmp_path: Path, times: Path) -> None:
    script = """
from guest_driver._lib import check, ffi, lib
check(lib.vgc_local_register(dev._handle.pointer, b"f", ffi.NULL, ffi.NULL))
choice = ffi.new("struct vgc_choice *")
check(lib.vgc_choose(dev._handle.pointer, b"f", ffi.NULL, 0, ffi.NULL, choice))
lib.vgc_choice_end(dev._handle.pointer, b"f", choice, 0, 1234)
"""
    with GuestProcess(link, tmp_path, script) as process:
        assert process.wait() == 0
    assert times.read_text().split()[1:5] == ["f", "0", "1234", "1"]


def test_times_of_another_host_are_not_taken(tmp_path: Path) -> None:
    for pes, known in ((2, 0), (3, 0), (2, 1)):
        with GuestLink(quota_pes=pes) as link, FakeDevice(link), open_device(link, tmp_path) as dev:
            table = Table(dev._handle.pointer)
            table.register("f")
            assert len(table.rows("f")) == known
            table.learn("f", {1024: (30_000, 1_000)})


@pytest.mark.usefixtures("fake")
def test_processes_add_to_what_others_have_measured(link: GuestLink, tmp_path: Path, times: Path) -> None:
    with open_device(link, tmp_path) as one, open_device(link, tmp_path) as two:
        for name, dev in (("f", one), ("g", two)):
            table = Table(dev._handle.pointer)
            table.register(name)
            table.learn(name, {1024: (30_000, 1_000)})
    assert {line.split()[1] for line in times.read_text().splitlines()} == {"f", "g"}


DAMAGE: Final = {
    "empty": b"",
    "binary": bytes(range(256)) * 64,
    "one endless line": b"x" * (1 << 20),
    "huge numbers": b"0123456789abcdef f 99999999999 1 1 1 1\nzz f 1 1 1 1 1\n" + b"9" * 30 + b" f 1 1 1 1 1\n",
    "wrong names": b"0 %zz 1 1 1 1 1\n0 %00 1 1 1 1 1\n0 % 1 1 1 1 1\n0 " + b"x" * 4199 + b" 1 1 1 1 1\n",
    "too many lines": b"".join(b"1 f%d 3 1 1 1 1\n" % i for i in range(100_000)),
}


STRANGE: Final = [DAMAGE["binary"], DAMAGE["one endless line"]]
"""Files in which nothing is ours: they are left as they are."""


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.usefixtures("fake")
def test_damaged_file_is_no_knowledge(link: GuestLink, tmp_path: Path, times: Path, damage: bytes) -> None:
    times.write_bytes(damage)
    with open_device(link, tmp_path) as dev:
        table = Table(dev._handle.pointer)
        table.register("f")
        assert table.rows("f") == []
        table.learn("f", {1024: (30_000, 1_000)})
    assert times.stat().st_size < 2 << 20
    assert (b" f 20 " in times.read_bytes()) == (damage not in STRANGE)


@pytest.mark.usefixtures("fake")
def test_file_of_something_else_is_left_as_it_is(link: GuestLink, tmp_path: Path, times: Path) -> None:
    times.write_text("Dear diary,\n")
    with open_device(link, tmp_path) as dev:
        table = Table(dev._handle.pointer)
        table.register("f")
        table.learn("f", {1024: (30_000, 1_000)})
    assert times.read_text() == "Dear diary,\n"
    assert sorted(path.name for path in tmp_path.glob("choice*")) == ["choice", "choice.lock"]


@pytest.mark.usefixtures("fake")
def test_pipe_in_place_of_the_file_is_left_alone(link: GuestLink, tmp_path: Path, times: Path) -> None:
    os.mkfifo(times)
    with open_device(link, tmp_path) as dev:
        table = Table(dev._handle.pointer)
        table.register("f")
        table.learn("f", {1024: (30_000, 1_000)})
    assert stat.S_ISFIFO(times.stat().st_mode)


def test_place_of_the_file_is_told(times: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = ffi.new("char[512]")
    check(lib.vgc_choice_file(path, 512))
    assert text(path) == str(times)
    monkeypatch.delenv("VGC_CHOICE_FILE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    check(lib.vgc_choice_file(path, 512))
    assert text(path) == str(tmp_path / "cache/virtio-gpu-compute/choice")
    with pytest.raises(vgc.InvalidArgument):
        check(lib.vgc_choice_file(path, 8))
    monkeypatch.setenv("VGC_CHOICE_FILE", "")
    with pytest.raises(vgc.NotFound):
        check(lib.vgc_choice_file(path, 512))


# ---- going on on the CPU -------------------------------------------------------------------------

SHORTAGES: Final = [
    Status.RESOURCES_EXHAUSTED,
    Status.OUT_OF_MEMORY,
    Status.DEVICE_LOST,
    Status.NO_CONTEXT,
    Status.UNSUPPORTED,
]
WRONGS: Final = [
    Status.INVALID_ARGUMENT,
    Status.LAUNCH_FAILED,
    Status.FAULT,
    Status.ASSERT,
    Status.TIMEOUT,
    Status.INTERNAL,
]


def fail_after_writing(fake: FakeDevice, status: Status) -> None:
    """The host changes the buffers of calls, then fails them."""
    fake.override[Opcode.CALL] = lambda _: Answer(status, b"spoilt" * 100)


@pytest.mark.parametrize("where", ["ordinary", "region"])
@pytest.mark.parametrize("status", SHORTAGES, ids=lambda status: status.name)
def test_call_for_which_the_host_has_no_room_goes_on_with_its_buffers_intact(
    table: Table, dev: vgc.Device, fake: FakeDevice, status: Status, where: str
) -> None:
    table.register("reverse", opposite)
    data: Any = bytearray(600) if where == "ordinary" else dev.region_array(600, "uint8")
    fail_after_writing(fake, status)
    choice = table.call("reverse", [(INOUT, data)], side=HOST, falls_back=True)
    assert bytes(data) == b"\xff" * 600
    told = Status.DEVICE_LOST if status is Status.NO_CONTEXT else status
    assert (choice.side, choice.fell_back, choice.host_result) == (CPU, True, told)


@pytest.mark.parametrize("status", SHORTAGES, ids=lambda status: status.name)
def test_call_that_does_not_ask_for_it_does_not_go_on(table: Table, fake: FakeDevice, status: Status) -> None:
    table.register("reverse", opposite)
    fail_after_writing(fake, status)
    data = bytearray(600)
    with pytest.raises(vgc.VgcError, match=r"spoilt|DEVICE_LOST"):
        table.call("reverse", [(INOUT, data)], side=HOST)
    assert data == bytes(600)


@pytest.mark.parametrize("status", WRONGS, ids=lambda status: status.name)
def test_what_a_kernel_does_wrong_is_no_reason_to_go_on(table: Table, fake: FakeDevice, status: Status) -> None:
    table.register("reverse", opposite)
    fail_after_writing(fake, status)
    with pytest.raises(vgc.VgcError, match="spoilt"):
        table.call("reverse", [(INOUT, bytearray(600))], falls_back=True)
    assert table.rows("reverse") == []


def test_function_without_a_local_version_cannot_go_on(table: Table, fake: FakeDevice) -> None:
    fail_after_writing(fake, Status.OUT_OF_MEMORY)
    with pytest.raises(vgc.OutOfMemory):
        table.call("reverse", [(INOUT, bytearray(600))], falls_back=True)


def test_buffers_that_fit_neither_region_nor_device_are_for_the_cpu(table: Table, fake: FakeDevice) -> None:
    table.register("reverse", opposite)
    data = bytearray(100 << 20)
    choice = table.call("reverse", [(INOUT, data[:0]), (lib.VGC_ARG_IN, data)], side=HOST, falls_back=True)
    assert choice.host_result == vgc.OutOfMemory.result
    assert fake.opcodes().count(Opcode.CALL) == 0


def test_buffers_that_do_not_fit_the_region_go_over_device_memory(table: Table, fake: FakeDevice) -> None:
    data = bytearray(5 << 20)

    def write(_ask: Ask) -> Answer:
        for memory in fake.memory.values():
            memory[:] = b"x" * len(memory)
        return Answer()

    fake.override[Opcode.CALL] = write
    assert table.call("reverse", [(INOUT, data)], side=HOST).side == HOST
    assert data == b"x" * (5 << 20)
    assert fake.memory == {}


def test_lost_device_is_not_asked_again(table: Table, dev: vgc.Device, fake: FakeDevice) -> None:
    table.register("reverse", opposite)
    fail_after_writing(fake, Status.DEVICE_LOST)
    assert table.call("reverse", [(INOUT, bytearray(4))], side=HOST, falls_back=True).fell_back
    for _ in range(5):
        choice = table.call("reverse", [(INOUT, bytearray(4))], side=HOST, falls_back=True)
        assert (choice.side, choice.fell_back, choice.host_result) == (CPU, True, Status.DEVICE_LOST)
    assert fake.opcodes().count(Opcode.CALL) == 1
    fake.override.clear()
    dev.reset()
    assert table.call("reverse", [(INOUT, bytearray(4))], side=HOST, falls_back=True).side == HOST


def test_silent_host_is_waited_for_once(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    fake.override[Opcode.CALL] = lambda _: SILENCE
    fake.functions = [FakeFunction("reverse")]
    with open_device(link, tmp_path, request_timeout_s=0.05) as dev:
        table = Table(dev._handle.pointer)
        table.register("reverse", opposite)
        data = bytearray(4)
        for expected in (b"\xff" * 4, bytes(4)):
            choice = table.call("reverse", [(INOUT, data)], side=HOST, falls_back=True)
            assert (choice.side, choice.host_result) == (CPU, lib.VGC_NO_ANSWER)
            assert data == expected
        assert fake.opcodes().count(Opcode.CALL) == 1
        fake.answer_silenced(Answer(payload=b"late"))


def test_silent_host_that_may_still_write_ends_the_call(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    fake.override[Opcode.CALL] = lambda _: SILENCE
    with open_device(link, tmp_path, request_timeout_s=0.05) as dev:
        table = Table(dev._handle.pointer)
        table.register("reverse", opposite)
        data = dev.region_array(4, "uint8")
        with pytest.raises(vgc.NoAnswer):
            table.call("reverse", [(INOUT, data)], side=HOST, falls_back=True)
        assert np.array_equal(data, np.zeros(4))
        fake.answer_silenced(Answer(payload=b"late"))
