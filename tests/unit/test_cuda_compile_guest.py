"""Device code as mynvcc embeds it compiles with NVIDIA's compilers, as the daemon runs them, and so does host code that
was written for the guest's headers, which say CUDA 12.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.fakes.guest import REPOSITORY
from tests.fakes.units import Unit, pack
from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import FOLDER, PROGRAMS, TOOLKIT, CudaProgram
from tests.unit.cuda_compile_rig import compile_whole, log_of, needs_nvcc, needs_nvrtc
from vhost_backend.engines.cuda import toolkits

pytestmark = [needs_nvrtc, needs_nvcc]

HEADERS: Final = REPOSITORY / "kernels/cpu/include"
_BLOB: Final = struct.Struct("<8s4IQ")
_RELOCATABLE: Final = 1
_HAS_DEVICE_CODE: Final = re.compile(r"__global__|__device__|__constant__|__managed__")
_STRING: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
"""A literal, which may be a source for NVRTC."""


_CPU_ALONE: Final = ("cuda12_libraries", "nvstd_functions")
"""Programs that need the software GPU's headers: names that CUDA 12's libraries had, and a header that NVIDIA's wheels lack."""


class DeviceCode(NamedTuple):
    """Device's part of one source (guest_driver/cuda/runtime/blob.h)."""

    unit: Unit
    is_relocatable: bool


def device_code(program: CudaProgram, folder: Path) -> Iterator[DeviceCode]:
    """The device's part of each of a program's sources."""
    for source in (program.source, *(FOLDER / unit for unit in program.units)):
        if source.suffix != ".cu":
            continue
        path = folder / f"{source.stem}.fatbin"
        command = [f"{TOOLKIT}/bin/mynvcc", "-fatbin", *program.compiler_flags(), str(source), "-o", str(path)]
        subprocess.run(command, check=True, timeout=HANGS_AFTER_S)
        blob = path.read_bytes()
        _, flags, name_len, options_len, _, text_len = _BLOB.unpack_from(blob)
        name, options, text = (
            blob[begin : begin + size].decode()
            for begin, size in (
                (_BLOB.size, name_len),
                (_BLOB.size + name_len, options_len),
                (_BLOB.size + name_len + options_len, text_len),
            )
        )
        yield DeviceCode(Unit(name, text, tuple(options.split("\0")[:-1])), bool(flags & _RELOCATABLE))


def compiled_for_devices() -> Iterator[CudaProgram]:
    """Programs with device code, which `build:` lines do not build."""
    for program in PROGRAMS:
        text = _STRING.sub("", program.source.read_text())
        if program.name not in _CPU_ALONE and not program.steps and _HAS_DEVICE_CODE.search(text):
            yield program


@pytest.mark.parametrize("program", [pytest.param(program, id=program.name) for program in compiled_for_devices()])
def test_program_of_a_guest_compiles(program: CudaProgram, tmp_path: Path) -> None:
    if lacking := program.lacking:
        pytest.skip(f"{program.name} needs {lacking}")
    parts = list(device_code(program, tmp_path))
    if any(part.is_relocatable for part in parts):
        compile_whole(pack([part.unit for part in parts]), kind="CUDA_UNITS")
    else:
        for part in parts:
            compile_whole(part.unit.source, part.unit.options)


def plain(header: str) -> str:
    """Text of a header of ours without comments and directives."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", (HEADERS / header).read_text(), flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", ";", text, flags=re.MULTILINE)
    return re.sub(r"__VGC_OR\([^)]*\)", "", text)


def calls(header: str) -> Iterator[str]:
    """A function for each that a header declares, and calls it with parameters of the header's own types."""
    for number, (name, text) in enumerate(
        re.findall(r"\s(?:cudaError_t|const char \*)\s*(cuda\w+)\s*\(([^;{}()]*)\)\s*;", plain(header))
    ):
        parameters = [part.strip() for part in re.sub(r"\s*=\s*[^,]+", "", text).split(",")]
        if parameters in ([""], ["void"]):
            yield f"void call_{name}_{number}() {{ (void){name}(); }}"
            continue
        names = [re.search(r"(\w+)(?:\[\d*\])?$", part) for part in parameters]
        arguments = ", ".join(found[1] for found in names if found)
        yield f"void call_{name}_{number}({', '.join(parameters)}) {{ (void){name}({arguments}); }}"


def constants(header: str) -> Iterator[str]:
    """A function for each constant of a header's enumerations."""
    for body in re.findall(r"\benum\b[^{;()]*\{([^}]*)\}", plain(header)):
        for word in body.split(","):
            name = word.partition("=")[0].strip()
            if name.startswith("cuda"):
                yield f"void use_{name}() {{ (void){name}; }}"


def members(structure: str) -> Iterator[str]:
    """A function for each member of a structure of ours."""
    found = re.search(rf"\bstruct {structure} \{{([^{{}}]*)\}}", plain("driver_types.h"))
    assert found is not None
    for name in re.findall(r"(\w+)(?:\[[^\]]*\])*\s*(?=[,;])", found[1]):
        if name != "reserved":
            yield f"void use_{structure}_{name}({structure} &object) {{ (void)object.{name}; }}"


@pytest.mark.parametrize(
    "uses",
    [
        pytest.param([*calls("cuda_runtime_api.h"), *calls("vgc_graph_api.h")], id="functions"),
        pytest.param(
            [use for header in ("driver_types.h", "vgc_graph_api.h", "vgc_errors.h") for use in constants(header)],
            id="constants",
        ),
        pytest.param(
            [
                use
                for structure in ("cudaDeviceProp", "cudaFuncAttributes", "cudaPointerAttributes", "cudaLaunchParams")
                for use in members(structure)
            ],
            id="members",
        ),
    ],
)
def test_host_code_may_use_what_the_guests_headers_have(uses: list[str]) -> None:
    assert len(uses) > 40
    compile_whole("\n".join(["texture<int> reference; __global__ void k() {}", *uses]))


def test_kernels_that_launch_kernels_need_the_device_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkits.Toolkit, "device_runtime", None)
    program = pack([Unit("a.cu", "__global__ void b() {}\n__global__ void a() { b<<<1, 1>>>(); }\n")])
    assert "needs libcudadevrt.a, and this host's toolkit lacks it" in log_of(
        program, kind="CUDA_UNITS", compiler="auto"
    )
