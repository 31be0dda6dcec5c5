"""Output of ``vgc functions``: registered functions, and those of the host by name."""

from __future__ import annotations

from guest_driver.arguments import Param, ParamKind
from guest_driver.listing import ListedFunction, describe


def listed(name: str, program: int = 0, launches: int = 0, busy_ns: int = 0, p99_ns: int = 0) -> ListedFunction:
    params = (Param(0, 8, ParamKind.INTEGER), Param(8, 8, ParamKind.POINTER))
    return ListedFunction(
        *(name, name, params, program), is_kept=False, problem="", launches=launches, busy_ns=busy_ns, p99_ns=p99_ns
    )


def test_types_of_a_host_function_are_in_one_row() -> None:
    functions = [
        listed("blas.gemm_f32", launches=3, busy_ns=3000, p99_ns=1500),
        listed("blas.gemm_f64", launches=1, busy_ns=5000, p99_ns=5000),
        listed("sparse.spmv_f32_i32"),
        listed("sparse.spmv_f64_i64"),
        listed("scale", program=2),
    ]
    assert [line.split() for line in describe(functions).splitlines()] == [
        ["function", "program", "launches", "mean", "p99"],
        ["scale(int64,", "pointer)", "2", "registered", "0", "-", "-"],
        ["blas.gemm:", "f32", "f64", "host", "4", "2", "us", "5", "us"],
        ["sparse.spmv:", "f32_i32", "f64_i64", "host", "0", "-", "-"],
    ]


def test_two_hundred_functions_stay_narrow() -> None:
    types = ("f16", "f32", "f64", "i32", "i64", "u32", "u64")
    lines = describe([listed(f"math.function{i}_{type_}") for i in range(30) for type_ in types]).splitlines()
    assert lines[0] == "no functions are registered for this VM: vgc register FILE.cu"
    assert len(lines) == 32
    assert max(map(len, lines)) <= 100


def test_host_function_without_types() -> None:
    assert describe([listed("look")]).splitlines()[-1].split() == ["look", "host", "0", "-", "-"]


def test_nothing() -> None:
    assert describe([]) == "no functions are registered for this VM: vgc register FILE.cu"
