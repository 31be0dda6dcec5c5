"""A guest's source reads files of the host with each means that the compilers have, and finds the compiler's own alone.

The sources are compiled as the daemon compiles them, by the CPU engine's compiler and by NVIDIA's.
"""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_compile_rig import DRIVER, needs_nvcc, needs_nvrtc
from vhost_backend.compiler import view
from vhost_backend.compiler.job import INSIDE, CompileJob
from vhost_backend.compiler.run import CompileLimits, run_compile
from vhost_backend.engines.cpu.cccl import HINT as CCCL_HINT
from vhost_backend.engines.cpu.cccl import cccl
from vhost_backend.engines.cpu.toolchain import INCLUDE_DIR, LLVM_DIR
from vhost_backend.engines.registry import engine_class
from vhost_backend.sandbox import build, memfd

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENT = CompileLimits(wall_seconds=HANGS_AFTER_S, cpu_seconds=HANGS_AFTER_S)
MAX_IMAGE = 64 << 20
COMPILERS = ("cpu", pytest.param("nvrtc", marks=needs_nvrtc), pytest.param("nvcc", marks=needs_nvcc))

SECRET = Path("/usr/lib/os-release")
LIBC = Path("/lib/x86_64-linux-gnu/libc.so.6")
HOST_FILES = (
    *(SECRET, LIBC, Path("/etc/os-release"), Path("/etc/passwd"), Path("/etc/ld.so.cache"), Path("/proc/version")),
    *(Path(sys.executable), Path(sysconfig.get_path("stdlib"), "os.py"), Path(sysconfig.get_path("purelib"))),
    *(REPOSITORY / "pyproject.toml", Path.home(), Path(__file__), Path("/usr/local/include"), Path("/usr/lib/llvm-19")),
    *(Path(name) for name in ("/root", "/home", "/tmp", "/sys", "/var", "/usr/share", "/usr/lib/python3")),
)
"""Files and folders that compilers do not need, of the system and of this project."""
OURS = {path.name for folder in (INCLUDE_DIR, LLVM_DIR / "lib/clang/19/include") for path in folder.iterdir()}
"""Headers that compilers have of their own, whatever packages of the host have the same names."""
EMPTY = 'extern "C" __global__ void f() {}\n'


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    build.main()


def job_of(compiler: str, source: str, *options: str) -> CompileJob:
    """Job as the daemon gets it from the engine."""
    engine = "cpu" if compiler == "cpu" else "cuda"
    settings = {} if engine == "cpu" else {"arch": "sm_90", "driver": DRIVER, "compiler": compiler, "hooks": "on"}
    return engine_class(engine).compile_job("CUDA_SOURCE", source.encode(), options, settings)


def compiled(compiler: str, source: str, *options: str) -> tuple[bytes, str]:
    """All that the guest gets: the image, empty without success, and the log."""
    outcome = asyncio.run(run_compile(job_of(compiler, source, *options), source.encode(), PATIENT, "strict"))
    if outcome.image_fd is None:
        return b"", outcome.log
    try:
        return memfd.read(outcome.image_fd, MAX_IMAGE), outcome.log
    finally:
        os.close(outcome.image_fd)


def secrets() -> set[str]:
    """Words that only the host's files tell."""
    text = SECRET.read_text()
    return {
        line.partition("=")[2].strip('"') for line in text.splitlines() if line.startswith(("PRETTY_NAME", "HOME_"))
    }


def told_of_the_host(image: bytes, log: str) -> set[str]:
    """Secrets, and paths of the host, in what a guest got."""
    paths = {str(REPOSITORY), str(Path.home()), sys.prefix, sys.base_prefix, "/vgc-python-"}
    return {word for word in secrets() | paths if word in log or word.encode() in image}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_files_of_the_host_do_not_exist(compiler: str) -> None:
    asked = "".join(
        f'#if __has_include("{name}{path}")\n#error seen {number} {name}\n#endif\n'
        for number, path in enumerate(HOST_FILES)
        for name in ("", "..", "../../../../../..")
    )
    image, log = compiled(compiler, asked + EMPTY)
    assert "seen" not in log
    assert image


def test_headers_of_other_packages_do_not_exist() -> None:
    """The C and C++ libraries' are visible; what else is installed on the host is not."""
    shown = {bind.source for bind in job_of("cpu", "#include <cstdio>").visible}
    others = [
        path
        for path in Path("/usr/include").iterdir()
        if path not in shown and path.name not in ("c++", "x86_64-linux-gnu")
    ]
    others += [path for path in Path("/usr/include/x86_64-linux-gnu").iterdir() if path not in shown]
    names = {path.name for path in others if path.suffix == ".h"}
    names |= {f"{path.name}/{inner.name}" for path in others if path.is_dir() for inner in path.iterdir()}
    assert names
    asked = "".join(
        f"#if __has_include(<{name}>)\n#error seen {name}\n#endif\n" for name in sorted(names) if name not in OURS
    )
    image, log = compiled("cpu", "#include <cstdio>\n#include <unistd.h>\n" + asked + EMPTY)
    assert "seen" not in log
    assert image


@pytest.mark.skipif(cccl() is None, reason=f"CUB is not installed: {CCCL_HINT}")
def test_cub_is_seen_without_its_neighbours() -> None:
    """NVIDIA's wheels have the libraries beside headers that are not for guests."""
    source = "#include <cub/block/block_reduce.cuh>\n"
    names = (
        "cudaEGL.h",
        "../cudaEGL.h",
        "../cuda_egl_interop.h",
        "../nvPTXCompiler.h",
        "../../lib",
        "../../../__init__.py",
    )
    asked = "".join(
        f"#if __has_include(<{name}>) || __has_include(<cub/../{name}>)\n#error seen {name}\n#endif\n" for name in names
    )
    image, log = compiled("cpu", source + asked + EMPTY)
    assert "seen" not in log
    assert image
    assert not told_of_the_host(image, log)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("path", [SECRET, LIBC], ids=["text", "binary"])
def test_including_a_file_of_the_host_gets_nothing(compiler: str, path: Path) -> None:
    image, log = compiled(compiler, f'#include "{path}"\n{EMPTY}')
    assert not image
    assert any(words in log for words in ("file not found", "cannot open source file", "No such file"))
    assert not told_of_the_host(image, log)


@pytest.mark.parametrize(
    "attack",
    [
        'extern "C" __global__ void g() {{ asm volatile(".pushsection .rodata; .incbin \\"{path}\\"; .popsection"); }}',
        'extern "C" __global__ void g() {{ asm volatile(".include \\"{path}\\""); }}',
        '__device__ const char x[] = {{\n#embed "{path}"\n}};',
    ],
    ids=["incbin", "include", "embed"],
)
def test_cpu_compilers_assembler_and_embed_get_nothing(attack: str) -> None:
    image, log = compiled("cpu", attack.format(path=SECRET) + "\n" + EMPTY)
    assert not image
    assert str(SECRET) in log
    assert not told_of_the_host(image, log)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_log_names_headers_without_the_hosts_folders(compiler: str) -> None:
    source = f"#include <vgc.h>\n#include <math.h>\n__device__ int sqrtf; int y = sqrtf(1, 2, 3);\n#error end\n{EMPTY}"
    image, log = compiled(compiler, source)
    assert "source.cu" in log
    assert not told_of_the_host(image, log)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_image_names_files_without_the_hosts_folders(compiler: str) -> None:
    source = f"#include <vgc.h>\n__device__ const char *here() {{ return __FILE__; }}\n{EMPTY}"
    image, log = compiled(compiler, source, "-lineinfo")
    assert image, log
    assert not told_of_the_host(image, log)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compilers_files_tell_nothing_of_the_hosts_folders(compiler: str) -> None:
    """Files that a compiler needs can be included; none of them names a folder of the host, Python's modules neither."""
    own = [bind for bind in job_of(compiler, EMPTY).visible if bind.target.is_relative_to(INSIDE / "python")]
    modules = [path for bind in own if bind.source.is_dir() for path in bind.source.rglob("*.pyc")]
    assert bool(modules) == (compiler != "cpu")
    assert not [path for path in modules if told_of_the_host(path.read_bytes(), "")]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiler_sees_no_folder_of_libraries(compiler: str) -> None:
    shown = view.binds(job_of(compiler, EMPTY).visible)
    folders = [bind.source for bind in shown if bind.source.is_dir()]
    assert not [path for path in folders if any(other.is_relative_to(path) for other in (LIBC, LIBC.resolve()))]
    libraries = {bind.target.name for bind in shown if bind.target.is_relative_to(view.LIBRARIES)}
    assert ("libc.so.6" in libraries) == (compiler != "cpu")  # the CPU engine's is static
    assert len(libraries) < 40
