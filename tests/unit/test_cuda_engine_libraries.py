"""Built-in functions on the CUDA engine with cuBLAS and cuFFT: fakes that compute in the fake driver's memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.fakes import cuda_libraries
from tests.fakes.graph import node, nodes_request
from tests.unit import builtins_rig
from tests.unit.cuda_builtins_bench import ONE, Bench, bench, params_of
from tests.unit.cuda_rig import MIB, CHalf, Libraries, fake_driver
from vhost_backend._dataplane import lib
from vhost_backend.errors import EngineError
from virtio_proto.schema import Opcode, Status

GEMM: Final = "cublasGemmStridedBatchedEx_64"
EXECS: Final = ("cufftExecC2C", "cufftExecZ2Z", "cufftExecR2C", "cufftExecD2Z", "cufftExecC2R", "cufftExecZ2D")
PLANS: Final = 16
RNG: Final = np.random.default_rng(11)
BLAS_ERRORS: Final = {"ALLOC_FAILED": 3, "NOT_SUPPORTED": 15}
EXECUTION_FAILED: Final = 13


def both(*, required: bool = False) -> Libraries:
    return Libraries(cuda_libraries.build("cublas"), cuda_libraries.build("cufft"), required)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Calls of `builtins_rig` go to an engine with both libraries."""
    with bench(libraries=both()) as made:
        monkeypatch.setattr(builtins_rig, "run", made.run)
        yield made


def transforms(gpu: Bench) -> int:
    return sum(gpu.driver.count(name) for name in EXECS)


def gemm(dtype: Any = np.float32, *, beta: float = 0.0, m: int = 5, n: int = 4, k: int = 3, **changes: Any) -> Any:
    """Calls blas.gemm for small matrices, and returns its result and numpy's."""
    a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    c = RNG.standard_normal((m, n)).astype(dtype)
    values = {
        "m": m, "n": n, "k": k, "alpha": 1.5, "beta": beta, "a": a, "lda": k, "b": b, "ldb": n, "c": c.copy(), "ldc": n,
        "batch": 1, "stride_a": 0, "stride_b": 0, "stride_c": m * n,
    }  # fmt: skip
    out = builtins_rig.call(f"blas.gemm_f{8 * np.dtype(dtype).itemsize}", **{**values, **changes})
    return out["c"], (1.5 * a.astype(np.float64) @ b + beta * c).astype(dtype)


def complex_array(*shape: int, single: bool = False) -> Any:
    made = RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)
    return made.astype(np.complex64 if single else np.complex128)


def lengths_of(shape: tuple[int, ...]) -> dict[str, int]:
    axes = (*shape[1:], 1, 1)
    return {"batch": shape[0], "rank": len(shape) - 1, "n0": axes[0], "n1": axes[1], "n2": axes[2]}


def fft(name: str, data: Any, out: Any, shape: tuple[int, ...], *, inverse: int = 0) -> Any:
    return builtins_rig.call(name, **{"in": data, "out": out}, **lengths_of(shape), inverse=inverse)["out"]


def axes_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(1, len(shape)))


# ---- products of matrices ------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-3), (np.float32, 1e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_products_are_cublas_s(gpu: Bench, dtype: Any, tolerance: float, beta: float) -> None:
    got, expected = gemm(dtype, beta=beta)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * 10)
    assert gpu.driver.count(GEMM) == 1
    assert gpu.driver.count("cuLaunchKernel") == 0


@pytest.mark.parametrize("transpose_a", [0, 1])
@pytest.mark.parametrize("transpose_b", [0, 1])
def test_batches_of_transposed_matrices_with_gaps(gpu: Bench, transpose_a: int, transpose_b: int) -> None:
    batch, m, n, k, gap = 3, 5, 4, 6, 2
    a = RNG.standard_normal((batch, k, m + gap) if transpose_a else (batch, m, k + gap))
    b = RNG.standard_normal((n, k + gap) if transpose_b else (k, n + gap))  # one for all
    out = builtins_rig.call(
        "blas.gemm_f64",
        transpose_a=transpose_a, transpose_b=transpose_b, m=m, n=n, k=k, alpha=1.0, a=a, lda=a.shape[2], b=b,
        ldb=b.shape[1], c=np.zeros((batch, m, n)), ldc=n, batch=batch, stride_a=a[0].size, stride_b=0, stride_c=m * n,
    )  # fmt: skip
    left = a[:, :, :m].transpose(0, 2, 1) if transpose_a else a[:, :, :k]
    right = b[:, :k].T if transpose_b else b[:, :n]
    np.testing.assert_allclose(out["c"], left @ right, atol=1e-13)
    assert gpu.driver.count(GEMM) == 1


def test_products_that_cublas_does_not_promise_are_computed_by_kernels(gpu: Bench) -> None:
    """Factors of 0: a and b are not read, so their NaN is not seen."""
    nan = np.full((5, 3), np.nan, np.float32)
    got, _ = gemm(alpha=0.0, a=nan)
    assert not got.any()
    assert gpu.driver.count(GEMM) == 0


def test_the_workspace_is_charged_to_the_vm() -> None:
    """A VM of 64 MiB gives a sixty-fourth of that; one of 2 MiB has none for cuBLAS."""
    for memory_bytes, products in ((64 * MIB, 1), (2 * MIB, 0)):
        with bench(memory_bytes, libraries=both()) as gpu, pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins_rig, "run", gpu.run)
            before = gpu.rig.usage().memory_used_bytes
            got, expected = gemm()
            np.testing.assert_allclose(got, expected, atol=1e-5)
            assert gpu.driver.count(GEMM) == products
            assert gpu.rig.usage().memory_used_bytes - before >= memory_bytes // 64 * products


@pytest.mark.parametrize("error", BLAS_ERRORS.values(), ids=BLAS_ERRORS.keys())
@pytest.mark.parametrize("call", [GEMM, "cublasSetWorkspace_v2", "cublasSetStream_v2"])
def test_kernels_compute_products_that_cublas_refuses(gpu: Bench, error: int, call: str) -> None:
    gpu.driver.inject(call, error)
    got, expected = gemm(beta=0.5)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert gpu.driver.count("cuLaunchKernel") == 1
    gemm()
    assert gpu.driver.count("cuLaunchKernel") == 1  # the next product is cuBLAS's again


def test_a_product_that_cublas_may_have_begun_is_computed_anew_or_fails(gpu: Bench) -> None:
    """Computed anew if c is not read; else it may have been changed."""
    gpu.driver.inject(GEMM, EXECUTION_FAILED)
    got, expected = gemm()
    np.testing.assert_allclose(got, expected, atol=1e-5)
    gpu.driver.inject(GEMM, EXECUTION_FAILED)
    with pytest.raises(AssertionError, match=r"blas.gemm_f32: a library of the host failed, and may have changed"):
        gemm(beta=0.5)


# ---- Fourier transforms --------------------------------------------------------------------------

SHAPES: Final = [(2, 30), (3, 4, 5), (1, 3, 2, 8)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("single", [False, True], ids=["f64", "f32"])
def test_complex_transforms_are_cufft_s(gpu: Bench, shape: tuple[int, ...], inverse: int, single: bool) -> None:
    data = complex_array(*shape, single=single)
    name = "fft.c2c_f32" if single else "fft.c2c_f64"
    out = fft(name, data, np.zeros_like(data), shape, inverse=inverse)
    expected = (np.fft.ifftn if inverse else np.fft.fftn)(data, axes=axes_of(shape))
    np.testing.assert_allclose(out, expected, atol=1e-4 if single else 1e-12)
    assert transforms(gpu) == 1
    assert gpu.driver.count("cuLaunchKernel") == inverse  # which divides by the length


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("single", [False, True], ids=["f64", "f32"])
def test_transforms_of_real_arrays_are_cufft_s(gpu: Bench, shape: tuple[int, ...], single: bool) -> None:
    data = RNG.standard_normal(shape).astype(np.float32 if single else np.float64)
    expected = np.fft.rfftn(data, axes=axes_of(shape))
    out = fft("fft.r2c_f32" if single else "fft.r2c_f64", data, np.zeros_like(expected), shape)
    np.testing.assert_allclose(out, expected, atol=1e-4 if single else 1e-12)
    assert transforms(gpu) == 1


@pytest.mark.parametrize("shape", [*SHAPES, (2, 7), (1, 3, 4, 5)])
@pytest.mark.parametrize("single", [False, True], ids=["f64", "f32"])
def test_transforms_to_real_arrays_take_any_numbers_and_keep_them(
    gpu: Bench, shape: tuple[int, ...], single: bool
) -> None:
    """Numbers that no real array has are dropped as numpy drops them."""
    half = complex_array(*shape[:-1], shape[-1] // 2 + 1, single=single)
    expected = np.fft.irfftn(half, shape[1:], axes=axes_of(shape))
    real = np.zeros(shape, np.float32 if single else np.float64)
    out = fft("fft.c2r_f32" if single else "fft.c2r_f64", half, real, shape)
    np.testing.assert_allclose(out, expected, atol=1e-5 if single else 1e-12)
    assert transforms(gpu) == 1


def test_shapes_share_plans_and_the_one_not_used_for_longest_goes(gpu: Bench) -> None:
    for length in (*range(1, PLANS + 1), 1, PLANS + 1, 1, 2):
        data = complex_array(2, length)
        out = fft("fft.c2c_f64", data, np.zeros_like(data), (2, length))
        np.testing.assert_allclose(out, np.fft.fft(data), atol=1e-12)
    assert gpu.driver.count("cufftMakePlanMany64") == PLANS + 2  # 2 was the oldest, and is made again
    assert gpu.driver.count("cufftDestroy") == 2
    assert gpu.driver.number("library_objects") == PLANS + 1  # with the handle of cuBLAS


@pytest.mark.parametrize("call", ["cufftCreate", "cufftMakePlanMany64", "cufftSetStream", "cufftSetWorkArea"])
def test_kernels_compute_transforms_that_cufft_refuses(gpu: Bench, call: str) -> None:
    gpu.driver.inject(call, 2, times=2)
    data = complex_array(2, 30)
    out = fft("fft.c2c_f64", data, np.zeros_like(data), (2, 30))
    np.testing.assert_allclose(out, np.fft.fft(data), atol=1e-12)
    assert transforms(gpu) == 0
    assert gpu.driver.count("cuLaunchKernel") == 1


def test_a_call_without_memory_for_a_plan_that_came_late_is_computed_by_kernels(gpu: Bench) -> None:
    """The plan is missing when the call arrives and its workspace is allocated, and is there when the call is submitted."""
    gpu.driver.inject("cufftMakePlanMany64", 2)
    data = complex_array(2, 30)
    out = fft("fft.c2c_f64", data, np.zeros_like(data), (2, 30))
    np.testing.assert_allclose(out, np.fft.fft(data), atol=1e-12)
    assert gpu.driver.count("cufftMakePlanMany64") == 2
    assert transforms(gpu) == 0


def test_a_transform_that_fails_after_its_input_was_copied_is_computed_by_kernels(gpu: Bench) -> None:
    gpu.driver.inject("cufftExecZ2D", 6)
    half = complex_array(2, 5)
    out = fft("fft.c2r_f64", half, np.zeros((2, 8)), (2, 8))
    np.testing.assert_allclose(out, np.fft.irfft(half, 8), atol=1e-12)


def test_a_transform_in_place_that_may_have_begun_fails(gpu: Bench) -> None:
    address = gpu.put(complex_array(2, 30).tobytes())
    values = {"in": address, "out": address, **lengths_of((2, 30)), "inverse": 0}
    pending = gpu.launch("fft.c2c_f64", params_of("fft.c2c_f64", **values))
    gpu.driver.inject("cufftExecZ2Z", 6)
    gpu.answer(gpu.asked())
    status, text = gpu.reply(pending)
    assert status is Status.LAUNCH_FAILED
    assert text.startswith("fft.c2c_f64: a library of the host failed")


def test_real_numbers_that_are_not_aligned_like_complex_ones_are_transformed_by_kernels(gpu: Bench) -> None:
    data = RNG.standard_normal(9).astype(np.float32)
    there = gpu.put(data.tobytes())
    out = gpu.put(bytes(40))
    values = {"in": there + 4, "out": out, **lengths_of((1, 8)), "inverse": 0}
    pending = gpu.launch("fft.r2c_f32", params_of("fft.r2c_f32", **values))
    gpu.answer(gpu.asked())
    assert gpu.reply(pending)[0] is Status.OK
    np.testing.assert_allclose(np.frombuffer(gpu.get(out, 40), np.complex64), np.fft.rfft(data[1:]), atol=1e-5)
    assert transforms(gpu) == 0


# ---- in graphs -----------------------------------------------------------------------------------


def test_calls_in_graphs_share_the_largest_workspace(gpu: Bench) -> None:
    small, large = complex_array(2, 8), complex_array(4, 100)
    places = [gpu.put(data.tobytes()) for data in (small, large)]
    nodes = []
    for data, address in zip((small, large), places, strict=True):
        values = {"in": address, "out": address, **lengths_of(data.shape), "inverse": 0}
        params = params_of("fft.c2c_f64", **values)
        body = {"function": gpu.ids["fft.c2c_f64"], "param_len": len(params), **ONE}
        nodes.append(node(Opcode.LAUNCH, body, params))
    graph = gpu.rig.ok(Opcode.GRAPH_CREATE, *nodes_request(nodes), context=gpu.context).value
    pending = gpu.rig.driver.submit(Opcode.GRAPH_LAUNCH, {"graph": graph}, context=gpu.context, writable_len=1024)
    gpu.answer(gpu.asked())
    assert gpu.reply(pending)[0] is Status.OK
    for data, address in zip((small, large), places, strict=True):
        got = np.frombuffer(gpu.get(address, data.nbytes), np.complex128).reshape(data.shape)
        np.testing.assert_allclose(got, np.fft.fft(data), atol=1e-10)
    assert transforms(gpu) == 2


# ---- libraries that are not there or do not work ---------------------------------------------------

CUBLAS, CUFFT = lib.VGC_CUDA_CUBLAS, lib.VGC_CUDA_CUFFT


def started(libraries: Libraries, *injected: tuple[str, int]) -> int:
    """Bits of the libraries that a started engine uses."""
    with fake_driver() as driver:
        engine = CHalf(driver, libraries=libraries)
        for name, error in injected:
            driver.inject(name, error)
        try:
            engine.start()
            return engine.libraries
        finally:
            engine.close()


def test_both_libraries_are_used_or_either() -> None:
    cublas, cufft = cuda_libraries.build("cublas"), cuda_libraries.build("cufft")
    assert started(both(required=True)) == CUBLAS | CUFFT
    assert started(Libraries(cublas=cublas)) == CUBLAS
    assert started(Libraries(cufft=cufft)) == CUFFT
    assert started(Libraries()) == 0


def test_a_library_that_cannot_be_loaded_is_left_out_unless_it_is_required(tmp_path: Path) -> None:
    nowhere = tmp_path / "libcublas.so.13"
    cufft = cuda_libraries.build("cufft")
    assert started(Libraries(nowhere, cufft)) == CUFFT
    with pytest.raises(EngineError, match=rf"a library cannot be loaded: {nowhere}: .*No such file"):
        started(Libraries(nowhere, cufft, required=True))
    with pytest.raises(EngineError, match="cuBLAS and cuFFT are required, and one of them is not named"):
        started(Libraries(cufft=cufft, required=True))


@pytest.mark.parametrize(("name", "function"), [("cublas", GEMM), ("cufft", "cufftMakePlanMany64")])
def test_a_library_without_a_function_is_too_old(name: str, function: str) -> None:
    old = cuda_libraries.build(name, (function,))
    libraries = replace(both(), cublas=old) if name == "cublas" else replace(both(), cufft=old)
    assert started(libraries) == (CUFFT if name == "cublas" else CUBLAS)
    with pytest.raises(EngineError, match=rf"{old} lacks {function}; the library of CUDA 12 or later has it"):
        started(replace(libraries, required=True))


@pytest.mark.parametrize("call", ["cublasCreate_v2", "cublasSetMathMode", "cublasSetSmCountTarget"])
def test_a_cublas_that_does_not_start_is_left_out_unless_it_is_required(call: str) -> None:
    assert started(both(), (call, 1)) == CUFFT
    with pytest.raises(EngineError, match="cuBLAS does not start: its error 1"):
        started(both(required=True), (call, 1))


def test_a_context_that_is_lost_when_cublas_starts_ends_the_engine() -> None:
    with pytest.raises(EngineError, match="cuBLAS does not start: CUDA_ERROR_ILLEGAL_ADDRESS"):
        started(both(), ("cublasCreate_v2", EXECUTION_FAILED), ("cuStreamQuery", 700))
