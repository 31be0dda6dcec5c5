"""Relocatable device code: files whose device code refers to that of others."""

from __future__ import annotations

import subprocess

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.mynvcc_rig import CLANGS, Toolkit, fake_toolkit, toolkit

__all__ = ["fake_toolkit", "toolkit"]

FIRST = """
__device__ int value;
__device__ int twice(int x) { return 2 * x + value; }
static __global__ void kernel(int x) {}
void first() { kernel<<<1, 1>>>(1); }
"""
SECOND = """
extern __device__ int value;
__device__ int twice(int x);
static __global__ void kernel(int x) { value = twice(x); }
void first();
int main() {
    const int zero = 0;
    cudaMemcpyToSymbol(value, &zero, sizeof(int));
    kernel<<<1, 1>>>(2);
    first();
}
"""


def launched(lines: list[str]) -> list[str]:
    return [line.split()[-1] for line in lines if line.startswith("launch")]


@pytest.mark.parametrize("clang", CLANGS)
def test_units_of_a_program_are_relocatable(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(a_cu=FIRST, b_cu=SECOND)
    toolkit.build("-rdc=true", "a.cu", "b.cu", environment={"MYNVCC_CLANG": clang})
    lines = toolkit.output()
    assert [line.split()[3] for line in lines if line.startswith("unit")] == ["1", "1"]
    assert launched(lines) == ["2", "1"]


def test_files_of_the_same_name_are_linked(toolkit: Toolkit) -> None:
    for folder, text in (("a", FIRST), ("b", SECOND)):
        (toolkit.folder / folder).mkdir()
        (toolkit.folder / folder / "same.cu").write_text(text)
        subprocess.run(
            [toolkit.top / "bin" / "nvcc", "-dc", "same.cu", "-o", f"../{folder}.o"],
            cwd=toolkit.folder / folder,
            check=True,
            timeout=HANGS_AFTER_S,
        )
    toolkit.build("-rdc=true", "a.o", "b.o")
    assert launched(toolkit.output()) == ["2", "1"]


def test_host_linker_links_what_dlink_has_made(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=FIRST, b_cu=SECOND)
    toolkit.build("-dc", "a.cu", "b.cu")
    toolkit.build("-lib", "a.o", "-o", "liba.a")
    toolkit.build("-dlink", "b.o", "-L.", "-la", "-o", "linked.o")
    lib = toolkit.top / "lib64"
    words = ["c++", "-o", "program", "b.o", "linked.o", "-L.", "-la", f"-L{lib}", "-lcudart", f"-Wl,-rpath,{lib}"]
    subprocess.run(words, cwd=toolkit.folder, check=True, timeout=HANGS_AFTER_S)
    assert launched(toolkit.output("program")) == ["2", "1"]


@pytest.mark.parametrize("links_with_nvcc", [True, False])
def test_units_that_device_code_alone_needs_are_taken_from_static_libraries(
    toolkit: Toolkit, links_with_nvcc: bool
) -> None:
    needed = "__device__ int twice(int x) { return 2 * x; }\n"
    user = "__device__ int twice(int x);\n__global__ void kernel(int x) { twice(x); }\nint main() { kernel<<<1, 1>>>(3); }\n"
    toolkit.write(a_cu=needed, b_cu=user)
    toolkit.build("-dc", "a.cu", "b.cu")
    toolkit.build("-lib", "a.o", "-o", "liba.a")
    if links_with_nvcc:
        toolkit.build("b.o", "-L.", "-la", "-o", "program")
    else:
        toolkit.build("-dlink", "b.o", "liba.a", "-o", "linked.o")
        lib = toolkit.top / "lib64"
        words = ["c++", "-o", "program", "b.o", "linked.o", "liba.a", f"-L{lib}", "-lcudart", f"-Wl,-rpath,{lib}"]
        subprocess.run(words, cwd=toolkit.folder, check=True, timeout=HANGS_AFTER_S)
    assert [line.split()[0] for line in toolkit.output("program")].count("unit") == 2


def test_unit_of_a_static_library_is_in_a_shared_library_and_in_the_program(toolkit: Toolkit) -> None:
    toolkit.write(
        dev_cu="__device__ int twice(int x) { return 2 * x; }\nvoid touch() {}\n",
        so_cu="__device__ int twice(int x);\nvoid touch();\nstatic __global__ void kernel(int x) { twice(x); }\n"
        "void from_library() { touch(); kernel<<<1, 1>>>(1); }\n",
        app_cu="__device__ int twice(int x);\nvoid from_library();\n__global__ void kernel(int x) { twice(x); }\n"
        "int main() { from_library(); kernel<<<1, 1>>>(3); }\n",
    )
    toolkit.build("-dc", "-Xcompiler", "-fPIC", "dev.cu", "so.cu", "app.cu")
    toolkit.build("-lib", "dev.o", "-o", "libdev.a")
    toolkit.build("-shared", "so.o", "libdev.a", "-o", "libso.so")
    toolkit.build("-dlink", "app.o", "libso.so", "libdev.a", "-o", "linked.o")
    lib = toolkit.top / "lib64"
    libraries = ["libso.so", "libdev.a", f"-L{lib}", "-lcudart", f"-Wl,-rpath,{lib}:{toolkit.folder}"]
    words = ["c++", "-o", "program", "app.o", "linked.o", *libraries]
    subprocess.run(words, cwd=toolkit.folder, check=True, timeout=HANGS_AFTER_S)
    lines = toolkit.output("program")
    assert [line.split()[0] for line in lines].count("unit") == 4
    assert launched(lines) == ["1", "3"]
