"""Shadow mode: two real VMs' devices in one guest, software GPU beside software GPU and beside CUDA (the fake driver)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver import cli
from guest_driver.comparison import find
from guest_driver.shadow import ShadowProgram
from tests.fakes.guest import open_device
from tests.protocol.cuda_host import Settings, cuda_link
from tests.protocol.guest_host import GuestHost, guest_host

X = np.arange(100, dtype=np.float32)
SOURCE = """
extern "C" __global__ void add_one(unsigned *data, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i]++;
}
extern "C" __global__ void saxpy(unsigned count, float a, const float *x, float *y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] += a * x[i];
}
"""
"""Source of kernels that the fake driver has, by name."""

STEP = """
extern "C" __global__ void step(float *x, int *n) { x[threadIdx.x] += STEP; n[threadIdx.x] += INTS; }
extern "C" __global__ void fault(int *data) { if (FAULT) data[1ll << 40] = 1; }
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("left")) as host:
        yield host


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("right")) as host:
        yield host


@pytest.fixture
def pair(left: GuestHost, right: GuestHost) -> Iterator[vgc.ShadowDevice]:
    """A shadow device with both sides on the software GPU."""
    primary, shadow = open_device(left.link, left.state_dir), open_device(right.link, right.state_dir)
    with vgc.ShadowDevice(primary, shadow) as pair:
        yield pair


def apart(pair: vgc.ShadowDevice, *, step: float = 0, ints: int = 0, faults: bool = False) -> ShadowProgram:
    """A program that differs on the shadow: there it adds more, or faults."""
    plain = ["-DSTEP=1.0f", "-DINTS=1", "-DFAULT=0"]
    other = [f"-DSTEP={1.0 + step}f", f"-DINTS={1 + ints}", f"-DFAULT={faults:d}"]
    return ShadowProgram(pair.sides, pair.primary.compile(STEP, plain), pair.shadow.compile(STEP, other))


def test_right_kernel_is_no_mismatch(pair: vgc.ShadowDevice) -> None:
    program = pair.compile(SOURCE)
    x, y = pair.to_device(X), pair.zeros(100)
    timing = program.saxpy[1, 128](100, 2, x, y)
    assert isinstance(timing, vgc.Timing)
    pair.synchronize()
    pair.check()
    assert np.array_equal(y.get(), 2 * X)
    assert set(program) >= {"saxpy", "add_one"}


def test_mismatch_names_the_array_the_place_and_the_kernels_before_it(pair: vgc.ShadowDevice) -> None:
    x, n = pair.to_device(X[:4], "speeds"), pair.to_device(np.arange(4, dtype=np.int32), "counts")
    program = apart(pair, ints=5)
    program.step[1, 2](x, n)
    assert np.array_equal(x.get(), [1, 2, 2, 3])
    with pytest.raises(vgc.ShadowMismatch) as caught:
        n.get()
    text = str(caught.value)
    assert text.startswith("counts, after step on ")
    assert text.endswith(": 2 of 4 elements differ, first [0]: 1 and 6")
    assert text.count("(cpu, ") == 2


def test_check_names_every_array_that_differs(pair: vgc.ShadowDevice) -> None:
    arrays = [pair.zeros(4, "float32", "first"), pair.zeros(4, "int32", "second"), pair.zeros(4, "int32", "third")]
    apart(pair, step=1, ints=1).step[1, 4](arrays[0], arrays[1])
    with pytest.raises(vgc.ShadowMismatch) as caught:
        pair.check()
    assert [line.partition(",")[0] for line in str(caught.value).splitlines()] == ["first", "second"]


def test_floats_are_compared_within_the_tolerance(left: GuestHost, right: GuestHost) -> None:
    opened = (open_device(left.link, left.state_dir), open_device(right.link, right.state_dir))
    with vgc.ShadowDevice(*opened, rtol=1e-2) as pair:
        x, n = pair.to_device(X[:4]), pair.zeros(4, "int32")
        apart(pair, step=0.009).step[1, 4](x, n)
        assert np.array_equal(x.get(), X[:4] + 1)  # the primary's values
        apart(pair, step=0.5).step[1, 4](x, n)
        with pytest.raises(vgc.ShadowMismatch, match=r"4 of 4 elements differ, first \[0\]: 2.0 and 2.5.* ULP apart"):
            x.get()


def test_kernels_before_the_last_successful_check_are_not_named(pair: vgc.ShadowDevice) -> None:
    numbers = pair.to_device(np.zeros(4, np.uint32), "numbers")
    pair.compile(SOURCE).add_one[1, 4](numbers, 4)
    numbers.get()
    numbers.shadow.set(np.array([1, 1, 9, 9], np.uint32))
    with pytest.raises(vgc.ShadowMismatch, match=r"numbers, after no kernel on .*: 2 of 4 .* \[2\]: 1 and 9"):
        numbers.get()
    numbers.set(np.zeros(4, np.uint32))
    numbers.get()
    numbers.fill(3)
    assert numbers.get().tolist() == [3] * 4


def test_nan_equals_nan(pair: vgc.ShadowDevice) -> None:
    x = pair.to_device(np.array([1, np.nan], np.float32))
    assert np.isnan(x.get()[1])
    x.shadow.set(np.array([np.nan, np.nan], np.float32))
    with pytest.raises(vgc.ShadowMismatch, match=r"1 of 2 elements differ, first \[0\]: 1.0 and nan$"):
        x.get()


def test_freed_arrays_are_not_compared(pair: vgc.ShadowDevice) -> None:
    x = pair.zeros(4)
    x.shadow.fill(1)
    x.free()
    x.free()
    pair.check()


def test_fault_of_one_side_is_a_mismatch_with_its_text(pair: vgc.ShadowDevice) -> None:
    with pytest.raises(vgc.ShadowMismatch) as caught:
        apart(pair, faults=True).fault[1, 1](pair.zeros(4, "int32"))
    first, ours, theirs = str(caught.value).splitlines()
    assert first == "launch of fault: not the same on both"
    assert ours.endswith(": no error")
    assert "fault" in theirs
    assert isinstance(caught.value.__cause__, vgc.KernelFault)


def test_same_error_on_both_sides_is_no_mismatch(pair: vgc.ShadowDevice) -> None:
    with pytest.raises(vgc.CompileError):
        pair.compile("nonsense")
    program = pair.compile(SOURCE)
    with pytest.raises(AttributeError):
        _ = program.nothing
    with pytest.raises(TypeError, match="saxpy takes 4 arguments"):
        program.saxpy[1, 1](1)


def test_memory_of_a_single_device_is_refused(pair: vgc.ShadowDevice) -> None:
    array = pair.zeros(4, "uint32")
    with pytest.raises(TypeError, match="memory of one device only; allowed: arrays of the ShadowDevice"):
        pair.compile(SOURCE).add_one[1, 4](array.primary, 4)


def test_closing_closes_both_devices(pair: vgc.ShadowDevice) -> None:
    pair.close()
    assert repr(pair.primary) == repr(pair.shadow) == "<closed device>"


# ---- the software GPU beside CUDA ----------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(left: GuestHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[vgc.ShadowDevice]:
    """A shadow device with CUDA as its primary and the software GPU as its shadow."""
    folder = tmp_path_factory.mktemp("cuda")
    with cuda_link(folder, Settings()) as link:
        primary, shadow = open_device(link, folder / "state"), open_device(left.link, left.state_dir)
        with vgc.ShadowDevice(primary, shadow) as pair:
            yield pair


def test_one_source_on_both_engines(mixed: vgc.ShadowDevice) -> None:
    program = mixed.compile(SOURCE)
    numbers, x, y = mixed.to_device(np.arange(100, dtype=np.uint32)), mixed.to_device(X), mixed.zeros(100)
    program.add_one[1, 128](numbers, 100)
    program.saxpy[1, 128](100, 0.1, x, y)
    mixed.check()
    assert np.array_equal(numbers.get(), np.arange(1, 101))
    assert find(np.float32(0.1) * X, y.get(), rtol=1e-6, atol=0) is None
    assert ["cuda" in name for name in mixed.sides.names] == [True, False]


def test_mismatch_names_both_engines(mixed: vgc.ShadowDevice) -> None:
    numbers = mixed.zeros(4, "uint32")
    mixed.compile(SOURCE).add_one[1, 4](numbers, 4)
    numbers.shadow.fill(7)
    with pytest.raises(
        vgc.ShadowMismatch, match=r"after add_one on Fake .* \(cuda, .*\) and CPU, .* \(cpu, .*\): 4 of 4"
    ):
        numbers.get()


def test_refusal_by_one_compiler_is_a_mismatch_with_its_log(mixed: vgc.ShadowDevice) -> None:
    with pytest.raises(vgc.ShadowMismatch) as caught:
        mixed.compile('extern "C" __global__ void fails() { asm volatile("bar.arrive 1, 64;"); }')
    first, ours, theirs, *_ = str(caught.value).splitlines()
    assert first == "compilation: not the same on both"
    assert ours.endswith(": no error")
    assert "the program does not compile" in theirs
    assert "bar.arrive" in str(caught.value)


# ---- vgc run --shadow ----------------------------------------------------------------------------


def arguments(folder: Path, options: list[str]) -> list[str]:
    (folder / "step.cu").write_text(STEP)
    plain = ["--option=-DINTS=1", "--option=-DSTEP=1.0f", "--option=-DFAULT=0"]
    outputs = ["--arg", "out:float32:4", "--arg", f"out:int32:4:{folder}/n.npy"]
    return ["run", str(folder / "step.cu"), "--kernel", "step", "--block", "4", *plain, *outputs, *options]


def test_run_reports_that_both_sides_agree(left: GuestHost, tmp_path: Path) -> None:
    """In tests every address names the one link, so this device is compared with itself."""
    done = left.python("-m", "guest_driver", *arguments(tmp_path, ["--shadow", "0000:00:05.0"]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(", same on both engines") == 2
    assert np.load(tmp_path / "n.npy").tolist() == [1] * 4


def test_run_refuses_a_device_as_its_own_shadow(left: GuestHost, tmp_path: Path) -> None:
    with open_device(left.link, left.state_dir) as device:
        address = device.info().address
    done = left.python("-m", "guest_driver", *arguments(tmp_path, ["--shadow", address]))
    assert done.returncode == 1
    assert done.stderr == f"vgc: --shadow {address}: the device itself; allowed: a second device's address\n"


def test_run_shows_all_differences_and_fails(
    pair: vgc.ShadowDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = apart(pair, step=1, ints=1)
    monkeypatch.setattr(pair, "compile", lambda *_, **__: program)

    def opened(given: argparse.Namespace, _output: object) -> vgc.ShadowDevice:
        assert given.shadow == "0000:00:05.0"
        return pair

    monkeypatch.setattr(cli, "_open_for_run", opened)
    assert cli.main(arguments(tmp_path, ["--shadow", "0000:00:05.0"])) == 1
    shown = capsys.readouterr().err
    floats, ints = shown.splitlines()
    assert floats.startswith("vgc: --arg out:float32:4, after step on ")
    assert ints.startswith(f"--arg out:int32:4:{tmp_path}/n.npy, after step on ")
    assert ints.endswith("4 of 4 elements differ, first [0]: 1 and 2")
    assert not (tmp_path / "n.npy").exists()


def test_run_without_a_shadow_does_not_mention_one(left: GuestHost, tmp_path: Path) -> None:
    done = left.python("-m", "guest_driver", *arguments(tmp_path, []))
    assert done.returncode == 0, done.stderr
    assert "engines" not in done.stdout
