"""Functions that are registered for the VM, against the real daemon, compiler, worker and CPU engine."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver._lib import check, ffi, lib
from guest_driver.listing import ListedFunction
from tests.fakes.guest import open_device
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.guest_host import GuestHost, guest_host
from vhost_backend.daemon import registrations
from vhost_backend.daemon.migration import MigrationReport
from vhost_backend.daemon.server import Daemon
from vhost_backend.worker_protocol import codec

SCALE = r"""
__device__ int calls;
extern "C" __global__ void scale(int n, float by, const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) atomicAdd(&calls, 1);
    if (i < n) out[i] = by * in[i];
}
extern "C" __global__ void count(int *out) { *out = calls; }
"""
OTHER = r"""
extern "C" __global__ void scale(int n, float by, const float *in, float *out) { out[threadIdx.x] = -1; }
"""
REST = 'extern "C" __global__ void rest() {}'
WAIT = 'extern "C" __global__ void wait(volatile int *go) { while (*go == 0) {} }' + REST


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GuestHost]:
    with guest_host(tmp_path, programs=tmp_path / "programs") as host:
        yield host


@pytest.fixture
def dev(host: GuestHost, tmp_path: Path) -> Iterator[vgc.Device]:
    with open_device(host.link, tmp_path / "state") as dev:
        yield dev


def until_refused(act: Callable[[], object]) -> None:
    """Repeats `act` until it raises an error."""
    while True:
        act()


def scaled(dev: vgc.Device, by: float = 3) -> list[float]:
    """Result of a CALL by name with in and out buffers in one chain."""
    data, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    dev.call("scale", grid=1, block=8, args=[8, by, vgc.In(data), vgc.Out(out)])
    return [float(value) for value in out]


def registered(dev: vgc.Device) -> list[ListedFunction]:
    """Functions of the VM, without those of the host."""
    return [one for one in dev.list_functions() if one.program != 0]


SCALED = [3.0 * i for i in range(8)]


def test_all_contexts_find_it_until_it_is_unregistered(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    with open_device(host.link, tmp_path / "state") as first:
        program = first.register(SCALE)
        assert list(program) == ["scale", "count"]
        assert scaled(first) == SCALED
        program.unload()  # ends the handle alone
    assert scaled(dev) == SCALED
    function = dev.function("scale")
    assert [param.size for param in function.params] == [4, 4, 8, 8]
    x, y = dev.to_device(np.ones(4, np.float32)), dev.zeros(4, "float32")
    function[1, 4](4, 2, x, y)
    assert np.array_equal(y.get(), [2, 2, 2, 2])
    dev.unregister("count")
    with pytest.raises(vgc.NotFound, match="no function 'scale'; there are: none"):
        scaled(dev)
    with pytest.raises(vgc.NotFound, match="has no function"):
        function[1, 4](4, 2, x, y)
    with pytest.raises(vgc.NotFound, match="no registered program has a function 'scale'"):
        dev.unregister("scale")


def test_a_call_by_name_finds_it_beside_a_local_version(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    dev.register(SCALE)
    with open_device(host.link, tmp_path / "state") as other:

        @other.local("scale")
        def scale(n: int, by: float, source: np.ndarray, out: np.ndarray) -> None:
            out[:n] = -by * source[:n]

        data, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        for side, sign in (("host", 1), ("cpu", -1)):
            outcome = other.call_named("scale", 8, 3, vgc.In(data), vgc.Out(out), side=side, grid=1, block=8)
            assert outcome.side == side
            assert np.array_equal(out, sign * 3 * data)


def test_a_call_goes_on_on_the_cpu_if_the_device_is_lost_before_the_function_was_looked_up(
    host: GuestHost, dev: vgc.Device
) -> None:
    dev.register(SCALE)
    calls = []
    dev.functions.register("scale", lambda *_args: calls.append(1))
    data, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    host.lose_worker()
    outcome = dev.call_named("scale", 8, 3, vgc.In(data), vgc.Out(out), falls_back=True, grid=1, block=8)
    assert (outcome.side, outcome.fell_back, calls) == ("cpu", True, [1])
    assert isinstance(outcome.host_error, vgc.DeviceLost)


def test_a_function_that_is_registered_anew_is_another_one(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    dev.register(SCALE)
    assert scaled(dev) == SCALED
    old = dev.function("scale")
    with open_device(host.link, tmp_path / "state") as other:
        other.unregister("scale")
        other.register(SCALE.replace("float by", "double by"))
    with pytest.raises(vgc.InvalidArgument, match="argument 1 is a value of 4 bytes; the function takes 8 bytes there"):
        scaled(dev)
    assert scaled(dev) == SCALED
    assert [param.size for param in dev.function("scale").params] == [4, 8, 8, 8]
    with pytest.raises(vgc.NotFound):
        old.launch(1, 1, 0, 0, 0, 0)


def test_a_contexts_own_function_comes_first(dev: vgc.Device) -> None:
    dev.register(SCALE)
    own = dev.compile(OTHER)
    assert scaled(dev) == [-1.0] * 8
    own.unload()
    assert scaled(dev) == SCALED


def test_its_variables_are_the_vms(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    dev.register(SCALE)
    scaled(dev)
    with open_device(host.link, tmp_path / "state") as other:
        scaled(other)
        out = np.zeros(1, np.int32)
        other.call("count", grid=1, block=1, args=[vgc.Out(out)])
        assert out[0] == 2
        variable = other.register(SCALE).variable("calls")
        check(lib.vgc_fill(other._handle.pointer, variable.address, 40, 4, 4, 0, ffi.NULL))
    dev.call("count", grid=1, block=1, args=[vgc.Out(out)])
    assert out[0] == 40


def test_the_same_program_is_registered_once(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    dev.register(SCALE)
    used = dev.usage()
    with open_device(host.link, tmp_path / "state") as other:
        assert list(other.register(SCALE)) == ["scale", "count"]
    assert (dev.usage().num_programs, dev.usage().memory_used_bytes) == (used.num_programs, used.memory_used_bytes)
    with pytest.raises(vgc.InvalidArgument, match="function 'scale' is registered already, by another program"):
        dev.register(OTHER)
    assert dev.usage().memory_used_bytes == used.memory_used_bytes
    assert scaled(dev) == SCALED


def test_it_outlasts_the_worker(host: GuestHost, dev: vgc.Device) -> None:
    dev.register(SCALE)
    for _ in range(2):
        scaled(dev)
        host.kill_worker()
        with pytest.raises(vgc.DeviceLost):
            until_refused(lambda: scaled(dev))
        dev.reset()
        assert scaled(dev) == SCALED
    dev.unregister("scale")
    host.kill_worker()
    with pytest.raises(vgc.DeviceLost):
        until_refused(lambda: dev.zeros(4))
    dev.reset()
    assert registered(dev) == []


def test_it_is_migrated_to_another_worker(host: GuestHost, dev: vgc.Device) -> None:
    async def migrate(daemon: Daemon) -> MigrationReport:
        vm = next(iter(daemon.vms.values()))
        assert vm.choice is not None
        return await vm.migrate(replace(vm.choice, pes=1))

    dev.register(SCALE)
    function = dev.function("scale")
    x, y = dev.to_device(np.ones(4, np.float32)), dev.zeros(4, "float32")
    function[1, 4](4, 2, x, y)
    assert host.daemon.begin(migrate).result(ANSWERS_WITHIN_S).ok
    function[1, 4](4, 3, x, y)
    assert np.array_equal(y.get(), [3, 3, 3, 3])
    out = np.zeros(1, np.int32)
    dev.call("count", grid=1, block=1, args=[vgc.Out(out)])
    assert out[0] == 2
    assert list(dev.register(SCALE)) == ["scale", "count"]
    host.kill_worker()
    with pytest.raises(vgc.DeviceLost):
        until_refused(lambda: dev.zeros(4))
    dev.reset()
    assert scaled(dev) == SCALED
    dev.unregister("scale")
    assert registered(dev) == []


def test_the_list(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    assert registered(dev) == []
    dev.register(SCALE, keep=True)
    for _ in range(5):
        scaled(dev)
    with open_device(host.link, tmp_path / "state") as other:
        scale, count = registered(other)
    assert scale.signature == "scale(int32, float32, pointer, pointer)"
    assert (scale.launches, count.launches) == (5, 0)
    assert 0 < scale.mean_ns <= scale.p99_ns
    assert scale.is_kept
    assert scale.program == count.program != 0
    assert scale.problem == ""


def test_ten_thousand_functions(dev: vgc.Device) -> None:
    kernels = "\n".join(f'extern "C" __global__ void f{i}(int *out) {{ *out = {i}; }}' for i in range(10_000))
    dev.register(kernels, ["-O0"])
    listed = registered(dev)
    assert [one.name for one in listed] == [f"f{i}" for i in range(10_000)]
    out = np.zeros(1, np.int32)
    dev.call("f9999", grid=1, block=1, args=[vgc.Out(out)])
    assert out[0] == 9999
    dev.unregister("f5000")
    assert registered(dev) == []


def test_many_programs_are_refused_at_the_limit(dev: vgc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MAX_PROGRAMS", 3)
    sources = [f'extern "C" __global__ void f{i}() {{}}' for i in range(4)]
    for source in sources[:3]:
        dev.register(source)
    used = dev.usage()
    with pytest.raises(vgc.ResourcesExhausted, match="has registered 3 programs, which is the limit"):
        dev.register(sources[3])
    assert dev.usage().num_programs == used.num_programs
    dev.register(sources[0])
    dev.unregister("f1")
    dev.register(sources[3])
    assert [one.name for one in registered(dev)] == ["f0", "f2", "f3"]


def test_it_registers_until_its_memory_is_used_up(dev: vgc.Device) -> None:
    source = '__device__ char much[20 << 20]; extern "C" __global__ void g{0}() {{ much[0]++; }}'
    numbers = itertools.count()

    def register() -> None:
        number = next(numbers)
        dev.register(source.format(number).replace("much", f"much{number}"))

    with pytest.raises(vgc.OutOfMemory, match="bytes of device memory"):
        until_refused(register)
    assert len(registered(dev)) == 3


@contextmanager
def unregistering(host: GuestHost, state_dir: Path, name: str) -> Iterator[threading.Event]:
    """Has begun to unregister a function, in a second context; the event says that it has ended.

    Its end is waited for behind the block.
    """
    done = threading.Event()
    with open_device(host.link, state_dir) as other, open_device(host.link, state_dir) as third:
        function = third.function(name)

        def unregister() -> None:
            other.unregister(name)
            done.set()

        thread = threading.Thread(target=unregister)
        thread.start()
        with pytest.raises(vgc.NotFound):  # once it has begun
            until_refused(lambda: function.launch(1, 1, *[0] * len(function.params)))
        yield done
        thread.join()


def test_unregistering_waits_for_launches(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    dev.register(WAIT)
    go, stream = dev.zeros(1, "int32"), dev.stream()
    running = dev.function("wait").launch_async(1, 1, go, stream=stream)
    with unregistering(host, tmp_path / "state", "rest") as done:
        assert not done.is_set()
        go.set(np.ones(1, np.int32))
        running.wait()
    assert done.is_set()


def test_unregistering_waits_for_copies_to_its_variables(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    variable = dev.register(SCALE + REST).variable("calls")
    go, stream = dev.zeros(1, "int32"), dev.stream()
    running = dev.compile(WAIT).wait.launch_async(1, 1, go, stream=stream)
    source = dev.region_array(1, "int32")
    source[:] = 7
    copying = ffi.new("struct vgc_job **")
    check(lib.vgc_copy_in(dev._handle.pointer, variable.address, ffi.from_buffer(source), 4, stream.number, copying))
    with unregistering(host, tmp_path / "state", "rest") as done:
        assert not done.is_set()
        go.set(np.ones(1, np.int32))
        running.wait()
        check(lib.vgc_job_wait(copying[0], 2**64 - 1))
        lib.vgc_job_release(copying[0])
    assert done.is_set()
    assert dev.info().generation == 1


def test_kept_programs_outlast_the_guest_and_the_daemon(tmp_path: Path) -> None:
    with guest_host(tmp_path, programs=tmp_path / "programs") as host:
        with open_device(host.link, tmp_path / "state") as dev:
            dev.register(SCALE, keep=True)
            dev.register(WAIT)
        host.restart_guest()
        with open_device(host.link, tmp_path / "state2") as dev:
            assert [one.name for one in registered(dev)] == ["scale", "count"]
            assert scaled(dev) == SCALED
    with guest_host(tmp_path, programs=tmp_path / "programs") as host, open_device(host.link, tmp_path / "3") as dev:
        assert scaled(dev) == SCALED
        dev.unregister("scale")
    with guest_host(tmp_path, programs=tmp_path / "programs") as host, open_device(host.link, tmp_path / "4") as dev:
        assert registered(dev) == []


def test_two_vms_may_use_a_name_for_different_programs(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with (
        guest_host(folders[0]) as first,
        guest_host(folders[1], name="b") as second,
        open_device(first.link, folders[0] / "state") as one,
        open_device(second.link, folders[1] / "state") as other,
    ):
        one.register(SCALE)
        with pytest.raises(vgc.NotFound):
            other.function("scale")
        other.register(OTHER)
        assert scaled(one) == SCALED
        assert scaled(other) == [-1.0] * 8


def test_a_kept_program_that_no_longer_compiles(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    with guest_host(tmp_path, programs=folder) as host, open_device(host.link, tmp_path / "state") as dev:
        dev.register(SCALE, keep=True)
    (file,) = folder.rglob("*.program")
    program = codec.unpack(file.read_bytes(), registrations.RegisteredProgram, "")
    program = registrations.RegisteredProgram.of(
        program.kind, program.options, b"not CUDA any more", program.num_functions, program.signatures
    )
    file.write_bytes(codec.pack(program))
    with guest_host(tmp_path, programs=folder) as host, open_device(host.link, tmp_path / "state2") as dev:
        scale, _count = registered(dev)
        assert scale.name == "scale"
        assert "error" in scale.problem
        told = host.daemon.ask(lambda daemon: next(iter(daemon.vms.values())).registrations.problem_of(1))
        assert told == scale.problem
        with pytest.raises(vgc.CompileError, match="'scale' is registered, but its program cannot be loaded any more"):
            scaled(dev)
        dev.register(SCALE.replace("by * in", "by * 1 * in"), keep=True)
        assert scaled(dev) == SCALED
