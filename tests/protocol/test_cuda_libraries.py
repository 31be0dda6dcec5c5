"""The toolkit's CUDA libraries (cuFFT and others) on the software GPU, beside numpy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host, run_on

PROGRAMS = REPOSITORY / "tests" / "cuda_libraries"
MYNVCC = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"
STATIC = r"""
#include <cstdio>
#include <cublas_v2.h>
#include <cufft.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>
static constexpr cusolverPrecType_t PRECISION = CUSOLVER_C_32F;
static constexpr cusolverIRSRefinement_t REFINEMENT = CUSOLVER_IRS_REFINE_GMRES;
static_assert(PRECISION == 1214 && REFINEMENT == 1104);
int main() {
    cublasHandle_t blas;
    cufftHandle plan;
    curandGenerator_t numbers;
    cusparseHandle_t sparse;
    cusolverDnHandle_t dense;
    printf("%d %d %d %d %d\n", cublasCreate(&blas), cufftPlan1d(&plan, 60, CUFFT_C2C, 1),
           curandCreateGenerator(&numbers, CURAND_RNG_PSEUDO_DEFAULT), cusparseCreate(&sparse), cusolverDnCreate(&dense));
}
"""


def cases(library: str) -> list[str]:
    """The functions that a library's program names in CASES; reading them must not load the library here."""
    for node in ast.parse((PROGRAMS / f"{library}.py").read_text()).body:
        named = [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.DictComp) and named == ["CASES"]:
            (names,) = (generator.iter for generator in node.value.generators)
            return [name.id for name in ast.walk(names) if isinstance(name, ast.Name)]
    raise AssertionError(f"{library} has no CASES")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuestHost, GuestHost]]:
    with (
        guest_host(tmp_path_factory.mktemp("first")) as first,
        guest_host(tmp_path_factory.mktemp("second")) as second,
    ):
        yield first, second


def run(host: GuestHost, library: str, case: str) -> None:
    done = host.python("-m", f"tests.cuda_libraries.{library}", case)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", cases("cudnn"))
def test_cudnn_keeps_descriptors_and_refuses(host: GuestHost, case: str) -> None:
    run(host, "cudnn", case)


@pytest.mark.parametrize("case", cases("cufft"))
def test_cufft_agrees_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cufft", case)


@pytest.mark.parametrize("case", cases("cufft_devices"))
def test_cufft_takes_descriptors_on_one_device(host: GuestHost, case: str) -> None:
    run(host, "cufft_devices", case)


@pytest.mark.parametrize("case", cases("cufft_devices"))
def test_cufft_spreads_data_over_two_devices(hosts: tuple[GuestHost, GuestHost], case: str) -> None:
    done = run_on(hosts, sys.executable, "-m", "tests.cuda_libraries.cufft_devices", case)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", cases("cublas"))
def test_cublas_agrees_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cublas", case)


@pytest.mark.parametrize("case", cases("cublas_structured"))
def test_structured_matrices_of_cublas_agree_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cublas_structured", case)


@pytest.mark.parametrize("case", cases("cublas_batches"))
def test_batches_of_cublas_agree_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cublas_batches", case)


@pytest.mark.parametrize("case", cases("cublas_forms"))
def test_other_forms_of_cublas_agree_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cublas_forms", case)


@pytest.mark.parametrize("case", cases("cublaslt"))
def test_cublaslt_agrees_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cublaslt", case)


@pytest.mark.parametrize("case", cases("curand"))
def test_curand_draws_its_sequences(host: GuestHost, case: str) -> None:
    run(host, "curand", case)


@pytest.mark.parametrize("case", cases("cusparse"))
def test_cusparse_agrees_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cusparse", case)


@pytest.mark.parametrize("case", cases("cusparse_products"))
def test_cusparse_multiplies_all_formats_and_types(host: GuestHost, case: str) -> None:
    run(host, "cusparse_products", case)


@pytest.mark.parametrize("case", cases("cusparse_sparse"))
def test_cusparse_converts_and_multiplies_sparse_data(host: GuestHost, case: str) -> None:
    run(host, "cusparse_sparse", case)


@pytest.mark.parametrize("case", cases("cusolver"))
def test_cusolver_agrees_with_numpy(host: GuestHost, case: str) -> None:
    run(host, "cusolver", case)


@pytest.mark.parametrize("case", cases("cusparse_legacy"))
def test_cusparse_sorts_factors_and_solves(host: GuestHost, case: str) -> None:
    run(host, "cusparse_legacy", case)


@pytest.mark.parametrize("case", cases("cusolver_spectra"))
def test_cusolver_finds_eigenvalues_and_singular_values(host: GuestHost, case: str) -> None:
    run(host, "cusolver_spectra", case)


@pytest.mark.parametrize("case", cases("cusolver_sparse"))
def test_cusolver_solves_sparse_systems(host: GuestHost, case: str) -> None:
    run(host, "cusolver_sparse", case)


@pytest.mark.parametrize("case", cases("cusparse_blocks"))
def test_cusparse_makes_blocks_and_prunes(host: GuestHost, case: str) -> None:
    run(host, "cusparse_blocks", case)


@pytest.mark.parametrize("case", cases("cusolver_generic"))
def test_cusolver_takes_types_at_run_time(host: GuestHost, case: str) -> None:
    run(host, "cusolver_generic", case)


@pytest.mark.parametrize("runtime", ["shared", "static"])
def test_static_libraries_may_be_named(host: GuestHost, tmp_path: Path, runtime: str) -> None:
    (tmp_path / "all.cu").write_text(STATIC)
    names = ("cublas_static", "cublasLt_static", "cufft_static", "curand_static", "cusparse_static", "cusolver_static")
    words: list[str | Path] = [
        MYNVCC,
        "-cudart",
        runtime,
        "all.cu",
        "-o",
        "all",
        *(f"-l{name}" for name in names),
        "-lculibos",
    ]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=HANGS_AFTER_S)
    done = host.run(str(tmp_path / "all"))
    assert (done.returncode, done.stdout.strip()) == (0, "0 0 0 0 0"), done.stderr
