"""Functions of the host's cuBLAS, cuDNN and cuFFT by name on the CUDA engine: fakes that compute in the fake driver's memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.fakes import cuda_libraries
from tests.unit import builtins_rig
from tests.unit.cuda_builtins_bench import Bench, bench, params_of
from tests.unit.cuda_rig import Libraries
from virtio_proto.schema import Status

RNG: Final = np.random.default_rng(5)
FORWARD: Final = "cudnn.convolution_forward"
FLOAT, DOUBLE, HALF = 0, 1, 2
SINGLE_SUMS, DOUBLE_SUMS = 68, 70
R_32F, R_64F, R_16F, R_16BF, C_32F = 0, 1, 2, 14, 4
FMA: Final = 3
NORMS: Final = ("cudnn.normalize_training", "cudnn.normalize", "cudnn.normalize_backward")
NAMES: Final = (
    *(
        "cublas.gemm",
        "cufft.transform",
        FORWARD,
        "cudnn.convolution_backward_data",
        "cudnn.convolution_backward_filter",
    ),
    *NORMS,
)
HOSTILE: Final = st.one_of(
    st.integers(-3, 12),
    st.sampled_from(
        (0, 1, 2, 4, 5, 41, 42, 44, 68, 70, 105, 106, 108, -1, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
    ),
)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Calls of `builtins_rig` go to an engine with all libraries."""
    cublas, cufft, cudnn = (cuda_libraries.build(name) for name in ("cublas", "cufft", "cudnn"))
    libraries = Libraries(cublas, cufft, cudnn=cudnn)
    with bench(libraries=libraries) as made:
        monkeypatch.setattr(builtins_rig, "run", made.run)
        yield made


# ---- cuBLAS ----------------------------------------------------------------------------------------------------------


def product(
    a: Any, b: Any, c: Any, *, in_type: int, out_type: int, compute: int, math: int = 16, **changes: Any
) -> Any:
    """C = 1.5 A B + 0.5 C, of matrices that are columns: arrays have their transposes."""
    (k, m), (n, _) = a.shape, b.shape
    values = {
        "m": m, "n": n, "k": k, "alpha": 1.5, "a": a, "lda": m, "b": b, "ldb": k, "beta": 0.5, "c": c.copy(), "ldc": m,
        "batch": 1, "in_type": in_type, "out_type": out_type, "compute": compute, "math": math,
    }  # fmt: skip
    return builtins_rig.call("cublas.gemm", **{**values, **changes})["c"]


def bfloat(values: Any) -> Any:
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize(
    ("in_type", "out_type", "compute"),
    [
        (R_32F, R_32F, SINGLE_SUMS),
        (R_64F, R_64F, DOUBLE_SUMS),
        (R_16F, R_16F, SINGLE_SUMS),
        (R_16F, R_32F, SINGLE_SUMS),
        (R_16BF, R_32F, SINGLE_SUMS),
    ],
)
def test_cublas_multiplies(gpu: Bench, in_type: int, out_type: int, compute: int) -> None:
    types = {R_32F: np.float32, R_64F: np.float64, R_16F: np.float16}
    a, b, c = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((3, 5), (4, 3), (4, 5)))
    left, right = (bfloat(side) if in_type == R_16BF else side.astype(types[in_type]) for side in (a, b))
    got = product(left, right, c.astype(types[out_type]), in_type=in_type, out_type=out_type, compute=compute)
    np.testing.assert_array_equal(got, (1.5 * b @ a + 0.5 * c).astype(types[out_type]))
    assert gpu.driver.count("cublasGemmStridedBatchedEx_64") == 1
    assert not gpu.driver.misuses()


def test_cublas_computes_in_the_math_mode_of_the_guest(gpu: Bench) -> None:
    a = RNG.standard_normal((4, 4)).astype(np.float32)
    product(a, a, a, in_type=R_32F, out_type=R_32F, compute=SINGLE_SUMS, math=3)
    modes = [line for line in gpu.driver.calls() if line.startswith(("math_3", "cublasGemm", "cublasSetMathMode"))]
    assert [line.partition("(")[0] for line in modes[-4:]] == [
        "cublasSetMathMode", "math_3", "cublasGemmStridedBatchedEx_64", "cublasSetMathMode",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"in_type": 77}, "types 77 and 0"),
        ({"compute": DOUBLE_SUMS}, "compute 70"),
        ({"op_a": 3}, "op_a 3"),
        ({"math": 99}, "math 99"),
        ({"lda": 4}, "lda is 4; allowed: 5"),
        ({"m": 0}, "m is 0"),
        ({"stride_c": -1}, "stride_c is -1"),
    ],
)
def test_cublas_refuses(gpu: Bench, changes: dict[str, int], words: str) -> None:
    a, b, c = (np.ones(shape, np.float32) for shape in ((3, 5), (4, 3), (4, 5)))
    kinds: dict[str, Any] = {"in_type": R_32F, "out_type": R_32F, "compute": SINGLE_SUMS}
    with pytest.raises(builtins_rig.RefusedError, match=re.escape(words)):
        product(a, b, c, **(kinds | changes))
    assert gpu.driver.count("cublasGemmStridedBatchedEx_64") == 0


def test_what_cublas_does_not_support_fails_the_call_alone(gpu: Bench) -> None:
    there = [gpu.put(bytes(64)) for _ in range(3)]
    values = dict(zip("abc", there, strict=True)) | {"m": 2, "n": 2, "k": 2, "lda": 2, "ldb": 2, "ldc": 2, "batch": 1}
    params = params_of("cublas.gemm", **values, in_type=C_32F, out_type=C_32F, compute=SINGLE_SUMS)
    status, text = gpu.reply(gpu.launch("cublas.gemm", params))
    assert (status, text) == (
        Status.LAUNCH_FAILED,
        "cublas.gemm: the host's library refuses the call, or lacks memory for it",
    )
    ones = np.ones((2, 2), np.float32)
    assert product(ones, ones, ones, in_type=R_32F, out_type=R_32F, compute=SINGLE_SUMS)[0][0] == 3.5


# ---- cuDNN -----------------------------------------------------------------------------------------------------------


def shape_of(x: Any, w: Any, y: Any, *, kind: int = FLOAT, **changes: Any) -> dict[str, Any]:
    """Parameters of a convolution of two axes of space; x and y may be views whose channels lie together."""
    values: dict[str, Any] = {
        "alpha": 1.0,
        "beta": 0.0,
        "axes": 4,
        "type": kind,
        "compute": int(kind == DOUBLE),
        "groups": 1,
    }
    for name, array in (("x", x), ("w", w), ("y", y)):
        values |= {f"{name}_size{i}": array.shape[i] for i in range(4)}
    for name, array in (("x", x), ("y", y)):
        values |= {f"{name}_stride{i}": array.strides[i] // array.itemsize for i in range(4)}
    for i in range(2):
        values |= {f"pad{i}": 1, f"stride{i}": 2, f"dilation{i}": 1}
    return values | changes


def convolved(x: Any, w: Any, groups: int = 1) -> Any:
    """Convolution of numpy's with padding of 1 and strides of 2."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::2, ::2]
    parts = np.split(windows, groups, 1), np.split(w.astype(np.float64), groups, 0)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", a, b) for a, b in zip(*parts, strict=True)], 1)


@pytest.mark.parametrize(("kind", "dtype"), [(FLOAT, np.float32), (DOUBLE, np.float64), (HALF, np.float16)])
@pytest.mark.parametrize("groups", [1, 2])
def test_cudnn_convolves(gpu: Bench, kind: int, dtype: Any, groups: int) -> None:
    x = RNG.integers(-2, 3, (2, 4, 7, 6)).astype(dtype)
    w = RNG.integers(-2, 3, (6, 4 // groups, 3, 3)).astype(dtype)
    wanted = convolved(x, w, groups)
    y = np.zeros(wanted.shape, dtype)
    got = builtins_rig.call(FORWARD, x=x, w=w, y=y, **shape_of(x, w, y, kind=kind, groups=groups))
    np.testing.assert_array_equal(got["y"], wanted.astype(dtype))
    assert not gpu.driver.misuses()


def test_gradients_are_those_of_the_convolution(gpu: Bench) -> None:
    x, w = (RNG.integers(-2, 3, shape).astype(np.float32) for shape in ((2, 4, 7, 6), (6, 4, 3, 3)))
    dy = RNG.integers(-2, 3, convolved(x, w).shape).astype(np.float32)
    values = shape_of(x, w, dy)
    dx = builtins_rig.call("cudnn.convolution_backward_data", x=np.zeros_like(x), w=w, y=dy, **values)["x"]
    dw = builtins_rig.call("cudnn.convolution_backward_filter", x=x, w=np.zeros_like(w), y=dy, **values)["w"]
    other_x, other_w = (RNG.integers(-2, 3, array.shape).astype(np.float32) for array in (x, w))
    assert np.vdot(convolved(other_x, w), dy) == np.vdot(other_x, dx)  # what a gradient is: the transposed linear map
    assert np.vdot(convolved(x, other_w), dy) == np.vdot(other_w, dw)
    assert not gpu.driver.misuses()


def test_plans_are_kept_by_shape_and_algorithms_keep_to_the_rules(gpu: Bench) -> None:
    x, w = np.ones((1, 2, 5, 5), np.float32), np.ones((2, 2, 3, 3), np.float32)
    y = np.zeros(convolved(x, w).shape, np.float32)
    for _ in range(2):
        builtins_rig.call(FORWARD, x=x, w=w, y=y.copy(), **shape_of(x, w, y))
    assert gpu.driver.count("cudnnGetConvolutionForwardAlgorithm_v7") == 1
    for rules in ({"deterministic": 1}, {"deterministic": 1, "math": FMA}):  # by an algorithm with a workspace
        got = builtins_rig.call(FORWARD, x=x, w=w, y=y.copy(), **shape_of(x, w, y, **rules))["y"]
        np.testing.assert_array_equal(got, convolved(x, w))
    assert gpu.driver.count("cudnnGetConvolutionForwardAlgorithm_v7") == 3
    assert not gpu.driver.misuses()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": 5}, "type 5 with sums of type 0"),
        ({"axes": 3}, "is 3; allowed: 4 to 5"),
        ({"groups": 0}, "groups is 0"),
        ({"x_size1": 3}, "do not fit each other"),
        ({"y_size2": 5}, "a filter has 4 places there"),
        ({"x_stride0": 0}, "is 0; allowed: 1"),
        ({"pad0": -1}, "is -1; allowed: 0"),
    ],
)
def test_cudnn_refuses(gpu: Bench, changes: dict[str, int], words: str) -> None:
    x, w = np.ones((2, 4, 7, 6), np.float32), np.ones((6, 4, 3, 3), np.float32)
    y = np.zeros(convolved(x, w).shape, np.float32)
    with pytest.raises(builtins_rig.RefusedError, match=re.escape(words)):
        builtins_rig.call(FORWARD, x=x, w=w, y=y, **shape_of(x, w, y, **changes))
    assert gpu.driver.count("cudnnConvolutionForward") == 0


def norm_of(x: Any, **changes: Any) -> dict[str, Any]:
    """Parameters of a normalization of arrays without gaps."""
    values: dict[str, Any] = {"axes": 4, "type": FLOAT, "mode": 1, "epsilon": 1e-5, "factor": 0.1}
    for i in range(4):
        values |= {f"size{i}": x.shape[i]}
        values |= {f"{name}_stride{i}": x.strides[i] // x.itemsize for name in ("x", "y", "dx")}
    return values | changes


def test_cudnn_normalizes(gpu: Bench) -> None:
    x = RNG.standard_normal((4, 3, 5, 2)).astype(np.float32)
    scale, bias, mean = (RNG.standard_normal(3).astype(np.float32) for _ in range(3))
    variance, y = np.ones(3, np.float32), np.zeros_like(x)
    numbers = {"scale": scale, "bias": bias, "mean": mean, "variance": variance}
    given = builtins_rig.call("cudnn.normalize", x=x, y=y, **numbers, **norm_of(x))["y"]
    each = [array[None, :, None, None] for array in (mean, scale, bias)]
    np.testing.assert_allclose(given, (x - each[0]) / np.sqrt(1 + 1e-5) * each[1] + each[2], atol=1e-5)
    own = builtins_rig.call("cudnn.normalize_training", x=x, y=y, scale=scale, bias=bias, **norm_of(x))["y"]
    np.testing.assert_allclose(own.mean((0, 2, 3)), bias, atol=1e-5)
    np.testing.assert_allclose(own.std((0, 2, 3)), np.abs(scale), atol=1e-4)
    assert not gpu.driver.misuses()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": 5}, "type 5"),
        ({"mode": 3}, "mode 3"),
        ({"axes": 6}, "6 axes"),
        ({"size0": 0}, "is 0 or"),
        ({"epsilon": -1.0}, "epsilon is negative"),
        ({"factor": float("nan")}, "factor not 0 to 1"),
        ({"mean": 4096}, "means without variances"),
    ],
)
def test_normalizations_are_checked(changes: dict[str, Any], words: str) -> None:
    x = np.zeros((4, 3, 5, 2), np.float32)
    places = {"x": 4096, "y": 4096, "scale": 4096, "bias": 4096}
    builtin = builtins_rig.named(NORMS[0])
    with pytest.raises(builtins_rig.RefusedError, match=re.escape(words)):
        builtins_rig.check(builtin, builtins_rig.pack(builtin, places | norm_of(x, **changes)))


def test_arrays_of_others_are_refused(gpu: Bench) -> None:
    """Strides that lead behind the VM's allocation."""
    x, w = np.ones((2, 4, 7, 6), np.float32), np.ones((6, 4, 3, 3), np.float32)
    y = np.zeros(convolved(x, w).shape, np.float32)
    there = {name: gpu.put(array.tobytes()) for name, array in (("x", x), ("w", w), ("y", y))}
    values = shape_of(x, w, y, x_stride0=2**30)
    status, _ = gpu.reply(gpu.launch(FORWARD, params_of(FORWARD, **there, **values)))
    assert status is Status.INVALID_ADDRESS
    assert gpu.driver.count("cudnnConvolutionForward") == 0


def test_without_the_libraries_there_are_no_such_functions() -> None:
    with bench() as made:
        assert not made.ids.keys() & set(NAMES)
    with bench(libraries=Libraries(cudnn=cuda_libraries.build("cudnn"))) as made:
        assert made.ids.keys() & set(NAMES) == set(NAMES[2:])


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_hostile_values_are_refused_or_bounded(data: st.DataObject) -> None:
    builtin = builtins_rig.named(data.draw(st.sampled_from(NAMES)))
    values = {}
    for param in builtins_rig.params_of(builtin):
        name = param.name
        if param.kind == 2:
            values[name] = data.draw(st.floats(width=64))
        elif param.kind == 3:
            values[name] = data.draw(st.integers(0, 2**64 - 1))
        else:
            most = 2 ** (8 * param.size - 1)
            values[name] = max(-most, min(data.draw(HOSTILE), most - 1))
    try:
        ranges = builtins_rig.check(builtin, builtins_rig.pack(builtin, values))
    except builtins_rig.RefusedError as refused:
        event(re.sub(r"-?\d+|0x\w+", "N", str(refused)))
        return
    for address, size, _ in ranges:
        assert 0 < size < 2**63
        assert address + size <= 2**64
