"""Functions by name in the Python binding: callables as local versions."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver.named import NamedFunctions
from tests.fakes.device import Answer, FakeDevice, FakeFunction
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake, link
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake", "link"]


@pytest.fixture(autouse=True)
def _own_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_CHOICE_FILE", str(tmp_path / "choice"))
    monkeypatch.delenv("VGC_SIDE", raising=False)


@pytest.fixture
def twice(dev: vgc.Device, fake: FakeDevice) -> vgc.Device:
    """Device on which `twice` has two versions; the host's adds 100, so that results tell the sides apart."""
    fake.functions = [FakeFunction("twice", call=lambda buffers: [bytes(2 * b + 100 for b in buffers[0])])]

    @dev.local("twice")
    def twice(x: np.ndarray) -> None:
        x *= 2

    return dev


def numbers() -> np.ndarray:
    return np.arange(8, dtype=np.uint8)


def test_side_that_is_named_does_the_work(twice: vgc.Device) -> None:
    x = numbers()
    outcome = twice.call_named("twice", vgc.InOut(x), side="cpu")
    assert x.tolist() == [2 * i for i in range(8)]
    assert (outcome.side, outcome.why, outcome.fell_back, outcome.size) == ("cpu", "forced", False, 8)
    outcome = twice.call_named("twice", vgc.InOut(x), side="host")
    assert x.tolist() == [4 * i + 100 for i in range(8)]
    assert (outcome.side, outcome.why) == ("host", "forced")
    with pytest.raises(vgc.InvalidArgument, match="side 'left'; allowed: auto, cpu, host, gpu"):
        twice.call_named("twice", vgc.InOut(x), side="left")


def test_both_sides_are_measured(twice: vgc.Device) -> None:
    for _ in range(12):
        twice.call_named("twice", vgc.InOut(numbers()))
    (known,) = twice.functions.known("twice")
    assert (known.size_from, known.size_to) == (8, 12)
    assert known.host_samples > 0
    assert known.cpu_samples > 0
    assert known.host_samples + known.cpu_samples <= 12


def test_rules_of_the_program_choose(twice: vgc.Device) -> None:
    twice.functions.rules("t*=cpu:type=uint8:bytes<1K,host")
    assert twice.call_named("twice", vgc.InOut(numbers())).side == "cpu"
    assert twice.call_named("twice", vgc.InOut(np.zeros(1024, np.uint8))).side == "host"
    assert twice.call_named("twice", vgc.InOut(bytearray(8))).side == "host"
    assert twice.call_named("twice", vgc.InOut(numbers()), size=1 << 20).side == "host"


def test_exception_of_a_local_version_is_the_callers_and_no_measurement(dev: vgc.Device) -> None:
    @dev.local("fails")
    def fails(_x: object) -> None:
        raise KeyError("own")

    for _ in range(3):
        with pytest.raises(KeyError, match="own"):
            dev.call_named("fails", vgc.InOut(numbers()), side="cpu")
    assert dev.functions.known("fails") == []
    dev.functions.unregister("fails")
    dev.functions.register("fails", lambda _x: None)
    dev.call_named("fails", vgc.InOut(numbers()), side="cpu")


def test_local_version_that_never_returns_is_ended_by_an_interrupt_and_holds_nobody_up(twice: vgc.Device) -> None:
    begun = threading.Event()
    ended: list[type[BaseException]] = []

    @twice.local("stays")
    def stays() -> None:
        begun.set()
        while True:
            pass

    def stay() -> None:
        try:
            twice.call_named("stays")
        except KeyboardInterrupt as error:
            ended.append(type(error))

    thread = threading.Thread(target=stay)
    thread.start()
    begun.wait()
    x = numbers()
    twice.call_named("twice", vgc.InOut(x), side="cpu")
    twice.functions.register("third", lambda: None)
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))
    thread.join()
    assert ended == [KeyboardInterrupt]
    assert twice.functions.known("stays") == []


def test_names_that_clash_or_are_too_long_are_refused(twice: vgc.Device) -> None:
    with pytest.raises(vgc.InvalidArgument, match="'twice' is registered already"):
        twice.functions.register("twice", print)
    with pytest.raises(vgc.InvalidArgument, match="a function name of 1048576 bytes; allowed: 1 to 1024"):
        twice.functions.register("x" * (1 << 20), print)
    with pytest.raises(vgc.InvalidArgument, match="a function name with a NUL"):
        twice.functions.register("a\0b", print)
    with pytest.raises(vgc.NotFound):
        twice.functions.unregister("thrice")


def test_output_buffers_begin_with_zeros(dev: vgc.Device) -> None:
    @dev.local("add")
    def add(x: np.ndarray, out: np.ndarray) -> None:
        out += x

    out = np.full(8, 9, np.uint8)
    dev.call_named("add", vgc.In(numbers()), vgc.Out(out), side="cpu")
    assert out.tolist() == list(range(8))
    dev.call_named("add", vgc.In(numbers()[:0]), vgc.Out(out[:0]), side="cpu")


@pytest.mark.parametrize("where", ["ordinary", "region"])
@pytest.mark.parametrize("status", [Status.OUT_OF_MEMORY, Status.RESOURCES_EXHAUSTED, Status.DEVICE_LOST])
def test_call_goes_on_with_its_buffers_as_they_were(
    twice: vgc.Device, fake: FakeDevice, status: Status, where: str
) -> None:
    fake.override[Opcode.CALL] = lambda _: Answer(status, b"no room" * 100)
    x = np.zeros(600, np.uint8) if where == "ordinary" else twice.region_array(600, "uint8")
    x[:] = 7
    outcome = twice.call_named("twice", vgc.InOut(x), side="host", falls_back=True)
    assert (x == 14).all()
    assert outcome.host_error is not None
    assert (outcome.side, outcome.fell_back, outcome.host_error.result) == ("cpu", True, status)
    with pytest.raises(vgc.VgcError):
        twice.call_named("twice", vgc.InOut(x), side="host")
    outcome = twice.call_named("twice", vgc.InOut(x), side="host", falls_back=True)
    assert outcome.host_error is not None
    assert (outcome.side, outcome.fell_back, outcome.host_error.result) == ("cpu", True, status)


@pytest.fixture
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("falls_back", [True, False])
def test_call_that_failed_keeps_none_of_its_buffers(twice: vgc.Device, fake: FakeDevice, *, falls_back: bool) -> None:
    fake.override[Opcode.CALL] = lambda _: Answer(Status.OUT_OF_MEMORY, b"no room")
    x = twice.region_array(600, "uint8")
    alive = weakref.ref(x)
    outcome = None
    with contextlib.suppress(vgc.OutOfMemory):
        outcome = twice.call_named("twice", vgc.InOut(x), side="host", falls_back=falls_back)
    assert (outcome is not None) == falls_back
    del x
    assert alive() is None


def test_fault_of_a_kernel_is_the_callers(twice: vgc.Device, fake: FakeDevice) -> None:
    fake.override[Opcode.CALL] = lambda _: Answer(Status.FAULT, b"address 0x10")
    with pytest.raises(vgc.KernelFault, match="FAULT: address"):
        twice.call_named("twice", vgc.InOut(numbers()), side="host", falls_back=True)


def test_values_for_an_unknown_function_need_a_size(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions.append(FakeFunction("known to the host", call=lambda buffers: buffers))
    with pytest.raises(TypeError, match="argument 0 of known to the host: a int has no size of its own"):
        dev.call_named("known to the host", 3)
    outcome = dev.call_named("known to the host", np.int32(3), b"abc", vgc.InOut(numbers()))
    assert (outcome.side, outcome.why) == ("host", "only side")
    assert next(ask for ask in fake.seen if ask.opcode is Opcode.CALL).body.value_len == 7


def test_values_for_a_kernel_of_a_program_are_packed_by_its_parameters(dev: vgc.Device, fake: FakeDevice) -> None:
    dev.compile("source")
    dev.call_named("saxpy", 3, 2, vgc.In(bytes(12)), vgc.InOut(bytearray(12)))
    ask = next(ask for ask in fake.seen if ask.opcode is Opcode.CALL)
    assert ask.body.value_len == 8
    assert b"_Z5saxpyv" in ask.rest


def test_without_a_device_local_versions_run() -> None:
    functions = NamedFunctions()
    functions.register("python, no device", lambda x: x.reverse())
    data = bytearray(b"abc")
    assert functions.call("python, no device", vgc.InOut(data)).why == "only side"
    assert data == b"cba"
    with pytest.raises(vgc.NotFound, match="there is no device"):
        functions.call("other")
    functions.unregister("python, no device")


def test_ten_thousand_functions_have_ten_thousand_names(dev: vgc.Device) -> None:
    called: list[int] = []
    for i in range(10_000):
        dev.functions.register(f"f{i}", lambda i=i: called.append(i))
    for i in (0, 5_000, 9_999):
        dev.call_named(f"f{i}", side="cpu")
    assert called == [0, 5_000, 9_999]


def test_times_are_remembered(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    fake.functions = [FakeFunction("own", call=lambda buffers: buffers)]
    for before in (0, 2):
        with open_device(link, tmp_path) as dev:
            dev.functions.register("own", lambda _x: None)
            assert sum(known.host_samples + known.cpu_samples for known in dev.functions.known("own")) == before
            for side in ("host", "cpu"):
                dev.call_named("own", vgc.InOut(bytearray(64)), side=side)
