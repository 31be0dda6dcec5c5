"""cuBLAS and cuFFT in a worker behind its walls: fakes in a made-up toolkit of the host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.fakes import cuda_libraries
from tests.protocol.cuda_host import TEXT_BYTES, CudaGuest, Settings, cuda_host
from tests.unit.cuda_builtins_bench import params_of
from virtio_proto.schema import Opcode, Status

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

RNG: Final = np.random.default_rng(3)


@pytest.fixture(name="toolkit")
def _toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toolkit in a folder that workers do not see otherwise."""
    folder = tmp_path / "toolkit" / "lib64"
    folder.mkdir(parents=True)
    for library in (cuda_libraries.build("cublas"), cuda_libraries.build("cufft")):
        shutil.copy(library, folder)
    monkeypatch.setenv("CUDA_HOME", str(folder.parent))


def call(guest: CudaGuest, name: str, **values: Any) -> None:
    found = guest.ok(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
    params = params_of(name, **values)
    body = {"function": found.value, "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": len(params)}
    reply = guest.request(Opcode.LAUNCH, body, params, answer=TEXT_BYTES)
    assert reply.status == Status.OK, reply.text


@pytest.fixture(name="guest")
def _guest(tmp_path: Path, toolkit: None) -> Iterator[CudaGuest]:  # noqa: ARG001
    """A guest on a fake driver without kernels of these functions: launches of them would change nothing."""
    with cuda_host(tmp_path, Settings(options={"libraries": "on"})) as (vm,):
        yield CudaGuest(vm)


def test_cublas_computes_in_a_worker(guest: CudaGuest) -> None:
    a, b = (RNG.standard_normal(shape) for shape in ((3, 4), (4, 5)))
    there = [guest.alloc(array.tobytes()) for array in (a, b, np.zeros((3, 5)))]
    call(
        guest, "blas.gemm_f64", m=3, n=5, k=4, alpha=1.0, a=there[0], lda=4, b=there[1], ldb=5, c=there[2], ldc=5,
        batch=1, stride_c=15,
    )  # fmt: skip
    np.testing.assert_allclose(np.frombuffer(guest.read(there[2], 120)).reshape(3, 5), a @ b, atol=1e-13)


def test_cufft_computes_in_a_worker(guest: CudaGuest) -> None:
    data = RNG.standard_normal(10) + 1j * RNG.standard_normal(10)
    address = guest.alloc(data.tobytes())
    call(guest, "fft.c2c_f64", **{"in": address, "out": address}, batch=1, rank=1, n0=10, n1=1, n2=1)
    got = np.frombuffer(guest.read(address, 160), np.complex128)
    np.testing.assert_allclose(got, np.fft.fft(data), atol=1e-13)
