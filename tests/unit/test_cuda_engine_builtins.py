"""Built-in functions on the CUDA engine: their kernels run on the software GPU, in device memory of the fake driver."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.fakes.graph import node, nodes_request
from tests.unit import builtins_rig
from tests.unit.cuda_builtins_bench import ONE, Bench, bench, params_of
from tests.unit.cuda_rig import MIB, CHalf
from tests.waiting import until
from vhost_backend.engines.cuda.builtins import sources
from virtio_proto.schema import Opcode, Status

OUT_OF_MEMORY: Final = 2
SHORT_NS: Final = 200_000
"""Kernels that take less share a batch of a graph."""

STATUSES: Final = 256


@pytest.fixture
def gpu() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.fixture
def calls(gpu: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Calls of `builtins_rig` go to the engine."""
    monkeypatch.setattr(builtins_rig, "run", gpu.run)
    return gpu


def axpy(n: int, x: int, y: int, alpha: float = 2.0) -> bytes:
    return params_of("blas.axpy_f32", n=n, x=x, y=y, alpha=alpha, incx=1, incy=1)


def bincount(n: int, bins: int, data: int, counts: int) -> bytes:
    return params_of("count.bincount_i32", **{"n": n, "bins": bins, "in": data, "counts": counts})


# ---- results -------------------------------------------------------------------------------------

RNG: Final = np.random.default_rng(5)
FLOATS: Final = RNG.standard_normal(40_000).astype(np.float32)


def test_each_group_of_functions_has_a_source() -> None:
    groups = {builtins_rig.text(builtin.name).partition(".")[0] for builtin in builtins_rig.builtins()}
    assert groups == set(sources.MODULES)


@pytest.mark.usefixtures("calls")
def test_products_of_matrices() -> None:
    a, b = RNG.standard_normal((70, 900)).astype(np.float32), RNG.standard_normal((900, 50)).astype(np.float32)
    out = builtins_rig.call(
        "blas.gemm_f32",
        m=70, n=50, k=900, alpha=1.0, a=a, lda=900, b=b, ldb=50, c=np.zeros((70, 50), np.float32), ldc=50, batch=1,
        stride_a=0, stride_b=0, stride_c=70 * 50,
    )  # fmt: skip
    np.testing.assert_allclose(out["c"], a @ b, rtol=1e-4, atol=1e-3)


def test_sums_in_two_launches(calls: Bench) -> None:
    before = calls.driver.count("cuLaunchKernel")
    out = builtins_rig.call(
        "reduce.sum_f32", **{"in": FLOATS, "out": np.zeros(1, np.float32)}, outer=1, n=40_000, inner=1
    )
    assert out["out"][0] == pytest.approx(FLOATS.astype(np.float64).sum(), abs=0.01)
    assert calls.driver.count("cuLaunchKernel") == before + 2


@pytest.mark.usefixtures("calls")
def test_scans() -> None:
    out = builtins_rig.call("scan.max_f32", **{"in": FLOATS, "out": np.zeros_like(FLOATS)}, outer=1, n=40_000)
    assert np.array_equal(out["out"], np.maximum.accumulate(FLOATS))


@pytest.mark.usefixtures("calls")
def test_sorted_keys() -> None:
    out = builtins_rig.call("sort.keys_f32", **{"in": FLOATS, "out": np.zeros_like(FLOATS)}, outer=1, n=40_000)
    assert np.array_equal(out["out"], np.sort(FLOATS))


@pytest.mark.usefixtures("calls")
def test_fourier_transforms() -> None:
    data = (RNG.standard_normal((6, 101)) + 1j * RNG.standard_normal((6, 101))).astype(np.complex128)
    values: dict[str, Any] = {"in": data, "out": np.zeros_like(data)}
    out = builtins_rig.call("fft.c2c_f64", **values, batch=1, rank=2, n0=6, n1=101, n2=1, inverse=0)
    np.testing.assert_allclose(out["out"], np.fft.fft2(data), atol=1e-10)


@pytest.mark.usefixtures("calls")
def test_random_numbers() -> None:
    out = builtins_rig.call("random.uniform_f64", out=np.zeros(1000), n=1000, seed=7, offset=3)["out"]
    assert 0 <= out.min() < 0.1
    assert 0.9 < out.max() < 1


@pytest.mark.usefixtures("calls")
def test_operations_on_elements() -> None:
    out = builtins_rig.call(
        "math.add_f32",
        a=FLOATS, b=FLOATS[::-1].copy(), out=np.zeros_like(FLOATS),
        shape0=40_000, shape1=1, shape2=1, shape3=1, a_stride0=1, b_stride0=1,
    )  # fmt: skip
    assert np.array_equal(out["out"], FLOATS + FLOATS[::-1])


@pytest.mark.usefixtures("calls")
def test_calls_that_fail_because_of_the_data() -> None:
    values: dict[str, Any] = {"in": np.array([0, 3, 9], np.int32), "counts": np.zeros(4, np.uint64)}
    with pytest.raises(builtins_rig.FailedError, match="an element of in is negative, or bins or more"):
        builtins_rig.call("count.bincount_i32", **values, n=3, bins=4)
    values["in"] = np.array([0, 3, 3], np.int32)
    assert builtins_rig.call("count.bincount_i32", **values, n=3, bins=4)["counts"].tolist() == [1, 0, 0, 2]


# ---- waiting for modules -------------------------------------------------------------------------


def test_a_call_and_what_follows_it_in_its_stream_wait_for_its_module(gpu: Bench) -> None:
    x, y = gpu.put(struct.pack("<2f", 1, 2)), gpu.put(struct.pack("<2f", 10, 20))
    call = gpu.launch("blas.axpy_f32", axpy(2, x, y))
    body = {"dst": x, "size": 8, "value": 0, "unit": 4}
    fill = gpu.rig.driver.submit(Opcode.FILL, body, context=gpu.context)
    asked = gpu.asked()
    assert asked.name == "blas"
    assert struct.unpack("<2f", gpu_other_stream(gpu, x)) == (1, 2)
    gpu.answer(asked)
    assert gpu.reply(call)[0] is gpu.reply(fill)[0] is Status.OK
    assert struct.unpack("<2f", gpu.get(y, 8)) == (12, 24)
    assert gpu.reply(gpu.launch("blas.axpy_f32", axpy(2, y, x)))[0] is Status.OK  # nobody is asked again
    assert not gpu.rig.said


def gpu_other_stream(gpu: Bench, address: int) -> bytes:
    options: dict[str, Any] = {"context": gpu.context, "stream": 1, "writable_len": 8}
    return gpu.rig.ok(Opcode.COPY_OUT, {"src": address, "size": 8}, **options).payload


def test_calls_of_a_module_that_does_not_compile_fail_and_the_next_one_tries_again(gpu: Bench) -> None:
    x, y = gpu.put(struct.pack("<f", 1)), gpu.put(struct.pack("<f", 10))
    waiting = [gpu.launch("blas.axpy_f32", axpy(1, x, y), stream=stream) for stream in (0, 0, 1)]
    until(lambda: gpu.rig.usage().in_flight == len(waiting))
    gpu.answer(gpu.asked(), ok=False, log="ptxas is missing")
    for pending in waiting:
        why = "blas.axpy_f32: the host cannot compile its kernels: ptxas is missing"
        assert gpu.reply(pending) == (Status.COMPILE_FAILED, why)
    later = gpu.launch("blas.axpy_f32", axpy(1, x, y))
    gpu.answer(gpu.asked())
    assert gpu.reply(later)[0] is Status.OK
    assert struct.unpack("<f", gpu.get(y, 4)) == (12,)


def test_modules_are_charged_to_the_quota_and_come_once_there_is_room() -> None:
    with bench(4 * MIB) as gpu:
        full = gpu.rig.alloc(gpu.context, gpu.rig.plane.memory_bytes - gpu.rig.usage().memory_used_bytes - 4096)
        call = gpu.launch("blas.axpy_f32", axpy(1, full, full + 512))
        assert isinstance(gpu.rig.engine, CHalf)
        gpu.rig.engine.needed_bytes = MIB
        gpu.answer(gpu.asked())
        status, text = gpu.reply(call)
        assert status is Status.OUT_OF_MEMORY
        assert text.startswith(f"blas.axpy_f32: the program takes {MIB} bytes of device memory")
        gpu.rig.ok(Opcode.FREE, {"address": full}, context=gpu.context)
        x, y = gpu.put(struct.pack("<f", 1)), gpu.put(struct.pack("<f", 10))
        call = gpu.launch("blas.axpy_f32", axpy(1, x, y))
        before = gpu.rig.usage().memory_used_bytes
        gpu.answer(gpu.asked())
        assert gpu.reply(call)[0] is Status.OK
        assert gpu.rig.usage().memory_used_bytes == before + MIB


def test_a_module_that_cannot_be_used_is_unloaded(gpu: Bench) -> None:
    x, y = gpu.put(struct.pack("<f", 1)), gpu.put(struct.pack("<f", 10))
    call = gpu.launch("blas.axpy_f32", axpy(1, x, y))
    gpu.driver.inject("cuMemHostAlloc", OUT_OF_MEMORY)
    gpu.answer(gpu.asked())
    status, text = gpu.reply(call)
    assert status is Status.OUT_OF_MEMORY
    assert "no pinned memory for statuses: CUDA_ERROR_OUT_OF_MEMORY" in text
    assert gpu.rig.usage().num_programs == 0
    call = gpu.launch("blas.axpy_f32", axpy(1, x, y))
    gpu.answer(gpu.asked())
    assert gpu.reply(call)[0] is Status.OK


def test_the_end_of_a_context_cancels_calls_that_wait(gpu: Bench) -> None:
    other = gpu.rig.context()
    x = gpu.rig.alloc(other, 1024)
    call = gpu.launch("blas.axpy_f32", axpy(1, x, x + 512), context=other)
    asked = gpu.asked()
    gpu.rig.cold(Opcode.CONTEXT_DESTROY, context=other)
    assert gpu.reply(call)[0] is Status.CANCELLED
    gpu.answer(asked)
    assert gpu.rig.usage().num_programs == 1


def test_guests_neither_see_nor_unload_a_module(gpu: Bench) -> None:
    x = gpu.put(bytes(1024))
    call = gpu.launch("blas.axpy_f32", axpy(1, x, x + 512))
    gpu.answer(gpu.asked())
    assert gpu.reply(call)[0] is Status.OK
    (module,) = gpu.rig.server.programs
    for context in (gpu.context, gpu.rig.context()):
        reply = gpu.rig.driver.request(
            Opcode.PROGRAM_UNLOAD, {"program": module.id}, context=context, writable_len=1024
        )
        assert reply.status is Status.NOT_FOUND
    name = b"blas_axpy_f32"
    body = {"program": 0, "name_len": len(name)}
    reply = gpu.rig.cold(Opcode.FUNCTION_LOOKUP, body, name, context=gpu.context, writable_len=1024)
    assert reply.status is Status.NOT_FOUND


# ---- in flight -----------------------------------------------------------------------------------


def test_each_call_in_flight_gets_its_own_answer(gpu: Bench) -> None:
    """Every third call fails."""
    bad, good = gpu.put(struct.pack("<2i", 1, -1)), gpu.put(struct.pack("<2i", 1, 1))
    counts = gpu.put(bytes(16))
    first = gpu.launch("count.bincount_i32", bincount(2, 2, good, counts))
    gpu.answer(gpu.asked())
    assert gpu.reply(first)[0] is Status.OK
    gpu.driver.hold()
    pending = [
        gpu.launch("count.bincount_i32", bincount(2, 2, bad if i % 3 == 0 else good, counts), stream=i % 4)
        for i in range(60)
    ]
    until(lambda: gpu.rig.usage().in_flight == len(pending))
    gpu.driver.go_on()
    for i, one in enumerate(pending):
        assert gpu.reply(one)[0] is (Status.INVALID_ARGUMENT if i % 3 == 0 else Status.OK), i


def test_graphs_wait_for_modules_and_end_with_the_call_that_fails(gpu: Bench) -> None:
    x, y = gpu.put(struct.pack("<2f", 1, 2)), gpu.put(struct.pack("<2f", 10, 20))
    data, counts = gpu.put(struct.pack("<2i", 1, 1)), gpu.put(bytes(16))
    add = launch_node(gpu, "blas.axpy_f32", axpy(2, x, y))
    count = launch_node(gpu, "count.bincount_i32", bincount(2, 2, data, counts))
    graph = gpu.rig.ok(Opcode.GRAPH_CREATE, *nodes_request([add, count, add]), context=gpu.context).value
    for expected, status in (((14, 28), Status.OK), ((16, 32), Status.INVALID_ARGUMENT)):
        pending = gpu.rig.driver.submit(Opcode.GRAPH_LAUNCH, {"graph": graph}, context=gpu.context, writable_len=1024)
        if status is Status.OK:
            gpu.answer(gpu.asked())
            gpu.answer(gpu.asked())
        assert gpu.reply(pending)[0] is status
        assert struct.unpack("<2f", gpu.get(y, 8)) == expected
        body = {"dst": data, "size": 8, "value": 0xFFFFFFFF, "unit": 4}
        gpu.rig.ok(Opcode.FILL, body, context=gpu.context)


def test_a_call_that_fails_behind_another_in_its_batch_is_named() -> None:
    """More often than there are words for statuses: each is given back."""
    with bench(outside=False) as gpu:
        x, counts = gpu.put(bytes(1024)), gpu.put(bytes(16))
        bad = gpu.put(struct.pack("<2i", 1, -1))
        for name, params in (
            ("blas.axpy_f32", axpy(1, x, x + 512)),
            ("count.bincount_i32", bincount(0, 2, bad, counts)),
        ):
            pending = gpu.launch(name, params)
            gpu.answer(gpu.asked())
            assert gpu.reply(pending)[0] is Status.OK
        until(lambda: gpu.rig.driver.wait(gpu.launch("blas.axpy_f32", axpy(1, x, x + 512))).exec_ns < SHORT_NS)
        nodes = [
            launch_node(gpu, "blas.axpy_f32", axpy(1, x, x + 512)),
            launch_node(gpu, "count.bincount_i32", bincount(2, 2, bad, counts)),
        ]
        graph = gpu.rig.ok(Opcode.GRAPH_CREATE, *nodes_request(nodes), context=gpu.context).value
        for _ in range(STATUSES + 50):
            body = {"graph": graph}
            reply = gpu.rig.driver.request(Opcode.GRAPH_LAUNCH, body, context=gpu.context, writable_len=1024)
            assert reply.status is Status.INVALID_ARGUMENT
            assert reply.text == "node 1: count.bincount_i32: an element of in is negative, or bins or more"


def launch_node(gpu: Bench, name: str, params: bytes) -> Any:
    return node(Opcode.LAUNCH, {"function": gpu.ids[name], "param_len": len(params), **ONE}, params)


def test_errors_of_the_driver_name_the_function(gpu: Bench) -> None:
    x = gpu.put(bytes(1024))
    first = gpu.launch("blas.axpy_f32", axpy(1, x, x + 512))
    gpu.answer(gpu.asked())
    assert gpu.reply(first)[0] is Status.OK
    gpu.driver.inject("cuLaunchKernel", 701)
    status, text = gpu.reply(gpu.launch("blas.axpy_f32", axpy(1, x, x + 512)))
    assert status is Status.LAUNCH_FAILED
    assert text.startswith("kernel blas.axpy_f32: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
