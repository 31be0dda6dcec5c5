"""``vgc call``: built-in functions and registered ones, with arrays in files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver import call_command
from guest_driver.cli import main
from tests.fakes.device import Answer, Ask, FakeDevice, FakeFunction
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink
from tests.unit.builtins_device import dev, fake, link
from virtio_proto.schema import Opcode, ParamKind

__all__ = ["dev", "fake", "link"]

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.ones((3, 4), np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Current folder, with files of arrays."""
    monkeypatch.chdir(tmp_path)
    arrays: dict[str, Any] = {"a": A, "b": B, "x": np.ones(3), "y": np.arange(3.0), "whole": np.arange(3)}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    Path("text.npy").write_text("no array")
    return tmp_path


def call(dev: vgc.Device, words: str) -> str:
    parser = argparse.ArgumentParser()
    call_command.add_arguments(parser)
    return call_command.run(dev, parser.parse_args(words.split()))


@pytest.mark.parametrize("name", ["blas.gemm", "blas.gemm_f32"])
def test_arrays_come_from_files_and_results_go_there(dev: vgc.Device, fake: FakeDevice, name: str) -> None:
    report = call(dev, f"{name} --in a.npy --in b.npy --out c.npy")
    assert np.array_equal(np.load("c.npy"), A @ B)
    assert report.startswith("result 1: float32 (2, 4), min 3, mean 7.5, max 12, saved to c.npy\n")
    assert "\ncall " in report
    assert fake.opcodes().count(Opcode.CALL) == 1


def test_options_are_set_by_name(dev: vgc.Device) -> None:
    call(dev, "blas.gemm --in a.npy --in a.npy --set transpose_b=true --set alpha=0.5 --out c.npy")
    assert np.array_equal(np.load("c.npy"), 0.5 * A @ A.T)
    call(dev, "fft.rfft2 --in a.npy --set norm=ortho --out c.npy")
    np.testing.assert_allclose(np.load("c.npy"), np.fft.rfft2(A, norm="ortho"), rtol=1e-5, atol=1e-5)
    for axes in ("(0,1)", "0,1", "none", "-2,-1"):
        call(dev, f"reduce.sum --in a.npy --set axis={axes} --out c.npy")
        assert np.load("c.npy") == 15
    call(dev, "count.histogram --in a.npy --set bins=0x3 --set range=0,6 --out c.npy")
    assert np.load("c.npy").tolist() == [2, 2, 2]


def test_operands_are_numbers_too(dev: vgc.Device) -> None:
    call(dev, "math.power --in a.npy --set b=3 --out c.npy")
    np.testing.assert_allclose(np.load("c.npy"), A**3)
    call(dev, "math.subtract --set a=0.5 --in a.npy --out c.npy")
    assert np.array_equal(np.load("c.npy"), 0.5 - A)


def test_numbers_in_hexadecimal(dev: vgc.Device) -> None:
    call(dev, "random.bits --set shape=3 --set seed=0x10 --out r.npy")
    assert np.array_equal(np.load("r.npy"), dev.random.bits(3, seed=16).get())


def test_array_that_is_changed_changes_its_file(dev: vgc.Device) -> None:
    call(dev, "blas.axpy --set alpha=2 --in x.npy --inout y.npy")
    assert np.load("y.npy").tolist() == [2, 3, 4]


def test_several_results(dev: vgc.Device) -> None:
    report = call(dev, "sort.pairs --in y.npy --in whole.npy --set descending=true --out keys.npy --out values.npy")
    assert np.load("keys.npy").tolist() == np.load("values.npy").tolist() == [2, 1, 0]
    assert report.splitlines()[1].startswith("result 2: int64 (3,)")


def test_results_without_files_are_described(dev: vgc.Device) -> None:
    assert call(dev, "sort.keys_f32 --in a.npy").startswith("result 1: float32 (2, 3), min 0, mean 2.5, max 5\n")
    assert call(dev, "fft.rfft --in a.npy").startswith("result 1: complex64 (2, 2)\n")


def test_functions_of_complex_numbers(dev: vgc.Device) -> None:
    call(dev, "math.join_c64 --in a.npy --in a.npy --out z.npy")
    assert np.array_equal(np.load("z.npy"), A + np.complex64(1j) * A)
    for name in ("math.absolute", "math.absolute_c64"):
        call(dev, f"{name} --in z.npy --out c.npy")
        np.testing.assert_allclose(np.load("c.npy"), np.hypot(A, A), rtol=1e-6)
    with pytest.raises(ValueError, match=r"^math.absolute_c128 with arrays of complex64; allowed: complex128"):
        call(dev, "math.absolute_c128 --in z.npy")


def test_functions_without_arrays(dev: vgc.Device) -> None:
    call(dev, "random.uniform_f64 --set shape=20x3 --set seed=5 --out r.npy")
    found = np.load("r.npy")
    assert (found.shape, found.dtype) == ((20, 3), np.float64)
    assert np.array_equal(found, dev.random.uniform((20, 3), "float64", seed=5).get())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "blas.gem --in a.npy",
            "no function blas.gem; allowed: blas.axpy, blas.dot, blas.gemm, blas.gemv, blas.matmul",
        ),
        ("sparse.multiply --in a.npy", "no function sparse.multiply; allowed: sparse.spmv"),
        ("math.apply --in a.npy", "no function math.apply; allowed: math.absolute, math.add, "),
        ("blas.gemm --in a.npy", "blas.gemm needs b: --in FILE"),
        ("random.uniform --set shape=3", "random.uniform needs --set seed=..."),
        ("reduce.sum --in a.npy --in b.npy", "--in b.npy: reduce.sum takes up to 1 arrays: a"),
        ("reduce.sum --in a.npy --set ax=1", "--set ax=1: reduce.sum takes axis=..., keepdims=..."),
        ("reduce.sum --in a.npy --set axis", "--set axis: reduce.sum takes axis=..., keepdims=..."),
        ("reduce.sum --in a.npy --set stream=1", "--set stream=1: reduce.sum takes"),
        ("reduce.sum --in a.npy --set axis=7", "--set axis=7: axis 7 of an array of shape"),
        ("reduce.sum_f64 --in a.npy", "reduce.sum_f64 with arrays of float32; allowed: float64, or reduce.sum"),
        ("reduce.sum --in a.npy --out b.npy --out c.npy", "--out c.npy: reduce.sum has 1 results; allowed: a file for"),
        ("reduce.sum --in none.npy", "--in none.npy: No such file or directory"),
        ("reduce.sum --in text.npy", "--in text.npy: no array of numbers; allowed: files that numpy.save has written"),
        ("reduce.sum --in a.npy --out none/c.npy", "--out none/c.npy: no file can be written there; allowed: files in"),
        ("sort.pairs --in x.npy --in y.npy --out c.npy --out c.npy", "--out c.npy: given twice; allowed: a file for"),
        ("blas.dot --in x.npy --inout y.npy", "--inout y.npy: blas.dot does not change y; allowed: --in y.npy"),
        ("blas.axpy --set alpha=two --in x.npy --inout y.npy", "--set alpha=two; allowed: a number"),
        ("blas.gemm --in a.npy --in b.npy --set transpose_b=yes", "--set transpose_b=yes; allowed: true, false"),
        ("random.bits --set shape=3 --set seed=1.5", "--set seed=1.5; allowed: a whole number, such as 16 or 0x10"),
        ("random.bits --set shape=3,a --set seed=1", "--set shape=3,a; allowed: whole numbers, such as 1000 or 1000x3"),
        ("reduce.sum --in a.npy --set axis=a", "--set axis=a; allowed: whole numbers, such as 1 or 0,1, or none"),
        (
            "reduce.argmin --in a.npy --set axis=0,1",
            "--set axis=0,1; allowed: a whole number, such as 16 or 0x10, or n",
        ),
        ("count.histogram --in a.npy --set range=5", "--set range=5; allowed: two numbers, such as 0,1, or none"),
        ("math.convert --in a.npy --set dtype=what", "--set dtype=what; allowed: a type of numpy, such as float64"),
        ("math.power --in a.npy --set b=two", "--set b=two; allowed: a number"),
        ("math.power --in a.npy", "math.power needs b: --in FILE, or a number: --set b=..."),
        ("math.power --in a.npy --in b.npy --set b=3", "--in b.npy: out has shape (3, 4); allowed: (2, 3)"),
        (
            "random.bits --set shape=3 --set seed=1 --in a.npy --in a.npy",
            "--in a.npy: random.bits takes up to 1 arrays: out",
        ),
        (
            "reduce.sum --in a.npy --set axis=0 --set axis=1",
            "--set axis=1: axis is set already, by --set axis=0; allow",
        ),
        ("blas.gemm --in a.npy --in a.npy", "--in a.npy: a has 3 columns and b has 2 rows"),
        ("math.power --in a.npy --set b=1j", "--set b=1j; allowed: a number"),
        ("random.normal --set shape=-3 --set seed=1", "--set shape=-3: shape (-3,); allowed: extents of 0 and more"),
        (
            "random.normal --set shape=3 --set seed=1 --set dtype=float16",
            "--set dtype=float16: dtype is float16; allow",
        ),
        ("blas.gemm --in a.npy --in x.npy", "blas.gemm: arrays of different types"),
        ("blas.gemv --in a.npy --in x.npy --set beta=1", "blas.gemv: arrays of different types"),
        (
            "reduce.sum --arg in:a.npy",
            "--arg in:a.npy: reduce.sum is a built-in function; allowed: --in, --inout, --out",
        ),
        ("reduce.sum --in a.npy --grid 3", "--grid, --block: reduce.sum is a built-in function, which takes neither"),
    ],
)
def test_refusals(dev: vgc.Device, fake: FakeDevice, words: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        call(dev, words)
    assert text in str(caught.value)
    assert Opcode.CALL not in fake.opcodes()


@pytest.mark.parametrize("name", ["gemm", "gemm_f32", "lapack.gemm"])
def test_name_without_its_group_is_suggested(dev: vgc.Device, name: str) -> None:
    with pytest.raises(vgc.NotFound, match=rf"no function '{name}'.*; built-in functions: blas\.gemm$"):
        call(dev, f"{name} --in a.npy --in b.npy --out c.npy")


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["call", "--help"])
    assert ended.value.code == 0
    assert "vgc call blas.gemm --in a.npy --in b.npy --out c.npy" in capsys.readouterr().out


# ---- registered functions ------------------------------------------------------------------------

SCALE = FakeFunction(
    "scale",
    (4, 4, 8, 8),
    (ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER, ParamKind.POINTER),
    call=lambda buffers: [buffers[0], bytes(reversed(buffers[1]))],
)


@pytest.fixture
def compiler() -> Iterator[FakeDevice]:
    """Fake device with a function whose call turns its second buffer round."""
    with GuestLink(name="other") as link, FakeDevice(link) as fake:
        fake.functions = [SCALE]
        yield fake


@pytest.fixture
def other(compiler: FakeDevice, tmp_path: Path) -> Iterator[vgc.Device]:
    """Device with a compiled function."""
    with open_device(compiler.link, tmp_path / "state") as dev:
        dev.compile("scale")
        yield dev


def test_registered_function_takes_arguments_in_order(other: vgc.Device) -> None:
    np.save("y.npy", np.arange(8, dtype=np.uint8))
    report = call(other, "scale --grid 4 --block 2,2 --arg 8 --arg 2 --in x.npy --inout y.npy")
    assert np.load("y.npy").tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert report.startswith("y.npy: uint8 (8,), min 0, mean 3.5, max 7, saved to y.npy\n")


def test_forms_of_vgc_run(other: vgc.Device) -> None:
    report = call(other, "scale --arg int:8 --arg float:0.5 --arg in:x.npy --arg out:uint8:2x2:made.npy")
    assert np.load("made.npy").tolist() == [[0, 0], [0, 0]]
    assert report.startswith("out:uint8:2x2:made.npy: uint8 (2, 2)")


def test_arrays_beyond_the_region_go_over_device_memory(other: vgc.Device, compiler: FakeDevice) -> None:
    large = np.random.default_rng(0).integers(0, 256, 5 << 20, "uint8")
    np.save("y.npy", large)

    def reverse(_ask: Ask) -> Answer:
        max(compiler.memory.values(), key=len).reverse()
        return Answer()

    compiler.override[Opcode.CALL] = reverse
    call(other, "scale --grid 4 --arg 8 --arg 2 --in x.npy --inout y.npy")
    assert np.array_equal(np.load("y.npy"), large[::-1])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--arg 1", "scale takes 4 arguments, not 1"),
        ("--in a.npy --set n=3", "--set n=3: scale is a registered function; allowed: --in, --inout, --arg"),
        ("--arg what:3", "--arg what:3: not understood; `vgc run --help` lists what is allowed"),
        ("--arg 1.5 --arg 2 --in x.npy --inout y.npy", "--arg 1.5: parameter 0 of scale is an integer of 4 bytes"),
        ("--in x.npy --arg 2 --in x.npy --inout y.npy", "--in x.npy: parameter 0 of scale is an integer of 4 bytes"),
        ("--arg 1 --arg 2 --in x.npy --arg 3.5", "--arg 3.5: parameter 3 of scale is a pointer; allowed: "),
    ],
)
def test_refusals_of_registered_functions(other: vgc.Device, words: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        call(other, f"scale {words}")
    assert text in str(caught.value)


def test_files_have_the_names_that_were_given(dev: vgc.Device, folder: Path) -> None:
    (folder / "y.npy").rename("y")
    report = call(dev, "blas.axpy --set alpha=2 --in x.npy --inout y --out z")
    assert "saved to z\n" in report
    assert np.load("y").tolist() == np.load("z").tolist() == [2, 3, 4]
    assert not Path("y.npy").exists()


def test_file_with_several_arrays_is_refused(dev: vgc.Device) -> None:
    np.savez("a.npz", a=A)
    with pytest.raises(ValueError, match=r"--in a\.npz: several arrays; allowed: files that numpy\.save has written"):
        call(dev, "reduce.sum --in a.npz")


def test_transforms_by_the_names_of_functions(dev: vgc.Device) -> None:
    call(dev, "fft.r2c_f32 --in a.npy --out half.npy")
    np.testing.assert_allclose(np.load("half.npy"), np.fft.rfft(A), rtol=1e-5, atol=1e-5)
    call(dev, "fft.c2r_f32 --in half.npy --set n=3 --out c.npy")
    np.testing.assert_allclose(np.load("c.npy"), A, rtol=1e-5, atol=1e-5)
    call(dev, "fft.c2c_f32 --in half.npy --out c.npy")
    assert np.load("c.npy").shape == (2, 2)
