"""Kernels of CUDA programs that run on the device or on the guest's CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from guest_driver import local_functions
from guest_driver.errors import InvalidArgument
from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import TOOLKIT
from tests.protocol.guest_host import GuestHost, guest_host

SOURCES: Final = REPOSITORY / "tests" / "protocol"
REPORT: Final = re.compile(r"virtio-gpu-compute: (\w+): (\d+) launches on the device, (\d+) on the CPU\n")

UNFIT: Final = """
#include <cuda_runtime.h>
__device__ int (*chosen)(int);
__global__ void fit(int *out) { out[0] = 1; }
__global__ void textures(cudaTextureObject_t t, float *out) { out[0] = tex2D<float>(t, 1, 2); }
__global__ void heap(int **out) { *out = new int[3]; }
__global__ void pointers(int *out) { out[0] = chosen(out[1]); }
__global__ void spins(volatile int *out) { while (out[0] == 0) {} }
int main() { fit<<<1, 1>>>(nullptr); return 0; }
"""
"""Kernels of which one alone can have a CPU version."""


def mynvcc(*arguments: str | Path) -> str:
    """Returns what it says on stderr."""
    done = subprocess.run(
        [TOOLKIT / "bin" / "mynvcc", *arguments], check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in ("kernels", "choices"):
        assert mynvcc("-O2", SOURCES / f"cudart_either_{name}.cu", "-o", folder / name) == ""
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def run(
    host: GuestHost, *program: str | Path, **environment: str | Path
) -> tuple[str, dict[str, tuple[int, int]], str]:
    """Returns its output, the launches of each kernel on the device and on the CPU, and the rest of stderr."""
    settings = {"VGC_EITHER_REPORT": "1", "VGC_EITHER_FILE": ""} | environment
    done = host.run("env", *(f"{name}={value}" for name, value in settings.items()), *program)
    assert done.returncode == 0, done.stdout + done.stderr
    counts: dict[str, tuple[int, int]] = {}
    for name, device, cpu in REPORT.findall(done.stderr):
        before = counts.get(name, (0, 0))
        counts[name] = (before[0] + int(device), before[1] + int(cpu))
    return done.stdout, counts, REPORT.sub("", done.stderr)


def sides(counts: dict[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(device for device, _ in counts.values()), sum(cpu for _, cpu in counts.values())


def test_both_sides_compute_the_same(host: GuestHost, folder: Path) -> None:
    on_device, device_counts, _ = run(host, folder / "kernels", VGC_EITHER_SIDE="gpu")
    on_cpu, cpu_counts, _ = run(host, folder / "kernels", VGC_EITHER_SIDE="cpu")
    assert on_device == on_cpu
    assert on_device.endswith("done\n")
    assert sides(device_counts) == (15, 0)
    assert sides(cpu_counts) == (0, 15)


def test_rules_choose_sides_by_name(host: GuestHost, folder: Path) -> None:
    _, counts, _ = run(host, folder / "kernels", VGC_EITHER_SIDE="walk=cpu,_Z5warps*=cpu,c*=gpu,sum=cpu,gpu")
    assert {name for name, (_, cpu) in counts.items() if cpu > 0} == {"walk", "warps", "sum"}


def test_work_on_both_sides_keeps_the_order_of_streams(host: GuestHost, folder: Path) -> None:
    on_device, _, _ = run(host, folder / "choices", "order", VGC_EITHER_SIDE="gpu")
    on_cpu, counts, _ = run(host, folder / "choices", "order", VGC_EITHER_SIDE="cpu")
    assert on_device == on_cpu == "order 3975 7951 243\n"
    assert counts["add"] == (0, 15)


def test_wild_address_on_the_cpu_is_an_error_until_a_reset(host: GuestHost, folder: Path) -> None:
    output, _, errors = run(host, folder / "choices", "fault", VGC_EITHER_SIDE="cpu", VGC_VERBOSE="1")
    assert output == "fault cudaErrorIllegalAddress cudaErrorIllegalAddress\nlast 1\n"
    assert "invalid address 0x10 in the CPU version of kernel '_Z3addPii'" in errors


def test_division_by_zero_on_the_cpu_is_an_error(host: GuestHost, folder: Path) -> None:
    output, _, _ = run(host, folder / "choices", "divide", VGC_EITHER_SIDE="cpu")
    assert output == "divide cudaErrorLaunchFailure\n"


def test_functions_for_both_sides_are_found_by_name(host: GuestHost, folder: Path) -> None:
    output, _, _ = run(host, folder / "choices", "table")
    assert output.splitlines() == [
        "function half _Z4halfIiET_S0_",
        "function twice _Z5twicei",
        "kernel add _Z3addPii",
        "kernel divide _Z6dividePii",
        "twice 42 1",
    ]


def shown(host: GuestHost, program: Path, **environment: str | Path) -> dict[str, str]:
    """Rows of `vgc functions`, by the linker's name, with single spaces."""
    settings = [f"{name}={value}" for name, value in environment.items()]
    done = host.run("env", *settings, sys.executable, "-m", "guest_driver", "functions", program)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    return {words[-1]: " ".join(words[:-1]) for words in rows}


def test_vgc_functions_shows_what_programs_find(host: GuestHost, folder: Path) -> None:
    output, _, _ = run(host, folder / "choices", "table")
    listed = {line.split()[2]: line.split()[:2] for line in output.splitlines()[:-1]}
    rows = shown(host, folder / "choices", VGC_EITHER_FILE="")
    assert {name: row.split()[1::-1] for name, row in rows.items()} == listed
    assert rows["_Z4halfIiET_S0_"] == "half function the caller's"
    assert rows["_Z3addPii"] == "add kernel - - - to be measured"


def test_vgc_functions_shows_times_and_the_next_side(host: GuestHost, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "either"
    run(host, folder / "choices", "launches", "3", VGC_EITHER_FILE=file)
    assert shown(host, folder / "choices", VGC_EITHER_FILE=file)["_Z3addPii"].endswith(" - to be measured")
    preset(file, device_ns=12_345, cpu_ns=3_000_000_000)
    rows = shown(host, folder / "choices", VGC_EITHER_FILE=file)
    assert rows["_Z3addPii"] == "add kernel 1024-2047 12.3 us 3 s device"
    preset(file, device_ns=12_345, cpu_ns=1_500)
    rows = shown(host, folder / "choices", VGC_EITHER_FILE=file, VGC_EITHER_SIDE="div*=gpu,_Z3none=gpu,auto")
    assert rows["_Z3addPii"] == "add kernel 1024-2047 12.3 us 1.5 us CPU"
    assert rows["_Z6dividePii"] == "divide kernel - - - device (VGC_EITHER_SIDE)"


def test_vgc_functions_refuses_damaged_programs(folder: Path) -> None:
    image = (folder / "choices").read_bytes()
    begin = image.index(b"VGCUDA1\0")
    library = image.index(b"\x7fELF", begin)
    end = library + int.from_bytes(image[library - 8 : library], "little")
    damaged = folder / "damaged"
    random = Random(1)
    outcomes, texts = set(), []
    for i in range(60):
        changed = bytearray(image)
        first, last = (begin, end) if i % 2 else (library, library + 64)  # of which the latter is the library's header
        for _ in range(8):
            changed[random.randrange(first, last)] = random.randrange(256)
        damaged.write_bytes(changed[: random.choice([len(changed), random.randrange(begin, end)])])
        try:
            outcomes.add(len(local_functions.read(damaged)))
        except InvalidArgument as error:
            texts.append(str(error))
    assert {0, 4} <= outcomes, "some have lost the begin of what mynvcc embedded, some are well but for their code"
    assert texts
    assert all(re.search("damaged: (its CPU versions cannot be read|made by another)", text) for text in texts)


def test_vgc_functions_says_that_there_are_none(host: GuestHost) -> None:
    done = host.python("-m", "guest_driver", "functions", "/bin/true")
    assert done.returncode == 1
    assert "/bin/true has no functions for either side: mark kernels with __vgc_either__" in done.stderr


def preset(file: Path, device_ns: int, cpu_ns: int) -> None:
    """Replaces the measured times."""
    words = file.read_text().split()
    file.write_text(" ".join([*words[:3], str(device_ns), "9", str(cpu_ns), "9"]) + "\n")


def test_faster_side_is_chosen_and_the_other_tried_again(host: GuestHost, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "either"
    expected, counts, _ = run(host, folder / "choices", "launches", "10", VGC_EITHER_FILE=file)
    assert min(counts["add"]) >= 3, "each side is measured first"
    hour_ns = 3_600 * 10**9
    preset(file, device_ns=hour_ns // 10, cpu_ns=hour_ns)
    output, counts, _ = run(host, folder / "choices", "launches", "10", VGC_EITHER_FILE=file)
    assert output == expected
    assert counts["add"] == (10, 0)
    preset(file, device_ns=hour_ns, cpu_ns=hour_ns // 10)
    assert run(host, folder / "choices", "launches", "10", VGC_EITHER_FILE=file)[1]["add"] == (0, 10)
    preset(file, device_ns=hour_ns, cpu_ns=hour_ns // 10)
    device, _ = run(host, folder / "choices", "launches", "64", VGC_EITHER_FILE=file)[1]["add"]
    assert device >= 1, "the 64th launch tries the slower side"


def test_kernels_that_cannot_run_on_a_cpu_are_named(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "unfit.cu").write_text(UNFIT)
    said = mynvcc("--either=*", tmp_path / "unfit.cu", "-o", tmp_path / "unfit")
    reasons = dict(re.findall(r"kernel '(\w+)' gets no CPU version: (.*)", said))
    assert reasons == {
        "textures": "it uses textures",
        "heap": "it uses malloc() and new in kernels",
        "pointers": "it calls functions by their addresses, or virtual ones",
        "spins": "it uses volatile memory",
    }
    _, counts, _ = run(host, tmp_path / "unfit", VGC_EITHER_SIDE="gpu")
    assert counts == {"fit": (1, 0)}


def test_only_marked_and_chosen_kernels_get_a_cpu_version(host: GuestHost, tmp_path: Path) -> None:
    (tmp_path / "unfit.cu").write_text(UNFIT)
    assert mynvcc(tmp_path / "unfit.cu", "-o", tmp_path / "plain") == ""
    assert mynvcc("--either=f?t", tmp_path / "unfit.cu", "-o", tmp_path / "chosen") == ""
    assert run(host, tmp_path / "plain", VGC_EITHER_SIDE="gpu")[1] == {}
    assert run(host, tmp_path / "chosen", VGC_EITHER_SIDE="gpu")[1] == {"fit": (1, 0)}


def test_without_a_fallback_memory_beyond_the_allotment_is_an_error(host: GuestHost, folder: Path) -> None:
    assert run(host, folder / "choices", "exhaust", "100")[0] == "exhaust cudaErrorMemoryAllocation\n"


@pytest.mark.parametrize("kind", ["malloc", "async", "managed", "mapped"])
def test_memory_beyond_the_allotment_is_the_guests_for_kernels_on_the_cpu(
    host: GuestHost, folder: Path, kind: str
) -> None:
    fallback = {"VGC_FALLBACK": "cpu", "VGC_EITHER_SIDE": "gpu"}
    within, _, said = run(host, folder / "choices", "exhaust", "36", kind, **fallback)
    assert said == ""
    output, counts, said = run(host, folder / "choices", "exhaust", "100", kind, **fallback)
    assert counts["add"] == (1, 2)
    assert output.split()[:4] == within.split()[:4]
    assert output.split()[4:] == ["cudaErrorMemoryAllocation", within.split()[-1]], "a kernel without a CPU version"
    assert said.count("the VM's device memory is used up") == 1


def test_host_and_kernels_share_managed_memory_beyond_the_allotment(host: GuestHost, folder: Path) -> None:
    words = (folder / "choices", "host", "96")
    output, counts, _ = run(host, *words, VGC_FALLBACK="cpu", VGC_EITHER_SIDE="gpu")
    assert counts["add"] == (0, 6)
    numbers = {i: i % 1000 for i in [*range(0, (96 << 20) // 4, 997), 1, 2]}
    small = [4 if i == 3 else 0 for i in range(1024)]
    for by in range(3):  # what the kernel does, then the host
        numbers = {i: 2 * number + by for i, number in numbers.items()}
        small = [2 * number + by for number in small]
        numbers[by] += small[3]
    expected = sum(numbers[i] + small[i % 1024] for i in range(0, (96 << 20) // 4, 997))
    assert output == f"host {expected} 1\n"


@pytest.mark.parametrize(("mib", "side"), [("20", "gpu"), ("20", "cpu"), ("66", "cpu")])
def test_memory_of_pools_stays_until_kernels_on_the_cpu_are_done(
    host: GuestHost, folder: Path, mib: str, side: str
) -> None:
    output, _, _ = run(host, folder / "choices", "pools", mib, VGC_FALLBACK="cpu", VGC_EITHER_SIDE=side)
    assert output == "pools 16 0\n"


def test_graphs_copy_and_fill_memory_beyond_the_allotment(host: GuestHost, folder: Path) -> None:
    output, _, _ = run(host, folder / "choices", "graph", "100", VGC_FALLBACK="cpu")
    assert output == "graph 0x1010101 0x2020202 cudaErrorMemoryAllocation\n"


def run_with_loss(
    host: GuestHost, *program: str | Path, fallback: str = "cpu", side: str = "cpu", kills: bool = True
) -> tuple[str, str]:
    """Runs a program that says when its device is to be lost. Returns its output behind that, and its stderr."""
    settings = {"VGC_FALLBACK": fallback, "VGC_EITHER_SIDE": side, "VGC_EITHER_FILE": ""}
    place = {"VGC_MEMFD": host.link.description, "VGC_STATE_DIR": str(host.state_dir)}
    process = subprocess.Popen(
        program,
        env=os.environ | settings | place,
        pass_fds=host.link.fds,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    if kills:
        host.lose_worker()
    output, said = process.communicate("\n", timeout=HANGS_AFTER_S)
    return output, said


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    """Host of the tests that kill its worker."""
    with guest_host(tmp_path_factory.mktemp("losing")) as host:
        yield host


@pytest.mark.parametrize(
    ("where", "first"),
    [("managed", first) for first in ("kernel", "copy", "malloc", "free", "fill", "wait")]
    + [("adopted", first) for first in ("kernel", "copy", "malloc", "fill")]
    + [("spare", "kernel"), ("streams", "kernel"), ("streams", "copy")],
)
def test_program_goes_on_if_the_lost_device_had_nothing_that_it_needs(
    losing: GuestHost, folder: Path, where: str, first: str
) -> None:
    program = (folder / "choices", "lost", "0", where, first)
    expected, said = run_with_loss(losing, *program, kills=False)
    assert "lost" not in said
    output, said = run_with_loss(losing, *program)
    words, well = output.split(), expected.split()
    assert well[4] == "cudaSuccess"
    assert words[:4] + words[5:] == well[:4] + well[5:], output
    given = "cudaSuccess" if first == "free" else "cudaErrorMemoryAllocation"
    assert words[4] == given, "a kernel without a CPU version is given what was kept, or new memory"
    assert said.count("the device was lost, and nothing that the program needs") == 1


@pytest.mark.parametrize(
    ("first", "side", "what"),
    [(first, "cpu", "1048576 bytes of memory at 0x[0-9a-f]+") for first in ("kernel", "malloc", "copy")]
    + [("kernel", "gpu", "results of its work")],
)
def test_loss_of_data_is_told_and_is_an_error(
    losing: GuestHost, folder: Path, first: str, side: str, what: str
) -> None:
    output, said = run_with_loss(losing, folder / "choices", "lost", "0", "device", first, side=side)
    assert re.match(r"cuda\w+\(.*\): CUDA-capable device\(s\) is/are busy or unavailable\n", output)
    assert re.search(f"the device was lost, and with it {what}: the program cannot go on", said)


def test_without_a_fallback_a_lost_device_is_an_error(losing: GuestHost, folder: Path) -> None:
    output, said = run_with_loss(losing, folder / "choices", "lost", "0", "managed", "kernel", fallback="")
    assert output.startswith("cudaDeviceSynchronize(): CUDA-capable device(s) is/are busy or unavailable")
    assert "the device was lost" not in said


def test_program_with_variables_does_not_go_on(losing: GuestHost, tmp_path: Path) -> None:
    mynvcc("-DVARIABLE", SOURCES / "cudart_either_choices.cu", "-o", tmp_path / "variable")
    output, said = run_with_loss(losing, tmp_path / "variable", "lost", "0", "managed", "kernel")
    assert "unavailable" in output
    assert "the device was lost, and with it a variable: the program cannot go on" in said


def test_memory_that_must_be_the_devices_is_named(host: GuestHost, folder: Path) -> None:
    output, _, said = run(host, folder / "choices", "refused", "100", VGC_FALLBACK="cpu")
    assert output == "refused" + " cudaErrorMemoryAllocation" * 3 + "\n"
    named = re.findall(r"virtio-gpu-compute: (.*): the device has no room, and VGC_FALLBACK does not help there", said)
    assert named == ["arrays", "device pointers to registered memory", "a texture of memory beyond the VM's allotment"]


def test_program_without_room_on_the_device_runs_on_the_cpu(host: GuestHost, tmp_path: Path) -> None:
    mynvcc("-DBIG", SOURCES / "cudart_either_choices.cu", "-o", tmp_path / "big")
    output, counts, said = run(host, tmp_path / "big", "launches", "5", VGC_FALLBACK="cpu", VGC_EITHER_SIDE="gpu")
    assert counts["add"] == (0, 5)
    assert output == "last 26\n"
    assert said.count("the VM has no room for the program's device code") == 1
    failed = host.run("env", "VGC_EITHER_SIDE=gpu", tmp_path / "big", "launches", "5")
    assert failed.stdout == "last 0\n", "without a fallback nothing is launched"
