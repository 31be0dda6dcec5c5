"""Preludes of the CPU engine's compiler: images and logs are the same with and without, and no prelude is better than a wrong one."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.limits import HANGS_AFTER_S
from vhost_backend.compiler.job import CompileJob
from vhost_backend.compiler.run import CompileLimits, run_compile
from vhost_backend.engines.cpu import cccl, precompile, preludes, toolchain
from vhost_backend.engines.cpu.toolchain import COMPILER, compile_job, made_preludes
from vhost_backend.errors import HostError
from vhost_backend.sandbox import launch
from vhost_backend.sandbox.memfd import read

_PROCESSOR: Final = {"avx2", "bmi2", "fma", "movbe", "f16c", "abm"}
_FLAGS: Final = set(Path("/proc/cpuinfo").read_text().split())
needs_processor = pytest.mark.skipif(
    not _FLAGS >= _PROCESSOR, reason="the processor lacks what preludes are made for: x86-64-v3"
)

KERNEL: Final = """
__device__ float twice(float x) { return x + x; }
extern "C" __global__ void f(float *x, float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = twice(rsqrtf(x[threadIdx.x]));
    __syncthreads();
    atomicAdd(y, __shfl_down_sync(~0u, tile[63 - threadIdx.x], 1) + __fma_rz(1.0, 2.0, 3.0) + __half2float(0));
}
"""
PTX: Final = 'extern "C" __global__ void f(float *x) { asm("add.f32 %0, %0, %1;" : "+f"(x[0]) : "f"(x[1])); }\n'
TEXTURE: Final = """
texture<float, 2> t;
extern "C" __global__ void f(float *x, cudaTextureObject_t o) { *x = tex2D(t, 1, 2) + tex2D<float>(o, 1, 2); }
"""
BLOCK_SUM: Final = """
extern "C" __global__ void f(int *x) {
    using Sum = cub::BlockReduce<int, 64>;
    __shared__ typename Sum::TempStorage room;
    int sum = Sum(room).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) *x = sum;
}
"""
SORT: Final = """
extern "C" __global__ void f(int *x) { x[threadIdx.x] = thrust::maximum<int>()(x[0], 3); }
int main() { thrust::device_vector<int> x(10); thrust::inclusive_scan(x.begin(), x.end(), x.begin()); }
"""
SOURCES: Final = {
    "kernel": (KERNEL.replace(" + __half2float(0)", "") + PTX.replace(" f(", " g("),),
    "api": (
        'extern "C" __global__ void f(cudaError_t *x) { *x = cudaErrorInvalidValue; }\n',
        TEXTURE,
    ),
    "program": ("#include <cuda_fp16.h>\n" + KERNEL, "#include <cooperative_groups.h>\n" + PTX),
    "hosted": (
        "#include <cstdio>\n#include <limits.h>\n#include <vector>\n"
        + PTX
        + 'int sizes[PATH_MAX];\nint main() { std::vector<float> x(3); f<<<1, 1>>>(x.data()); printf("%g", x[0]); }\n',
        'extern "C" __global__ void f(float *x) { std::swap(x[0], x[1]); }\n',
    ),
    "cub": ("#include <cub/cub.cuh>\n" + BLOCK_SUM,),
    "thrust": (
        "#include <cstdio>\n#include <thrust/device_vector.h>\n#define N 10\n#include <thrust/scan.h>\n" + SORT,
        '#define MY_SIZE 8\n#ifdef MY_MAIN\n#include <math.h>\n#endif\n# include "thrust/sort.h"\n' + PTX,
    ),
}
"""Sources of each kind."""


ENTRIES: Final = (
    *("copy", "count", "device_vector", "extrema", "host_vector", "inner_product", "reduce", "remove", "scan", "sort"),
    *("transform_reduce", "transform_scan", "unique"),
)
"""Headers of Thrust that bring its prelude."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """Outcome of a compilation."""

    image: bytes
    """Empty after an error."""
    log: str
    prelude: str
    """Kind of the prelude that was used, empty: none."""


def compiled(source: str, folder: Path, *options: str, job: CompileJob | None = None) -> Compiled:
    job = job or compile_job(options, source.encode())
    (folder / job.input_name).write_text(source)
    for name in ("work", job.output_name):
        (folder / name).unlink(missing_ok=True)
    argv = [job.argv[0], "--work", "work", *job.argv[1:]]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    work = (folder / "work").read_text() if (folder / "work").exists() else ""
    image = (folder / job.output_name).read_bytes() if done.returncode == 0 else b""
    return Compiled(image, done.stdout + done.stderr, work.partition("prelude ")[2].partition("\n")[0])


def without_preludes(source: str, *options: str) -> CompileJob:
    job = compile_job(options, source.encode())
    words = list(job.argv)
    while "--prelude" in words:
        at = words.index("--prelude")
        del words[at : at + 2]
    return dataclasses.replace(job, argv=tuple(words))


def check_same(source: str, folder: Path, *options: str) -> Compiled:
    """Compiles with and without preludes."""
    plain = compiled(source, folder, job=without_preludes(source, *options))
    assert not plain.prelude
    own = compiled(source, folder, *options)
    assert (own.image, own.log) == (plain.image, plain.log)
    return own


needs_cccl_preludes = pytest.mark.skipif(
    not (COMPILER.parent / preludes.CCCL_FOLDER / "thrust.pch").exists(), reason="nobody has precompiled CUB and Thrust"
)


def kinds_and_sources() -> list[Any]:
    return [
        pytest.param(kind, source, marks=needs_cccl_preludes if kind in preludes.CCCL_KINDS else ())
        for kind, sources in SOURCES.items()
        for source in sources
    ]


@needs_cccl_preludes
def test_cub_and_thrust_are_precompiled() -> None:
    libraries = cccl.cccl()
    assert libraries is not None
    made = toolchain.made_cccl_preludes(libraries)
    assert {one.path.stem: one.fault for one in made} == dict.fromkeys(preludes.CCCL_KINDS, "")


def test_the_build_leaves_whole_preludes() -> None:
    assert {one.path.stem: one.fault for one in made_preludes()} == dict.fromkeys(preludes.KINDS, "")


@needs_processor
@pytest.mark.parametrize("standard", ["", "-c++17"])
@pytest.mark.parametrize(("kind", "source"), kinds_and_sources())
def test_images_are_the_same(kind: str, source: str, standard: str, tmp_path: Path) -> None:
    own = check_same(source, tmp_path, *([f"-std={standard[1:]}"] if standard else []))
    assert own.image, own.log
    assert own.prelude == f"{kind}{standard}"


@needs_processor
@needs_cccl_preludes
@pytest.mark.parametrize(
    "before",
    [
        "#define CCCL_DISABLE_EXCEPTIONS\n",
        "#undef CUB_STDERR\n",
        '#pragma push_macro("N")\n',
        "#if 1\n",
    ],
)
def test_libraries_that_a_source_includes_otherwise_are_read(before: str, tmp_path: Path) -> None:
    end = "#endif\n" if before.startswith("#if") else ""
    own = compiled(f"{before}#include <cub/cub.cuh>\n{end}{BLOCK_SUM}", tmp_path)
    assert own.image, own.log
    assert own.prelude == "hosted"


@needs_processor
@needs_cccl_preludes
def test_options_that_libraries_may_see_do_without(tmp_path: Path) -> None:
    source = "#include <cub/cub.cuh>\n" + BLOCK_SUM
    assert compiled(source, tmp_path, "-DCUB_STDERR").prelude == "hosted"
    assert compiled(source, tmp_path, "-DMY_SIZE=8").prelude == "cub"
    assert compiled(source, tmp_path, "-std=c++20").prelude == ""


@needs_processor
@needs_cccl_preludes
def test_errors_in_libraries_name_no_path_of_the_host(tmp_path: Path) -> None:
    own = compiled(
        f"#include <thrust/scan.h>\n{PTX}void f(int *x) {{ thrust::inclusive_scan(1.5, 2.5, x); }}\n", tmp_path
    )
    assert own.prelude == "thrust"
    assert "from /vgc/prelude.cu:1" in own.log
    assert str(Path.cwd()) not in own.log


def dependencies(header: str, folder: Path, libraries: cccl.Cccl) -> set[str]:
    """Headers of the libraries that one of them includes."""
    (folder / "source.cu").write_text(f"#include <{header}>\n")
    flags = (
        "-M -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -std=gnu++17 -D__VGC_CPU__=1 "
        "-U__CUDA_ARCH__ -D__CUDA_ARCH__=800 -D__CUDACC__=1"
    )
    ours = (toolchain.INCLUDE_DIR, toolchain.CONTROL_DIR / "include", toolchain.CUDA12_NAMES_DIR)
    folders = (*ours, libraries.folder)
    argv = ["clang++-19", *flags.split(), *(word for path in folders for word in ("-isystem", str(path)))]
    argv += ["-include", "cuda_runtime.h", "-include", "vgc_hosted.h", "source.cu"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S)
    words = done.stdout.replace("\\\n", " ").split()
    return {word.removeprefix(f"{libraries.folder}/") for word in words if word.startswith(str(libraries.folder))}


@needs_processor
@needs_cccl_preludes
@pytest.mark.parametrize("name", ENTRIES)
def test_headers_that_bring_the_prelude_include_all_of_it(name: str, tmp_path: Path) -> None:
    libraries = cccl.cccl()
    assert libraries is not None
    listed = (COMPILER.parent / preludes.CCCL_FOLDER / "thrust.made").read_text().split()
    prefix = f"{cccl.KNOWN_AS}/"
    inside = {word.removeprefix(prefix) for word in listed if word.startswith(prefix)}
    assert inside
    assert inside <= dependencies(f"thrust/{name}.h", tmp_path, libraries)
    assert compiled(f"#include <thrust/{name}.h>\n{PTX}", tmp_path).prelude == "thrust"


def test_a_host_without_the_libraries_precompiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cccl, "cccl", lambda: None)
    assert precompile.precompile(tmp_path / "made") == ""
    assert [path.name for path in (tmp_path / "made").iterdir()] == [precompile.DONE]
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_libraries_that_do_not_parse_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = cccl.Cccl(tmp_path / "broken", "1.0", (), "")
    for name in ("broken", "made"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cccl, "cccl", lambda: broken)
    with pytest.raises(HostError, match=r"cannot be precompiled: [^$]*'cub/cub\.cuh' file not found"):
        precompile.precompile(tmp_path / "made")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "made"]


@needs_processor
@pytest.mark.parametrize(
    "source",
    [
        "\n__device__ int f( { }\n",
        'extern "C" __global__ void f(float *x) { sinf(x, x); }\n',
        'extern "C" __global__ void f(float *x) { __sync_threads(); }\n',
        "#define threadIdx 7\n#define cudaSuccess 1\n#warning look\n" + PTX,
        "__device__ int atomicAdd(float x);\n"
        + PTX.replace("float *x", "float *x, int *y").replace("asm", "*y = atomicAdd(2.0f); asm"),
        '#include <vector>\nextern "C" __global__ void f(std::vector<int> *x) { x->push_back(1, 2, 3); }\n',
    ],
)
def test_logs_are_the_same(source: str, tmp_path: Path) -> None:
    own = check_same(source, tmp_path)
    assert own.log
    assert own.prelude


@needs_processor
@pytest.mark.parametrize("options", [("--memcheck",), ("--racecheck",), ("--lockstep",), ("-ftz=true",), ("-w",)])
def test_options_of_the_optimiser_keep_the_prelude(options: tuple[str, ...], tmp_path: Path) -> None:
    own = check_same(KERNEL.replace(" + __half2float(0)", ""), tmp_path, *options)
    assert own.image, own.log
    assert own.prelude == "kernel"


@needs_processor
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("-DMY_SIZE=8", "-U", "MY_OTHER"), "kernel"),
        (("--define-macro=MY_SIZE(x)=x", "-DMY_CHECKS"), "kernel"),
        (("-DMY_SIZE=8", "-D__VGC_HD__=oops"), ""),
        (("-UwarpSize",), ""),
        (("-DNDEBUG",), ""),
        (("-D", "__FMA__=1"), ""),
        (("-U__FMA__",), ""),
        (("-D__CUDA_ARCH__=700",), ""),
        (("-D__CUDACC__(x)=x",), ""),
        (("--malloc-heap-size=65536",), ""),
        (("-std=c++14",), ""),
        (("-fmad=false",), ""),
    ],
)
def test_options_that_headers_may_see_do_without(options: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    source = "#ifndef MY_SIZE\n#define MY_SIZE 4\n#endif\n" + PTX.replace("float *x", "float x[MY_SIZE]")
    own = check_same(source.replace("[MY_SIZE]", "[MY_SIZE(4)]") if "(x)" in options[0] else source, tmp_path, *options)
    assert own.image or own.log
    assert own.prelude == kind


@needs_processor
@pytest.mark.parametrize("content", [b"", b"CPCH", bytes(4096), b"no prelude at all\n" * 512])
def test_a_file_that_is_no_prelude_is_ignored(content: bytes, tmp_path: Path) -> None:
    shutil.copytree(COMPILER.parent / preludes.FOLDER, tmp_path / "preludes")
    (tmp_path / "preludes" / "kernel.pch").write_bytes(content)
    job = without_preludes(PTX)
    job = dataclasses.replace(job, argv=(job.argv[0], "--prelude", "preludes/kernel.pch", *job.argv[1:]))
    own = compiled(PTX, tmp_path, job=job)
    assert own.image
    assert not own.log + own.prelude


@needs_processor
@pytest.mark.skipif(launch.missing_feature() is not None, reason=f"no sandbox here: {launch.missing_feature()}")
@pytest.mark.parametrize(("kind", "text"), kinds_and_sources())
def test_the_sandbox_shows_preludes(kind: str, text: str) -> None:
    source = text.encode()
    job = compile_job((), source)
    job = dataclasses.replace(job, argv=(job.argv[0], "--work", "work", *job.argv[1:]), output_name="work")
    outcome = asyncio.run(run_compile(job, source, CompileLimits(), "strict"))
    assert outcome.image_fd is not None, outcome.log
    assert read(outcome.image_fd, 4096).decode().startswith(f"prelude {kind}\n")


def test_preludes_are_looked_at_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((5.0, 5.9, 6.0))
    looks: list[None] = []

    def look() -> tuple[preludes.Prelude, ...]:
        looks.append(None)
        return ()

    monkeypatch.setattr(toolchain, "made_preludes", look)
    monkeypatch.setattr("vhost_backend.engines.cpu.toolchain.time.monotonic", lambda: next(times))
    toolchain._offered.cache_clear()
    try:
        for _ in range(3):
            compile_job(())
    finally:
        toolchain._offered.cache_clear()
    assert len(looks) == 2


class TestDigests:
    """A copy of the preludes, of which something has changed."""

    @pytest.fixture
    def compiler(self, tmp_path: Path) -> Path:
        shutil.copytree(COMPILER.parent / preludes.FOLDER, tmp_path / preludes.FOLDER)
        shutil.copy(COMPILER, tmp_path)
        return tmp_path / COMPILER.name

    @staticmethod
    def faults(compiler: Path, headers: Path = toolchain.INCLUDE_DIR) -> dict[str, str]:
        names = {**toolchain.FOLDERS, Path("/vgc/kernels/cpu/include"): headers}
        return {one.path.stem: one.fault for one in preludes.preludes(compiler, names)}

    def test_nothing_has_changed(self, compiler: Path) -> None:
        assert not any(self.faults(compiler).values())

    @pytest.mark.parametrize("suffix", [".pch", ".names"])
    def test_damage_is_found(self, suffix: str, compiler: Path) -> None:
        path = compiler.parent / preludes.FOLDER / f"api{suffix}"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        faults = self.faults(compiler)
        assert faults.pop("api") == f"it is damaged: {path}"
        assert not any(faults.values())

    def test_damage_is_found_while_the_daemon_runs(self, compiler: Path) -> None:
        assert not self.faults(compiler)["kernel"]
        (compiler.parent / preludes.FOLDER / "kernel.pch").write_bytes(b"")
        assert "damaged" in self.faults(compiler)["kernel"]

    @pytest.mark.parametrize("text", ["", "compiler 12\n", "prelude\n", "\x00", "file " + "0" * 64 + " /vgc/host/x\n"])
    def test_damaged_list_of_digests(self, text: str, compiler: Path) -> None:
        (compiler.parent / preludes.FOLDER / "kernel.made").write_text(text)
        assert self.faults(compiler)["kernel"] == "its list of digests is damaged"

    def test_missing_files(self, compiler: Path) -> None:
        (compiler.parent / preludes.FOLDER / "kernel.made").unlink()
        (compiler.parent / preludes.FOLDER / "api.pch").unlink()
        faults = self.faults(compiler)
        assert faults["kernel"] == "it has not been made"
        assert "api.pch cannot be read: No such file or directory" in faults["api"]

    def test_another_compiler(self, compiler: Path) -> None:
        with compiler.open("ab") as file:
            file.write(b"\0")
        assert set(self.faults(compiler).values()) == {f"it is older than {compiler}"}

    def test_a_changed_header(self, compiler: Path, tmp_path: Path) -> None:
        shutil.copytree(toolchain.INCLUDE_DIR, tmp_path / "headers")
        with (tmp_path / "headers" / "vgc_hosted.h").open("a") as file:
            file.write("\n")
        faults = self.faults(compiler, tmp_path / "headers")
        for kind in ("hosted", "hosted-c++17"):
            assert faults.pop(kind) == f"it is older than {tmp_path / 'headers' / 'vgc_hosted.h'}"
        assert not any(faults.values())

    def test_a_faulty_prelude_is_not_offered(self, compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (compiler.parent / preludes.FOLDER / "kernel.pch").write_bytes(b"")
        monkeypatch.setattr(toolchain, "COMPILER", compiler)
        argv = compile_job((), b"").argv
        offered = {Path(after).stem for word, after in itertools.pairwise(argv) if word == "--prelude"}
        assert offered == set(preludes.KINDS) - {"kernel"}
