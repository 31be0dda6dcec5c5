"""mynvcc: headers that nvcc includes by itself, header-only libraries that come with CUDA, and how they reach the device."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import compile_image
from tests.unit.mynvcc_rig import CLANGS, CUDA, Toolkit, fake_toolkit, toolkit
from vhost_backend.engines.cpu.cccl import cccl

__all__ = ["fake_toolkit", "toolkit"]

IMPLICIT: Final = """
__global__ void kernel(int *a) { *a = abs(*a); }
int main(int count, char **words) {
    char text[8];
    std::memset(text, 0, 8);
    strcpy(text, "a");
    std::printf("%.1f %.1f %zu %d\\n", std::abs(-1.5f), abs(-2.5), std::strlen(text), std::max(1, 2));
    std::swap(words, words);
    int *place = new (text) int(3);
    assert(*place == 3);
    fprintf(stderr, "%ld\\n", (long)time(nullptr));
    kernel<<<1, 1>>>(nullptr);
    std::exit(atoi("0"));
}
"""
SHARED: Final = """
struct Counter { int value; __device__ Counter() {} };
template <int size> __device__ int sum() { __shared__ int values[size]; values[0] = size; return values[0]; }
__global__ void kernel(int *a) {
    extern __shared__ int dynamic[];
    static __shared__ float fixed[4];
    __shared__ Counter counter;
    __shared__ volatile int flag;
    counter.value = dynamic[0] = 1;
    flag = 2;
    fixed[0] = 3;
    *a = counter.value + flag + (int)fixed[0] + sum<3>();
}
int main() { kernel<<<1, 1, 4>>>(nullptr); }
"""
BARRIER: Final = """
#include <cuda/barrier>
__global__ void kernel() {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    barrier.arrive_and_wait();
}
int main() { kernel<<<1, 32>>>(); }
"""
LAMBDA: Final = """
#include <cuda/std/functional>
#include <thrust/device_vector.h>
#include <thrust/transform.h>
int main() {
    thrust::device_vector<int> values(32, 1);
    const auto twice = [] __host__ __device__ (int value) { return 2 * value; };
    thrust::transform(values.begin(), values.end(), values.begin(), twice);
    return cuda::std::invoke(twice, 0);
}
"""
LIBRARY: Final = {
    "thrust/version.h": "#pragma once\n#define THRUST_VERSION 300500\n",
    "thrust/sort.h": '#pragma once\n#include "detail/sort.h"\n#include <cuda/std/version>\nint inside_thrust();\n',
    "thrust/detail/sort.h": "#pragma once\nint deep_inside_thrust();\n",
    "cuda/std/version": "#pragma once\n#define CCCL_VERSION 3005001\nint inside_cuda();\n",
    "cuda/__barrier/aligned_size.h": """#pragma once
#include <cuda/std/version>
namespace cuda { template <unsigned long> struct aligned_size_t {}; }
""",
}
USER: Final = (
    "#include <thrust/sort.h>\n#include <cuda/std/version>\n__global__ void kernel(int *a) { *a = 1; }\nint main() {}\n"
)


def write_library(folder: Path) -> Path:
    """A folder that looks like one of CUDA's header-only libraries."""
    for name, text in LIBRARY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("clang", CLANGS)
def test_sources_rely_on_the_headers_that_nvcc_includes(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(main_cu=IMPLICIT)
    assert toolkit.build("main.cu", environment={"MYNVCC_CLANG": clang}) == ""
    assert "1.5 2.5 1 2" in toolkit.output()


def test_device_knows_what_nvcc_includes(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=IMPLICIT)
    toolkit.build("main.cu")
    image, _log = compile_image(toolkit.text(), [])
    assert b"_Z6kernelPi" in image


@pytest.mark.parametrize("clang", CLANGS)
def test_shared_objects_may_have_constructors(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(main_cu=SHARED)
    assert toolkit.build("main.cu", environment={"MYNVCC_CLANG": clang}) == ""


@pytest.mark.skipif(cccl() is None, reason="libcu++ is not installed")
@pytest.mark.parametrize("clang", CLANGS)
def test_shared_objects_may_be_of_libcuxx(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(main_cu=BARRIER)
    folder = cccl()
    assert folder is not None
    toolkit.build("-isystem", str(folder.folder), "main.cu", environment={"MYNVCC_CLANG": clang})


@pytest.mark.skipif(cccl() is None, reason="Thrust is not installed")
@pytest.mark.parametrize("options", [["-rdc=true"], ["--extended-lambda"]])
def test_options_of_device_code_are_fit_for_thrust(toolkit: Toolkit, options: list[str]) -> None:
    toolkit.write(main_cu=LAMBDA)
    folder = cccl()
    assert folder is not None
    toolkit.build(*options, "-c", "-isystem", str(folder.folder), "main.cu")


def test_lines_may_end_as_in_windows(toolkit: Toolkit) -> None:
    (toolkit.folder / "main.cu").write_bytes(
        b"#include <stdio.h>\r\n__global__ void kernel(int *a) { *a = 1; }\r\nint main() {}\r\n"
    )
    toolkit.build("main.cu")
    text = toolkit.text()
    assert "#include <stdio.h>" in text.splitlines()
    assert "fprintf" not in text


@pytest.mark.parametrize("option", ["-I", "-isystem"])
def test_libraries_are_put_back_wherever_they_are(toolkit: Toolkit, option: str) -> None:
    toolkit.write(main_cu=USER)
    toolkit.build(option, str(write_library(toolkit.folder / "libraries")), "main.cu")
    text = toolkit.text()
    assert "#include <thrust/sort.h>" in text
    assert "inside_" not in text


def test_headers_of_the_program_keep_their_text_in_a_folder_of_a_librarys_name(toolkit: Toolkit) -> None:
    (toolkit.folder / "cuda").mkdir()
    (toolkit.folder / "cuda" / "kernels.h").write_text("#pragma once\n__global__ void own(int *a) { *a = 1; }\n")
    toolkit.write(main_cu='#include <cuda/kernels.h>\n#include "cuda/kernels.h"\nint main() {}\n')
    toolkit.build("-I.", "main.cu")
    text = toolkit.text()
    assert "void own(" in text
    assert "#include" not in text


def test_another_release_of_the_libraries_on_the_host_is_refused(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=USER)
    libraries = write_library(toolkit.folder / "libraries")
    toolkit.build("-I", str(libraries), "main.cu")
    (toolkit.folder / "text.cpp").write_text(toolkit.text().replace("__global__", ""))
    preprocess: list[str | Path] = ["c++", "-E", "-I", libraries, "-o", "/dev/null", toolkit.folder / "text.cpp"]
    subprocess.run(preprocess, check=True, timeout=HANGS_AFTER_S)
    (libraries / "cuda" / "std" / "version").write_text("#define CCCL_VERSION 3004000\n")
    refused = subprocess.run(preprocess, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert refused.returncode != 0
    assert "CCCL_VERSION 3005001" in refused.stderr


def test_headers_of_cuda_that_use_the_libraries_need_none_on_the_host(toolkit: Toolkit) -> None:
    header = "#include <cooperative_groups/memcpy_async.h>\n"
    libraries = write_library(toolkit.folder / "libraries")
    toolkit.write(main_cu=header + USER.removeprefix("#include <thrust/sort.h>\n#include <cuda/std/version>\n"))
    toolkit.build("-I", str(libraries), "main.cu")
    assert header in toolkit.text()
    assert "CCCL_VERSION" not in toolkit.text()
    toolkit.write(main_cu=header + USER)
    toolkit.build("-I", str(libraries), "main.cu")
    assert "CCCL_VERSION / 1000 != 3005" in toolkit.text()


def test_headers_that_editors_put_first_bring_what_they_are_named_for(toolkit: Toolkit) -> None:
    toolkit.write(
        body_h="#pragma once\n#include <crt/host_defines.h>\nstruct Body { __host__ __device__ int mass() const; };\n",
        body_cpp='#include "body.h"\n#include <driver_functions.h>\n'
        "int width() { return (int)make_cudaExtent(3, 4, 5).width; }\n",
        main_cu='#include "body.h"\n__host__ __device__ int Body::mass() const { return 1; }\n'
        "int width();\nint main() { return Body().mass() + width() - 4; }\n",
    )
    toolkit.build("main.cu", "body.cpp")
    toolkit.output()


def test_libraries_that_python_has_installed_are_found(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=USER)
    write_library(
        toolkit.folder / "venv" / "lib" / "python3.11" / "site-packages" / "nvidia" / "cu13" / "include" / "cccl"
    )
    toolkit.build("main.cu", environment={"VIRTUAL_ENV": str(toolkit.folder / "venv")})
    assert "#include <thrust/sort.h>" in toolkit.text()


@pytest.mark.parametrize("own", [[], ["-I", "libraries"], ["-isystem", "libraries"]])
@pytest.mark.parametrize("release", [2, 3])
def test_names_of_cuda_12_are_added_to_later_libraries_alone(toolkit: Toolkit, release: int, own: list[str]) -> None:
    packages = toolkit.folder / "venv" / "lib" / "python3.11" / "site-packages"
    folder = write_library(toolkit.folder / "libraries" if own else packages / "nvidia" / "cu13" / "include" / "cccl")
    (folder / "thrust" / "version.h").write_text(
        f"#pragma once\n#define THRUST_MAJOR_VERSION {release}\n#define THRUST_NAMESPACE_BEGIN namespace thrust {{\n"
        "#define THRUST_NAMESPACE_END }\n"
    )
    names = "namespace thrust { template <class> struct identity { static int own(); }; }" if release == 2 else ""
    (folder / "thrust" / "functional.h").write_text(f"#include <thrust/version.h>\n{names}\n")
    use = "thrust::identity<int>::own()" if release == 2 else "thrust::identity<int>()(1)"
    toolkit.write(
        main_cu=f"#include <thrust/functional.h>\n__global__ void kernel() {{}}\nint main() {{ return sizeof({use}) == 1; }}\n"
    )
    toolkit.build(*own, "main.cu", environment={"VIRTUAL_ENV": str(toolkit.folder / "venv")})
    assert "#include <thrust/functional.h>" in toolkit.text()


def test_missing_library_is_named_with_the_way_to_get_it(toolkit: Toolkit) -> None:
    toolkit.write(main_cu="#include <cub/no_such_header.cuh>\nint main() {}\n")
    failed = toolkit.nvcc("main.cu", environment={"VIRTUAL_ENV": "", "HOME": str(toolkit.folder)})
    assert "cub/no_such_header.cuh: not found; pip install nvidia-cuda-cccl" in failed.stderr


def test_gcc_takes_the_headers_without_a_warning(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cpp="#include <assert.h>\n#include <cuda_runtime.h>\nint main(int count, char **) { assert(count); }\n"
    )
    command = ["g++", "-Wall", "-Werror", f"-I{toolkit.top / 'include'}", "-c", "main.cpp"]
    subprocess.run(command, cwd=toolkit.folder, check=True, timeout=HANGS_AFTER_S)


def test_host_code_that_is_written_to_be_read_cannot_be_compiled(toolkit: Toolkit) -> None:
    toolkit.write(main_cu="__global__ void kernel() {}\nint main() { kernel<<<1, 1>>>(); }\n")
    toolkit.build("-cuda", "main.cu")
    assert "kernel<<<1, 1>>>()" in (toolkit.folder / "main.cu.cpp.ii").read_text()
    assert "compile its source with mynvcc" in toolkit.nvcc("-c", "main.cu.cpp.ii").stderr


def test_programs_link_the_driver_library(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(
        "#include <cuda.h>\nint main() { int count; return cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1; }\n"
    )
    words: list[str | Path] = [CUDA / "build" / "toolkit" / "bin" / "mynvcc", "main.cu", "-lcuda", "-run"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=HANGS_AFTER_S)


def test_functions_of_the_driver_that_are_missing_are_named_by_the_linker(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text("#include <cuda.h>\nauto *encode = &cuTensorMapEncodeTiled;\nint main() {}\n")
    words: list[str | Path] = [CUDA / "build" / "toolkit" / "bin" / "mynvcc", "main.cu", "-lcuda"]
    failed = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert "undefined reference to `cuTensorMapEncodeTiled'" in failed.stderr


def test_names_behind_literals_are_taken_for_macros(toolkit: Toolkit) -> None:
    """Older programs write no blank there, which C++11 asks for; code for both sides does."""
    toolkit.write(
        say_h='#define SAY(text) printf("> "text"\\n")\n',
        main_cu='#include <cstdio>\n#include "say.h"\n'
        '__global__ void k() { SAY("device"); }\nint main() { SAY("host"); }\n',
    )
    assert toolkit.nvcc("main.cu", "-o", "main").returncode == 0


def test_headers_of_old_and_of_few_names_are_there(toolkit: Toolkit) -> None:
    names = (
        *("cusparse_v2.h", "cuda_awbarrier.h", "cuda_pipeline.h", "sm_35_atomic_functions.h", "math_functions.hpp"),
        *("crt/host_defines.h", "crt/host_config.h", "crt/device_functions.h", "crt/math_functions.h", "crt/mma.h"),
        *("driver_functions.h", "cuda_texture_types.h", "cuda_surface_types.h", "cuda_fp16.hpp", "curand_globals.h"),
    )
    toolkit.write(
        a_cu="".join(f"#include <{name}>\n" for name in names) + "cusparseHandle_t handle;\n"
        "__global__ void kernel(int *from) {\n    __shared__ int tile[1];\n"
        "    __pipeline_memcpy_async(tile, from, sizeof(int));\n}\nint main() { kernel<<<1, 1>>>(nullptr); }\n"
    )
    for clang in CLANGS:
        toolkit.build("-c", "a.cu", environment={"MYNVCC_CLANG": clang})
    toolkit.build("a.cu")
    image, _log = compile_image(toolkit.text(), [])
    assert b"_Z6kernelPi" in image
