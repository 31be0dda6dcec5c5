"""Plans of the CUDA engine's built-in functions, and kernels for sizes that tests cannot have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit import builtins_rig as rig
from tests.unit import cuda_builtins_rig as cuda
from tests.unit.cuda_builtins_rig import MOST_LAUNCHES, Side, cuda_builtins
from vhost_backend.engines.cuda.builtins import sources

__all__ = ["cuda_builtins"]

MOST_SHARED: Final = 48 << 10
PLACE: Final = 1 << 40
"""Address of all arrays."""

LENGTHS: Final = st.one_of(
    st.integers(0, 70),
    st.integers(0, 1 << 22),
    st.sampled_from([1 << 20, (1 << 20) - 3, 3**13, 7**7, 2047, 2048, 2049, 65521]),
)
SHORT: Final = st.integers(0, 300)
FLAG: Final = st.sampled_from([0, 1])
VALUES: Final[dict[str, st.SearchStrategy[float]]] = {
    **dict.fromkeys(("alpha", "beta"), st.sampled_from([0.0, 0.5, 1.0])),
    **dict.fromkeys(("low", "mean"), st.just(0.0)),
    **dict.fromkeys(("high", "deviation"), st.just(1.0)),
    **dict.fromkeys(("transpose", "transpose_a", "transpose_b", "exclusive", "descending", "inverse"), FLAG),
    **dict.fromkeys(("channels", "filters", "height", "width"), SHORT),
    **dict.fromkeys(("lda", "ldb", "ldc"), st.just(1 << 22)),
    **dict.fromkeys(("stride_a", "stride_b", "stride_c"), st.just(1 << 40)),
    **dict.fromkeys(("pad_h", "pad_w"), st.integers(0, 9)),
    **dict.fromkeys(("incx", "incy", "kernel_h", "kernel_w", "stride_h", "stride_w"), st.integers(1, 5)),
    **dict.fromkeys(("dilation_h", "dilation_w", "groups", "value_bytes"), st.sampled_from([1, 2])),
    "batch": st.sampled_from([0, 1, 1, 1, 2, 300]),
    "rank": st.just(3),
    "to": st.integers(0, 6),
    **dict.fromkeys(("seed", "offset"), st.integers(0, 2**64 - 1)),
    **{f"{array}_stride{axis}": st.integers(0, 5) for array in "ab" for axis in range(4)},
    **{f"shape{axis}": SHORT for axis in range(3)},
}
"""Values of parameters that are not lengths like `LENGTHS`."""


@st.composite
def calls(draw: st.DrawFn) -> tuple[Any, dict[str, float]]:
    """Any function, and values that are allowed more often than not."""
    functions = {builtin.function: builtin for builtin in rig.builtins()}
    family = draw(st.sampled_from(sorted({rig.text(builtin.name).partition(".")[0] for builtin in rig.builtins()})))
    members = [builtin for builtin in functions.values() if rig.text(builtin.name).startswith(family + ".")]
    builtin = draw(st.sampled_from(members))
    values: dict[str, float] = {}
    for param in rig.params_of(builtin):
        is_value = param.use == rig.USE_VALUE
        values[param.name] = draw(VALUES.get(param.name, LENGTHS)) if is_value else PLACE * (1 + param.offset)
    return builtin, values


def memory(builtin: Any, block: Any) -> int | None:
    """Bytes that a call accesses; None if it is refused."""
    try:
        return sum(size for _, size, _ in rig.check(builtin, block))
    except rig.RefusedError:
        return None


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(call=calls(), num_sms=st.sampled_from([1, 8, 132, 1000]))
def test_plans_keep_to_their_limits(call: tuple[Any, dict[str, float]], num_sms: int) -> None:
    builtin, values = call
    block = rig.pack(builtin, values)
    size = memory(builtin, block)
    assume(size is not None and size < 1 << 40)
    assert size is not None
    workspace, launches = cuda.plan(builtin, block, num_sms, PLACE)
    assert len(launches) <= MOST_LAUNCHES
    assert workspace <= 20 * size + (64 << 20)
    for launch in launches:
        assert launch.blocks >= 1
        assert 1 <= launch.threads <= 1024
        assert launch.shared_bytes <= MOST_SHARED
        assert cuda.text(launch.module) == rig.text(builtin.name).partition(".")[0]


@pytest.mark.parametrize("lengths", [(65521, 997, 991), (1 << 20, 997, 67), (65521, 65521, 13), ((1 << 22) - 3, 1, 1)])
def test_longest_plan_fits(lengths: tuple[int, int, int]) -> None:
    builtin = rig.named("fft.c2r_f64")
    n0, n1, n2 = lengths
    values = {"in": PLACE, "out": 1 << 60, "batch": 1, "n0": n0, "n1": n1, "n2": n2, "rank": 3}
    assert 10 < len(cuda.plan(builtin, rig.pack(builtin, values), 132, PLACE)[1]) <= MOST_LAUNCHES


@pytest.mark.parametrize("module", sources.MODULES)
def test_kernels_take_one_struct(module: str, cuda_builtins: Side) -> None:
    functions = cuda_builtins.kernels(module)
    assert len(functions) > 3
    for name, function in functions.items():
        assert name.startswith(module)
        assert len(function.params) == 1
        assert function.param_bytes <= cuda.MOST_PARAMS


def test_positions_of_eight_bytes_sort_as_those_of_four(cuda_builtins: Side) -> None:
    """Rows of 2^32 elements have such positions, which tests have no memory for."""
    n = 10_000
    x = np.random.default_rng(1).integers(0, 50, n, np.int32)
    keys, out, places = rig.Buffer(x.tobytes()), rig.Buffer(bytes(8 * n)), [rig.Buffer(bytes(8 * n)) for _ in range(2)]
    builtin = rig.named("sort.argsort_i32")
    block = rig.pack(builtin, {"in": keys.address, "out": out.address, "outer": 1, "n": n})
    size, _ = cuda.plan(builtin, block, 3, PLACE)
    workspace = rig.Buffer(bytes(size))
    _, launches = cuda.plan(builtin, block, 3, workspace.address)
    addresses = [buffer.address for buffer in places]
    for launch in launches:
        name = cuda.text(launch.kernel)
        if name == "sort_move_u32_u32":
            launch.kernel = b"sort_move_u32_u64"
        call = cuda.sort_call(launch)
        call.place_bytes, (call.places, call.next_places) = 8, addresses
        if name.startswith("sort_move"):
            addresses.reverse()
        cuda_builtins.launch(launch)
    assert np.array_equal(np.frombuffer(out.content(), np.int64), np.argsort(x, kind="stable"))
