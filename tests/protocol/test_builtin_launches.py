"""Built-in functions as the guest's driver launches and calls them, against the real daemon, worker and CPU engine."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.guest import open_device
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.guest_host import GuestHost, guest_host
from tests.waiting import until
from vhost_backend.daemon.migration import MigrationReport
from vhost_backend.daemon.process import worker_of
from vhost_backend.daemon.server import Daemon


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GuestHost]:
    with guest_host(tmp_path) as host:
        yield host


@pytest.fixture
def dev(host: GuestHost, tmp_path: Path) -> Iterator[vgc.Device]:
    with open_device(host.link, tmp_path / "state") as dev:
        yield dev


def gemm(a: Any, b: Any, c: Any, shape: Sequence[int]) -> list[Any]:
    """Arguments of a plain product of matrices; `shape` is m, n, k."""
    m, n, k = shape
    return [0, 0, m, n, k, 1.0, a, k, b, n, 0.0, c, n, 1, 0, 0, m * n]


def call(dev: vgc.Device, name: str, args: Sequence[Any]) -> None:
    dev.call(name, grid=1, block=1, args=args)


@pytest.mark.parametrize("shape", [(3, 5, 7), (400, 300, 500)])
def test_launches_of_one_block_and_of_many(dev: vgc.Device, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    c = dev.zeros((m, n), "float64")
    dev.function("blas.gemm_f64")[1, 1](*gemm(dev.to_device(a), dev.to_device(b), c, shape))
    np.testing.assert_allclose(c.get(), a @ b, rtol=0, atol=1e-12 * k)


def test_a_call_takes_buffers_in_one_chain(dev: vgc.Device) -> None:
    rng = np.random.default_rng(2)
    a, b, c = rng.standard_normal((40, 30)), rng.standard_normal((30, 20)), np.zeros((40, 20))
    call(dev, "blas.gemm_f64", gemm(vgc.In(a), vgc.In(b), vgc.Out(c), (40, 20, 30)))
    np.testing.assert_allclose(c, a @ b, rtol=0, atol=1e-12)
    y = np.ones(30)
    call(dev, "blas.axpy_f64", [30, 2.0, vgc.In(a[0].copy()), 1, vgc.InOut(y), 1])
    np.testing.assert_allclose(y, 1 + 2 * a[0], rtol=1e-15)


def test_steps_follow_one_another_and_later_launches_see_them(dev: vgc.Device) -> None:
    keys = np.random.default_rng(3).standard_normal(1_000_003).astype(np.float32)
    there, stream = dev.to_device(keys), dev.stream()
    ordered, totals = dev.empty(keys.shape), dev.empty(keys.shape)
    dev.function("sort.keys_f32").launch_async(1, 1, there, ordered, 1, keys.size, 0, stream=stream)
    dev.function("scan.max_f32").launch_async(1, 1, ordered, totals, 1, keys.size, 0, stream=stream).wait()
    assert np.array_equal(ordered.get(), np.sort(keys))
    assert np.array_equal(totals.get(), np.sort(keys))


def test_a_call_by_name_takes_a_local_version_into_account(dev: vgc.Device) -> None:
    @dev.local("blas.nrm2_f64")
    def norm(n: int, x: Any, step: int, result: Any) -> None:
        result[0] = -np.linalg.norm(x[: n * step : step])

    x, result = np.full(4, 3.0), np.zeros(1)
    for side, expected in (("host", 6.0), ("cpu", -6.0)):
        outcome = dev.call_named("blas.nrm2_f64", 4, vgc.In(x), 1, vgc.Out(result), side=side)
        assert (outcome.side, result[0]) == (side, expected)


def test_they_are_listed_and_counted(dev: vgc.Device) -> None:
    call(dev, "blas.nrm2_f64", [3, vgc.In(np.ones(3)), 1, vgc.Out(np.zeros(1))])
    listed = {one.name: one for one in dev.list_functions()}
    assert listed["blas.nrm2_f64"].signature == "blas.nrm2_f64(int64, pointer, int64, pointer)"
    assert (listed["blas.nrm2_f64"].launches, listed["blas.nrm2_f64"].program) == (1, 0)
    assert listed["fft.c2c_f32"].launches == 0


def test_names_that_are_none_are_told_apart(dev: vgc.Device) -> None:
    for name in ("blas.gemm_i32", "blas.", "gemm_f64", "blas.gemm_f64 "):
        with pytest.raises(vgc.NotFound, match=rf"no function '{name}'; there are: none; and \d+ built-in ones"):
            call(dev, name, [])
        with pytest.raises(vgc.NotFound):
            dev.function(name)


def test_wrong_launches_are_refused_by_name_and_parameter(dev: vgc.Device) -> None:
    function = dev.function("blas.gemm_f64")
    a, b, c = (dev.zeros((4, 4), "float64") for _ in range(3))
    right = gemm(a, b, c, (4, 4, 4))
    function[1, 1](*right)
    with pytest.raises(vgc.InvalidArgument, match=r"grid 2 x 1 x 1; allowed for blas.gemm_f64, which is built in"):
        function[2, 1](*right)
    with pytest.raises(vgc.ResourcesExhausted, match="has 2 threads; allowed: 1"):
        function[1, 2](*right)
    for index, value, why in (
        (0, 2, "transpose_a is 2; allowed: 0 or 1"),
        (2, -1, "m is -1; allowed: 0 to"),
        (7, 3, "lda is 3; allowed: 4 to"),
        (11, b, "b and c overlap; allowed: memory apart"),
    ):
        with pytest.raises(vgc.InvalidArgument, match=rf"blas.gemm_f64: {why}"):
            function[1, 1](*right[:index], value, *right[index + 1 :])
    with pytest.raises(vgc.InvalidAddress, match=r"160 bytes at .* do not lie inside one allocation"):
        function[1, 1](*gemm(a, b, c, (5, 4, 4)))


def test_memory_of_another_context_is_refused(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    with open_device(host.link, tmp_path / "state") as other:
        x = other.to_device(np.ones(3))
        with pytest.raises(vgc.InvalidAddress):
            dev.function("blas.nrm2_f64").launch(1, 1, 3, x.address, 1, dev.empty(1, "float64"))


def test_another_context_cannot_take_their_names(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    head = 'extern "C" __global__ void mine(long long n, const double *x, long long incx, double *result)'
    with open_device(host.link, tmp_path / "state") as other:
        other.register(f'{head} __asm__("blas.nrm2_f64"); {head} {{ *result = -1; }}')
        x, norm = np.full(4, 3.0), np.zeros(1)
        call(dev, "blas.nrm2_f64", [4, vgc.In(x), 1, vgc.Out(norm)])
        assert norm[0] == 6
        there = dev.zeros(1, "float64")
        dev.function("blas.nrm2_f64")[1, 1](4, dev.to_device(x), 1, there)
        assert there.get()[0] == 6


def test_wrong_calls_are_refused(dev: vgc.Device) -> None:
    a, b, c = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    with pytest.raises(
        vgc.InvalidArgument, match=r"blas.gemm_f64 writes c, which is an IN argument; allowed: OUT, INOUT"
    ):
        call(dev, "blas.gemm_f64", gemm(vgc.In(a), vgc.In(b), vgc.In(c), (4, 4, 4)))
    with pytest.raises(vgc.InvalidArgument, match=r"blas.gemm_f64 needs 160 bytes for a, whose argument has 128"):
        call(dev, "blas.gemm_f64", gemm(vgc.In(a), vgc.In(b), vgc.Out(c), (5, 4, 4)))


def test_wrong_data_ends_its_call_alone(dev: vgc.Device) -> None:
    starts, values = np.array([0, 1, 2], np.int64), np.ones(2)
    for columns, expected in (([0, 1], None), ([0, 7], "blas.*|sparse.*index"), ([-1, 0], "sparse")):
        y = np.zeros(2)
        args = [2, 2, 2, 1.0, vgc.In(starts), vgc.In(np.array(columns, np.int64)), vgc.In(values)]
        args += [vgc.In(np.ones(2)), 0.0, vgc.Out(y)]
        if expected is None:
            call(dev, "sparse.spmv_f64_i64", args)
            assert np.array_equal(y, [1, 1])
        else:
            with pytest.raises(vgc.InvalidArgument, match=expected):
                call(dev, "sparse.spmv_f64_i64", args)


def test_its_scratch_memory_is_the_vms(dev: vgc.Device) -> None:
    size = 2 << 20
    keys, out = dev.zeros(size, "int32"), dev.empty(size, "int32")
    rest = dev.alloc(dev.info().memory_bytes - dev.usage().memory_used_bytes - (64 << 10))
    with pytest.raises(vgc.OutOfMemory, match=r"the launch needs [0-9]+ bytes while it runs; [0-9]+ bytes are free"):
        dev.function("sort.keys_i32").launch(1, 1, keys, out, 1, size, 0)
    rest.free()
    dev.function("sort.keys_i32").launch(1, 1, keys, out, 1, size, 0)


def test_many_elements_multiply_matrices_at_once(tmp_path: Path) -> None:
    size = 1900
    with guest_host(tmp_path, pes=40) as host, open_device(host.link, tmp_path / "state") as dev:
        a, c = dev.to_device(np.ones((size, size), np.float32)), dev.zeros((size, size))
        for _ in range(10):
            dev.function("blas.gemm_f32")[1, 1](*gemm(a, a, c, (size, size, size)))
        assert np.all(c.get() == size)


WAITS: Final = """
    #include <cooperative_groups.h>
    extern "C" __global__ void wait(volatile int *flags) {
        cooperative_groups::this_grid().sync();
        flags[0] = 1;
        while (flags[1] == 0) ;
    }"""


def test_workspace_that_keeps_guards_of_a_grid_is_not_used(host: GuestHost, dev: vgc.Device) -> None:
    pid = host.daemon.ask(lambda daemon: next(iter(daemon.vms.values())).worker_pid)
    assert pid is not None
    worker = worker_of(pid)
    flags, stream, program = dev.zeros(2, "int32"), dev.stream(), dev.compile(WAITS)
    keys, ordered = dev.to_device(np.arange(60_000, dtype=np.int32)[::-1].copy()), dev.empty(60_000, "int32")
    sort, args = dev.function("sort.keys_i32"), (1, 1, keys, ordered, 1, keys.size, 0)
    waits = program.wait.launch_async(64, 1, flags, cooperative=True, stream=stream)
    sorts = sort.launch_async(*args, stream=stream)  # gets the same workspace
    until(lambda: flags.get()[0] == 1)
    limit = resource.prlimit(worker, resource.RLIMIT_DATA)
    resource.prlimit(worker, resource.RLIMIT_DATA, (1 << 20, limit[1]))  # pages do not become writable any more
    flags.set(np.ones(2, np.int32))
    waits.wait()
    with pytest.raises(vgc.ResourcesExhausted, match="no memory for what the function needs while it runs"):
        sorts.wait()
    resource.prlimit(worker, resource.RLIMIT_DATA, limit)
    sort.launch(*args)
    assert np.array_equal(ordered.get(), np.arange(60_000))
    assert dev.info().generation == 1


def test_small_calls_take_no_memory_of_the_vm(dev: vgc.Device) -> None:
    x, norm = dev.to_device(np.full(1000, 2.0)), dev.zeros(1, "float64")
    used = dev.usage().memory_used_bytes
    dev.function("blas.nrm2_f64")[1, 1](1000, x, 1, norm)
    assert norm.get()[0] == pytest.approx(np.sqrt(4000))
    assert dev.usage().memory_used_bytes == used


def test_ids_outlast_the_worker_and_its_replacement(host: GuestHost, dev: vgc.Device) -> None:
    async def migrate(daemon: Daemon) -> MigrationReport:
        vm = next(iter(daemon.vms.values()))
        assert vm.choice is not None
        return await vm.migrate(replace(vm.choice, pes=1))

    function = dev.function("blas.nrm2_f64")
    x, norm = dev.to_device(np.full(4, 3.0)), dev.zeros(1, "float64")
    function[1, 1](4, x, 1, norm)
    assert host.daemon.begin(migrate).result(ANSWERS_WITHIN_S).ok
    function[1, 1](1, x, 1, norm)
    assert norm.get()[0] == 3
    host.lose_worker()
    with pytest.raises(vgc.DeviceLost):
        dev.zeros(1)
    dev.reset()
    x, norm = dev.to_device(np.full(4, 3.0)), dev.zeros(1, "float64")
    dev.function("blas.nrm2_f64")[1, 1](4, x, 1, norm)
    assert norm.get()[0] == 6


def test_the_end_of_a_context_ends_its_calls(host: GuestHost, dev: vgc.Device, tmp_path: Path) -> None:
    size = 1400
    with open_device(host.link, tmp_path / "state") as other:
        a, c = other.zeros((size, size), "float64"), other.zeros((size, size), "float64")
        function, stream = other.function("blas.gemm_f64"), other.stream()
        for _ in range(30):
            function.launch_async(1, 1, *gemm(a, a, c, (size, size, size)), stream=stream)
    norm = dev.zeros(1, "float64")
    dev.function("blas.nrm2_f64")[1, 1](3, dev.to_device(np.full(3, 2.0)), 1, norm)
    assert norm.get()[0] == np.sqrt(12)
