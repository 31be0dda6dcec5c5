"""Guests' programs go on by themselves after the death of their worker, with the real daemon and CPU engine."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.guest import REPOSITORY, open_device
from tests.protocol.guest_host import GuestHost, guest_host, guest_variables

SOURCE = """
__device__ int calls;
extern "C" __global__ void add(int n, int *sum, const int *data) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = data[i] + 1;
    if (i == 0) calls++;
}
extern "C" __global__ void count(int *out) { *out = calls; }
extern "C" __global__ void draw(cudaSurfaceObject_t surface) { surf2Dwrite(1.0f, surface, 4 * threadIdx.x, threadIdx.y); }
extern "C" __global__ void stray(int *data) { data[1ll << 40] = 1; }
"""
NUMBERS = np.arange(1000, dtype=np.int32)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GuestHost]:
    with guest_host(tmp_path) as host:
        yield host


@contextmanager
def recovering(host: GuestHost, on_recovered: Callable[[vgc.Device], object] | None = None) -> Iterator[vgc.Device]:
    with open_device(host.link, host.state_dir, recover=True, on_recovered=on_recovered) as dev:
        yield dev


def test_program_and_arrays_go_on_under_the_same_objects(host: GuestHost) -> None:
    with recovering(host, lambda _: data.set(NUMBERS)) as dev:
        program = dev.compile(SOURCE)
        data, total, counted = dev.to_device(NUMBERS), dev.zeros(1000, "int32"), dev.zeros(1, "int32")
        add = program.add
        for generation in (2, 3):
            add[4, 256](1000, total, data)
            host.lose_worker()
            with pytest.raises(vgc.DeviceLost):
                add[4, 256](1000, total, data)
            with pytest.raises(vgc.ObjectLost):
                total.get()
            total.fill(0)
            add[4, 256](1000, total, data)
            assert (total.get() == NUMBERS + 1).all()
            counted.fill(0)
            program.count[1, 1](counted)
            assert counted.get()[0] == 1, "variables begin anew"
            assert dev.info().generation == generation


def test_launch_is_repeated_by_itself(host: GuestHost) -> None:
    def refill(_: vgc.Device) -> None:
        data.set(NUMBERS)
        total.fill(0)

    with recovering(host, refill) as dev:
        data, total = dev.to_device(NUMBERS), dev.zeros(1000, "int32")
        add = dev.compile(SOURCE).add
        host.lose_worker()
        add.launch(4, 256, 1000, total, data, repeat=True)
        assert (total.get() == NUMBERS + 1).all()


def test_fault_of_a_kernel_is_its_own_and_not_repeated(host: GuestHost) -> None:
    with recovering(host) as dev:
        program, memory = dev.compile(SOURCE), dev.alloc(64)
        with pytest.raises(vgc.KernelFault, match="stray"):
            program.stray.launch(1, 1, memory, repeat=True)
        with pytest.raises(vgc.DeviceLost):
            memory.read()
        counted = dev.zeros(1, "int32")
        program.count.launch(1, 1, counted, repeat=True)
        assert counted.get()[0] == 0
        assert dev.info().generation == 2


def test_registered_and_built_in_functions_are_there_again(host: GuestHost) -> None:
    with recovering(host) as dev:
        program = dev.register(SOURCE)
        found, array = dev.function("add"), dev.to_device(NUMBERS)
        assert int(np.sum(array)) == NUMBERS.sum()
        host.lose_worker()
        with pytest.raises(vgc.DeviceLost):
            dev.alloc(1)
        array.set(NUMBERS)
        total = dev.zeros(1000, "int32")
        found[4, 256](1000, total, array)
        assert (total.get() == NUMBERS + 1).all()
        total.fill(0)
        program.add[4, 256](1000, total, array)
        assert (total.get() == NUMBERS + 1).all()
        assert int(np.sum(array)) == NUMBERS.sum()
        out = np.zeros(1000, np.int32)
        dev.call("add", grid=4, block=256, args=[1000, vgc.Out(out), vgc.In(NUMBERS)])
        assert (out == NUMBERS + 1).all()


def test_textures_say_that_they_are_gone(host: GuestHost) -> None:
    with recovering(host) as dev:
        texels = dev.texture_array((4, 8), surface=True)
        surface = texels.surface()
        draw = dev.compile(SOURCE).draw
        draw.launch(1, (8, 4), surface)
        assert (texels.get() == 1).all()
        dev.reset()
        with pytest.raises(vgc.ObjectLost, match="this texture or surface"):
            draw.launch(1, (8, 4), surface)
        with pytest.raises(vgc.DeviceLost):
            texels.get()


def test_example_computes_alone(host: GuestHost) -> None:
    done = host.python("examples/recovering.py", "--pendulums", "100", "--steps", "3", "--rounds", "100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("step 1 of 3 is kept\nstep 2 of 3 is kept\nstep 3 of 3 is kept\n0 recoveries; ")


def test_example_goes_on_when_its_worker_dies_before_each_step(
    host: GuestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in guest_variables((host,)).items():
        monkeypatch.setenv(name, value)
    example = runpy.run_path(str(REPOSITORY / "examples/recovering.py"))
    start = np.array([[0.5, 0.0], [1.0, 0.25]])
    swing = example["Swing"](start, rounds=1000)
    with closing(swing):
        for _ in range(3):
            swing.step()
            host.lose_worker()
        swing.step()
    assert swing.recoveries == 3
    assert np.abs(swing.kept - example["expected"](start, 4000)).max() < 1e-9
