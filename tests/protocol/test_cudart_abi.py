"""libcudart.so.11.0, .12 and .13 are called as programs of CUDA 11, 12 and 13 call NVIDIA's, and write no more."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.cudart_rig import LIBRARIES
from tests.protocol.guest_host import GuestHost, guest_host

SONAMES: Final = ("11.0", "12", "13")
EXPORTS: Final = REPOSITORY / "guest_driver/cuda/runtime/abi/exports.txt"

# Bytes of NVIDIA's structs, by soname.
BYTES: Final = {
    "cudaGetDeviceProperties": (728, 728, 1008),
    "cudaFuncGetAttributes": (56, 144, 144),
    "cudaPointerGetAttributes": (24, 24, 88),
    "cudaGetTextureObjectTextureDesc": (68, 72, 72),
    "cudaGetTextureObjectResourceDesc": (64, 64, 144),
}

# Offsets of fields of NVIDIA's cudaDeviceProp, by soname.
OFFSETS: Final = {
    "totalGlobalMem": (288, 288, 288),
    "warpSize": (308, 308, 308),
    "major": (360, 360, 360),
    "multiProcessorCount": (388, 388, 384),
    "maxSurfaceCubemap": (556, 556, 540),
    "unifiedAddressing": (604, 604, 588),
    "sharedMemPerMultiprocessor": (640, 640, 624),
    "managedMemory": (652, 652, 636),
}


@dataclass(frozen=True)
class Answers:
    """Structs and results of one library."""

    index: int
    structs: dict[str, bytes]
    versions: list[int]
    edges: int
    capture_status: int
    advise: int


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("abi")) as host:
        yield host


@pytest.fixture(scope="module", params=SONAMES)
def answers(host: GuestHost, request: pytest.FixtureRequest) -> Answers:
    soname = str(request.param)
    done = host.python(
        "-m", "tests.protocol.cudart_abi_child", LIBRARIES / f"libcudart.so.{soname}", soname.partition(".")[0]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    told["structs"] = {name: bytes.fromhex(text) for name, text in told["structs"].items()}
    return Answers(SONAMES.index(soname), **told)


@pytest.mark.parametrize("function", BYTES)
def test_no_more_is_written_than_the_version_s_struct_has(answers: Answers, function: str) -> None:
    assert 0 < len(answers.structs[function]) <= BYTES[function][answers.index]


def test_fields_of_the_device_s_properties_are_where_the_version_has_them(answers: Answers) -> None:
    properties = answers.structs["cudaGetDeviceProperties"]
    # As the full struct of CUDA 12 has them, whose offsets are the second ones.
    full = answers.structs["cudaGetDeviceProperties_v2"]
    for field, offsets in OFFSETS.items():
        at, in_full = offsets[answers.index], offsets[1]
        assert properties[at : at + 4] == full[in_full : in_full + 4], field
    assert struct.unpack_from("<i", full, OFFSETS["multiProcessorCount"][1]) == (2,)


def test_versions_are_the_soname_s(answers: Answers) -> None:
    runtime, driver = answers.versions
    assert runtime == (11080, 12060, 13000)[answers.index]
    assert driver >= runtime


def test_functions_take_the_version_s_parameters(answers: Answers) -> None:
    assert (answers.edges, answers.capture_status, answers.advise) == (1, 1, 0)


def exports() -> dict[str, list[str]]:
    """Names that NVIDIA's libraries export, with their sonames."""
    lines = EXPORTS.read_text().splitlines()
    return {words[0]: words[1:] for line in lines if not line.startswith("#") and (words := line.split())}


def defined(library: Path) -> set[str]:
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[2] for line in text.splitlines()}


@pytest.mark.parametrize("soname", SONAMES)
def test_every_name_of_nvidia_s_library_is_there_under_its_version(soname: str) -> None:
    wanted = {f"{name}@@libcudart.so.{soname}" for name, sonames in exports().items() if soname in sonames}
    assert len(wanted) > 350
    missing = wanted - defined(LIBRARIES / f"libcudart.so.{soname}")
    assert not missing, ", ".join(sorted(missing))


def test_what_is_not_supported_says_so_by_name_once(host: GuestHost) -> None:
    code = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]);"
        "print([library.cudaGraphicsGLRegisterBuffer(None, 0, 0) for i in range(3)])"
    )
    done = host.python("-c", code, LIBRARIES / "libcudart.so.12")
    assert done.stdout == "[801, 801, 801]\n", done.stderr
    assert done.stderr.count("this program uses cudaGraphicsGLRegisterBuffer(), which is not supported") == 1
