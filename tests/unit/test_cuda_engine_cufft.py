"""Transforms by the host's cuFFT by name on the CUDA engine: a fake that computes in the fake driver's memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np
import pytest

from tests.fakes import cuda_libraries
from tests.unit import builtins_rig
from tests.unit.cuda_builtins_bench import Bench, bench, params_of
from tests.unit.cuda_rig import Libraries
from virtio_proto.schema import Status

RNG: Final = np.random.default_rng(7)
NAME: Final = "cufft.transform"
C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
DOUBLES: Final = (Z2Z, D2Z, Z2D)
SHAPES: Final = [(2, 12), (3, 4, 5), (2, 3, 2, 8)]
REFUSED: Final = "cufft.transform: the host's library refuses the call, or lacks memory for it"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Calls of `builtins_rig` go to an engine with cuFFT alone."""
    with bench(libraries=Libraries(cufft=cuda_libraries.build("cufft"))) as made:
        monkeypatch.setattr(builtins_rig, "run", made.run)
        yield made


def types(kind: int) -> tuple[Any, Any]:
    """Types of numpy's: of real and of complex numbers."""
    return (np.float64, np.complex128) if kind in DOUBLES else (np.float32, np.complex64)


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


class Spread:
    """An array (batch, axes) in larger memory: each row of each axis has `gap` elements more, elements are `stride` apart."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, stride: int = 1, gap: int = 0) -> None:
        embed = [length + gap for length in shape[1:]]
        self.distance = prod(embed) * stride
        self.memory = np.full(shape[0] * self.distance, 77, dtype)
        steps = [self.distance, *(stride * prod(embed[axis + 1 :]) for axis in range(len(embed)))]
        self.view = np.lib.stride_tricks.as_strided(self.memory, shape, [step * self.memory.itemsize for step in steps])
        self.layout = {"stride": stride, "distance": self.distance}
        self.layout |= {f"embed{axis}": length for axis, length in enumerate(embed)}

    def filled(self, data: Any) -> Spread:
        self.view[:] = data
        return self

    def of(self, memory: Any) -> Any:
        """The array in memory that is laid out as this one."""
        return np.lib.stride_tricks.as_strided(memory.view(self.view.dtype), self.view.shape, self.view.strides)

    def gaps(self, memory: Any) -> Any:
        """Memory without the elements, which are overwritten."""
        mine = memory.view(self.view.dtype).copy()
        self.of(mine)[:] = 77
        return mine


def values(kind: int, shape: tuple[int, ...], source: Spread, target: Spread, inverse: int = 0) -> dict[str, int]:
    given = {"batch": shape[0], "rank": len(shape) - 1, "type": kind, "inverse": inverse}
    given |= {f"n{axis}": length for axis, length in enumerate((*shape[1:], 1, 1)[:3])}
    for side, array in (("from", source), ("to", target)):
        given |= {f"{side}_{name}": number for name, number in array.layout.items()}
    return given


def transform(kind: int, shape: tuple[int, ...], source: Spread, target: Spread, inverse: int = 0) -> Any:
    arrays = {"in": source.memory, "out": target.memory}
    out = builtins_rig.call(NAME, **arrays, **values(kind, shape, source, target, inverse))["out"]
    np.testing.assert_array_equal(target.gaps(out), np.full_like(out, 77))
    return target.of(out)


def axes_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(1, len(shape)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [C2C, Z2Z])
@pytest.mark.parametrize("inverse", [0, 1])
def test_complex_transforms_are_cufft_s(gpu: Bench, shape: tuple[int, ...], kind: int, inverse: int) -> None:
    data, dtype = numbers(*shape), types(kind)[1]
    source, target = Spread(shape, dtype, 2, 1).filled(data), Spread(shape, dtype, 1, 3)
    expected = np.fft.ifftn(data, axes=axes_of(shape), norm="forward") if inverse else None
    expected = np.fft.fftn(data, axes=axes_of(shape)) if expected is None else expected
    got = transform(kind, shape, source, target, inverse)
    np.testing.assert_allclose(got, expected, atol=1e-4 if kind == C2C else 1e-12)
    assert gpu.driver.count("cuLaunchKernel") == 0
    assert not gpu.driver.misuses()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kinds", [(R2C, C2R), (D2Z, Z2D)])
def test_transforms_of_real_numbers_and_back(gpu: Bench, shape: tuple[int, ...], kinds: tuple[int, int]) -> None:
    real, pair = types(kinds[0])
    half = (*shape[:-1], shape[-1] // 2 + 1)
    data = RNG.standard_normal(shape).astype(real)
    source, target = Spread(shape, real, 3, 2).filled(data), Spread(half, pair, 2, 1)
    got = transform(kinds[0], shape, source, target)
    tolerance = 1e-4 if kinds[0] == R2C else 1e-12
    np.testing.assert_allclose(got, np.fft.rfftn(data, axes=axes_of(shape)), atol=tolerance)
    back = transform(kinds[1], shape, Spread(half, pair, 1, 0).filled(got), Spread(shape, real, 1, 0))
    np.testing.assert_allclose(back / prod(shape[1:]), data, atol=tolerance)
    assert not gpu.driver.misuses()


def test_real_numbers_in_place_have_room_for_complex_ones(gpu: Bench) -> None:
    """Rows as cuFFT expects them there: those of reals are padded to the bytes of their row of complex numbers."""
    shape, half = (2, 3, 6), (2, 3, 4)
    data = RNG.standard_normal(shape)
    padded = np.zeros((2, 3, 8))
    padded[..., :6] = data
    source, target = Spread(shape, np.float64), Spread(half, np.complex128)
    source.layout |= {"embed1": 8, "distance": 24}
    address = gpu.put(padded.tobytes())
    params = params_of(NAME, **{"in": address, "out": address}, **values(D2Z, shape, source, target))
    assert gpu.reply(gpu.launch(NAME, params))[0] is Status.OK
    got = np.frombuffer(gpu.get(address, padded.nbytes), np.complex128).reshape(half)
    np.testing.assert_allclose(got, np.fft.rfftn(data, axes=(1, 2)), atol=1e-12)


def test_layouts_have_plans_of_their_own(gpu: Bench) -> None:
    shape = (2, 8)
    data = numbers(*shape)
    for stride in (1, 2, 1, 2):
        source, target = Spread(shape, np.complex128, stride).filled(data), Spread(shape, np.complex128)
        np.testing.assert_allclose(transform(Z2Z, shape, source, target), np.fft.fft(data), atol=1e-12)
    assert gpu.driver.count("cufftMakePlanMany64") == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": 5}, "type is 5; allowed: cufftType"),
        ({"inverse": 1}, "inverse is 1; allowed: 0, as the type says it"),
        ({"type": Z2Z, "inverse": 2}, "inverse is 2; allowed: 0 and 1"),
        ({"rank": 4}, "rank is 4; allowed: 1 to 3"),
        ({"n0": 0}, "n0 is 0; allowed: 1"),
        ({"n2": 2}, "n2 is 2; allowed: 1 to 1"),
        ({"batch": 0}, "batch is 0; allowed: 1"),
        ({"from_stride": 0}, "from_stride is 0; allowed: 1"),
        ({"to_distance": -1}, "to_distance is -1; allowed: 0"),
        ({"from_embed1": 4}, "from_embed1 is 4; allowed: 5"),
        ({"to_embed1": 2}, "to_embed1 is 2; allowed: 3"),
        ({"in": 8}, "an array begins at 0x8; allowed: multiples of 16"),
        ({"from_distance": 2**40, "batch": 2**30}, "in takes more bytes than there are addresses"),
    ],
)
def test_what_is_refused(changes: dict[str, int], words: str) -> None:
    shape = (3, 4, 5)
    source, target = Spread(shape, np.float64), Spread((3, 4, 3), np.complex128)
    given = {"in": 4096, "out": 8192} | values(D2Z, shape, source, target) | changes
    builtin = builtins_rig.named(NAME)
    with pytest.raises(builtins_rig.RefusedError, match=re.escape(words)):
        builtins_rig.check(builtin, builtins_rig.pack(builtin, given))


def test_memory_behind_the_vm_s_is_refused(gpu: Bench) -> None:
    there = gpu.put(bytes(256))
    array = Spread((1, 16), np.complex128)
    given = values(Z2Z, (1, 16), array, array) | {"in": there, "out": there, "to_stride": 2**24}
    status, _ = gpu.reply(gpu.launch(NAME, params_of(NAME, **given)))
    assert status is Status.INVALID_ADDRESS
    assert gpu.driver.count("cufftExecZ2Z") == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("cufftMakePlanMany64", 2, REFUSED),
        ("cufftExecZ2Z", 6, "cufft.transform: a library of the host failed, and may have changed the input before"),
    ],
)
def test_a_transform_that_cufft_does_not_make_fails_alone(gpu: Bench, call: str, error: int, words: str) -> None:
    there = gpu.put(numbers(1, 16).tobytes())
    array = Spread((1, 16), np.complex128)
    params = params_of(NAME, **{"in": there, "out": there}, **values(Z2Z, (1, 16), array, array))
    gpu.driver.inject(call, error, times=2)
    pending = gpu.launch(NAME, params)
    assert gpu.reply(pending) == (Status.LAUNCH_FAILED, words)
    while gpu.driver.count(call) < 2:
        assert gpu.reply(gpu.launch(NAME, params))[0] is Status.LAUNCH_FAILED
    assert gpu.reply(gpu.launch(NAME, params))[0] is Status.OK
