"""Rows of CUDA programs in a guest: libcudart beside libvgc's own calls, in one process and in turn."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import vgcd
from bench.lab import Lab
from bench.native.build import HERE as NATIVE
from bench.processes import backend
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from tests.fakes.attached import AttachedLink
from tests.waiting import until
from tools.common import REPOSITORY
from tools.gpu.programs import BENCHMARK as BROUGHT
from tools.gpu.programs import KIT_PROGRAMS

PROGRAM: Final = Path(__file__).resolve().parents[1] / "guest" / "cudart.cu"
EITHER: Final = PROGRAM.with_name("either.cu")
DRIVER: Final = PROGRAM.with_name("driver.cu")
VECTOR_ADD: Final = PROGRAM.with_name("vector_add.cu")
GUEST: Final = REPOSITORY / "guest_driver"
MYNVCC: Final = GUEST / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"
LIBVGC: Final = GUEST / "libvgc" / "build"
MIB: Final = 1 << 20
LAUNCHES: Final = 500
"""Launches of the row of pipelined ones (bench/guest/cudart.cu)."""

SIZES: Final = {4: "4", 4096: "4k", 256 << 10: "256k", 4 * MIB: "4m", 16 * MIB: "16m", 256 * MIB: "256m"}
"""Sizes of copies, as the program measures them; the largest two are not measured from page-locked memory."""

MANAGED: Final = {4096: "4k", MIB: "1m", 64 * MIB: "64m"}
"""Sizes of managed memory, as the program measures them."""

COPIES: Final = {
    "to_device": "cudart_memcpy_in",
    "from_device": "cudart_memcpy_out",
    "pinned_to_device": "cudart_memcpy_in_pinned",
    "pinned_from_device": "cudart_memcpy_out_pinned",
}


def names() -> Iterator[str]:
    """Names of the rows of copies."""
    for measured, name in COPIES.items():
        for size, shown in SIZES.items():
            if not measured.startswith("pinned") or size <= 16 * MIB:
                yield f"{name}_{shown}_us"


def build(folder: Path) -> Path:
    """Builds the program with mynvcc, or takes the kit's.

    :raise SkipRow: it cannot be built here.
    """
    brought = Path(os.environ.get(KIT_PROGRAMS, folder)) / BROUGHT
    if brought.exists():
        program = folder / PROGRAM.stem
        shutil.copy(brought, program)
        program.chmod(0o755)
        return program
    return compile_program(PROGRAM, folder)


def compile_program(source: Path, folder: Path, *libraries: str) -> Path:
    """Builds a program of ours with mynvcc, and with `libraries` of the toolkit.

    :raise SkipRow: it cannot be built here.
    """
    program = folder / source.stem
    words = [MYNVCC, "-O2", f"-I{NATIVE}", f"-I{GUEST / 'libvgc'}", source, "-o", program]
    words += [*libraries, LIBVGC / "libvgc.so", "-Xlinker", f"-rpath={LIBVGC}"]
    try:
        subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkipRow(f"mynvcc does not build {source.name}: {getattr(error, 'stderr', None) or error}") from error
    return program


@contextmanager
def device(
    folder: Path, threads: int, engine: str | Mapping[str, Any], region_mib: int = vgcd.REGION_MIB
) -> Iterator[AttachedLink]:
    """Device of a guest: our daemon in a process of its own."""
    socket = folder / "guest.sock"
    config = folder / "guest.yaml"
    config.write_text(
        vgcd.configuration(socket, folder / "cache", engine, threads, num_queues=2, region_mib=region_mib)
    )
    command = [sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(config)]
    log = folder / "guest.log"
    with backend(command, log):
        until(lambda: "serving" in log.read_text())  # a first frontend would be in the guest's way
        with AttachedLink(socket, region_bytes=region_mib * MIB, num_queues=2) as link:
            link.wait_ready()
            yield link


def measure(
    lab: Lab, rounds: int, *words: str, engine: str | Mapping[str, Any] = "cpu", threads: int = 0
) -> dict[tuple[str, str], Samples]:
    """Microseconds by name and subject. `words` say what the program measures; without them, all but graphs.
    `threads`: processing elements of the VM; 0: the lab's threads.

    :raise SkipRow: the program cannot be built, or fails.
    """
    folder = lab.own_folder("cudart")
    program = build(folder)
    with device(folder, threads or lab.threads, engine) as link:
        return run(link, folder, [program, str(rounds), *words])


def run(
    link: AttachedLink, folder: Path, words: list[str | Path], environment: dict[str, str] | None = None
) -> dict[tuple[str, str], Samples]:
    """Runs a program as a guest's. Returns microseconds by name and subject.

    :raise SkipRow: it fails.
    """
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    settings = {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(folder / "state")}
    libraries = os.pathsep.join(map(str, (MYNVCC.parents[1] / "lib64", LIBVGC)))
    settings["LD_LIBRARY_PATH"] = libraries  # of this tree, wherever the program was built
    done = subprocess.run(
        words,
        env=os.environ | settings | (environment or {}),
        pass_fds=link.fds,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SkipRow(f"{Path(words[0]).name} failed: {done.stderr}")
    for line in done.stdout.splitlines():
        name, subject, nanoseconds = line.split()
        found[name, subject].append(float(nanoseconds) / 1e3)
    return {key: Samples(tuple(values[1:])) for key, values in found.items()}  # the first round warms up


@row("cudart_launch_us", "cudart_pipelined_launches_per_s", "cudart_event_us", *names())
def runtime(lab: Lab) -> Iterator[Outcome]:
    """Launch and wait, launches one behind the other, a timed pair of events, and copies, on the software GPU."""
    found = measure(lab, lab.samples(15, 5))
    ours, theirs = found["launch", "cudart"], found["launch", "libvgc"]
    against = "libvgc's call"
    yield outcome("cudart_launch_us", ours, "us", "lower", theirs, against=against, goal=Goal("ratio", "<", 1.3))
    rates = [
        Samples(tuple(LAUNCHES * 1e6 / value for value in found["pipelined", subject].values))
        for subject in ("cudart", "libvgc")
    ]
    goal = Goal("ratio", ">=", 0.8)
    yield outcome("cudart_pipelined_launches_per_s", rates[0], "/s", "higher", rates[1], against=against, goal=goal)
    yield outcome("cudart_event_us", found["event", "cudart"], "us", "lower", found["event", "libvgc"], against=against)
    for measured, name in COPIES.items():
        for size, shown in SIZES.items():
            key = f"{measured}_{size}"
            if (key, "cudart") in found:
                sides = (found[key, "cudart"], found[key, "libvgc"])
                yield outcome(f"{name}_{shown}_us", sides[0], "us", "lower", sides[1], against=against)


@row("cuda_driver_launch_us", "cuda_driver_pipelined_launches_per_s", "nvrtc_compile_ms")
def driver(lab: Lab) -> Iterator[Outcome]:
    """Launch and wait, and launches one behind the other, by the driver API; compilation of a small source that is new each
    time, by NVRTC.
    """
    folder = lab.own_folder("driver")
    program = compile_program(DRIVER, folder, "-lcuda", "-lnvrtc")
    with device(folder, lab.threads, "cpu") as link:
        found = run(link, folder, [program, str(lab.samples(15, 5))])
    against, goal = "libvgc's call", Goal("ratio", "<", 1.3)
    ours, theirs = found["launch", "driver"], found["launch", "libvgc"]
    yield outcome("cuda_driver_launch_us", ours, "us", "lower", theirs, against=against, goal=goal)
    rates = [
        Samples(tuple(LAUNCHES * 1e6 / value for value in found["pipelined", subject].values))
        for subject in ("driver", "libvgc")
    ]
    yield outcome("cuda_driver_pipelined_launches_per_s", rates[0], "/s", "higher", rates[1], against=against)
    times = [
        Samples(tuple(value / 1e3 for value in found["compile", subject].values)) for subject in ("driver", "libvgc")
    ]
    yield outcome("nvrtc_compile_ms", times[0], "ms", "lower", times[1], against=against, goal=goal)


@row("cuda_cudart_launch_us", "cuda_cudart_pipelined_launches_per_s", "cuda_cudart_event_us")
def runtime_on_gpu(lab: Lab) -> Iterator[Outcome]:
    """Launch and wait, launches one behind the other, and a timed pair of events, on the CUDA engine."""
    gpu = lab.cuda.gpu
    found = measure(lab, lab.samples(15, 5), engine=gpu.engine(), threads=gpu.num_pes)
    against = "libvgc's call"
    ours, theirs = found["launch", "cudart"], found["launch", "libvgc"]
    yield outcome("cuda_cudart_launch_us", ours, "us", "lower", theirs, against=against)
    rates = [
        Samples(tuple(LAUNCHES * 1e6 / value for value in found["pipelined", subject].values))
        for subject in ("cudart", "libvgc")
    ]
    yield outcome("cuda_cudart_pipelined_launches_per_s", rates[0], "/s", "higher", rates[1], against=against)
    times = (found["event", "cudart"], found["event", "libvgc"])
    yield outcome("cuda_cudart_event_us", times[0], "us", "lower", times[1], against=against)


def build_times(
    commands: Mapping[str, list[str | Path]], environment: Mapping[str, str], rounds: int
) -> Iterator[Samples]:
    """Milliseconds of each command, in turn. A first round warms up: it precompiles headers.

    :raise SkipRow: a command cannot be run, or fails.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            try:
                subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise SkipRow(f"{name}: {getattr(error, 'stderr', None) or error}") from error
            found[name].append((time.perf_counter() - began) * 1e3)
    return (Samples(tuple(found[name][1:])) for name in commands)


@row("mynvcc_build_ms")
def build_time(lab: Lab) -> Iterator[Outcome]:
    """From a small CUDA source to an object, with CUDA's headers already precompiled, and its host code by clang++ alone."""
    folder = lab.own_folder("mynvcc")
    environment = os.environ | {"MYNVCC_CACHE": str(folder / "headers")}
    compiler = environment.setdefault("MYNVCC_CLANG", "clang++-19")
    include = MYNVCC.parents[1] / "include"
    commands: dict[str, list[str | Path]] = {
        "mynvcc": [MYNVCC, "-c", VECTOR_ADD, "-o", folder / "mynvcc.o"],
        "clang++": [compiler, "-x", "c++", "-isystem", include, "-c", VECTOR_ADD, "-o", folder / "clang.o"],
    }
    ours, theirs = build_times(commands, environment, lab.samples(15, 3))
    goal = Goal("ratio", "<", 2.5)
    yield outcome("mynvcc_build_ms", ours, "ms", "lower", theirs, against="clang++ -c of its host code", goal=goal)


def nvcc() -> Path:
    """NVIDIA's compiler, of the wheel.

    :raise SkipRow: it is not installed.
    """
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations or () if found is not None else ():
        for path in Path(folder).glob("cu*/bin/nvcc"):
            return path
    raise SkipRow("nvcc is not installed (wheel nvidia-cuda-nvcc)")


@row("mynvcc_beside_nvcc_ms")
def build_time_of_nvcc(lab: Lab) -> Iterator[Outcome]:
    """A small source to an object by mynvcc, headers precompiled, and by NVIDIA's nvcc, which compiles device code, too."""
    folder = lab.own_folder("nvcc")
    environment = os.environ | {"MYNVCC_CACHE": str(folder / "headers")}
    environment.setdefault("MYNVCC_CLANG", "clang++-19")
    commands: dict[str, list[str | Path]] = {
        "mynvcc": [MYNVCC, "-c", VECTOR_ADD, "-o", folder / "mynvcc.o"],
        "nvcc": [nvcc(), "-c", VECTOR_ADD, "-o", folder / "nvcc.o"],
    }
    ours, theirs = build_times(commands, environment, lab.samples(5, 2))
    yield outcome("mynvcc_beside_nvcc_ms", ours, "ms", "lower", theirs, against="NVIDIA's nvcc, device code included")


@row(*(f"cudart_managed_{shown}_us" for shown in MANAGED.values()))
def managed(lab: Lab) -> Iterator[Outcome]:
    """Memory that the host writes, a kernel changes and the host reads: managed, and with explicit copies."""
    found = measure(lab, lab.samples(15, 5), "managed")
    for size, shown in MANAGED.items():
        ours, theirs = found[f"managed_{size}", "managed"], found[f"managed_{size}", "copies"]
        yield outcome(f"cudart_managed_{shown}_us", ours, "us", "lower", theirs, against="copies in and out")


@row("cudart_graph_launch_us")
def graphs(lab: Lab) -> Iterator[Outcome]:
    """Launch of a graph of 20 empty kernels and the wait for it, beside 20 launches and a wait."""
    found = measure(lab, lab.samples(15, 5), "graphs")
    ours, theirs = found["graph", "graph"], found["graph", "launches"]
    goal = Goal("ratio", "<", 1.0)
    yield outcome("cudart_graph_launch_us", ours, "us", "lower", theirs, against="20 launches and a wait", goal=goal)


def remember_device(file: Path) -> None:
    """Replaces the times that libcudart has measured of kernels by ones for which the device is chosen, by far.

    :raise SkipRow: it has measured none.
    """
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    if not lines:
        raise SkipRow("libcudart keeps no times of the kernel: it has no CPU version here")
    file.write_text("".join(f"{' '.join(words[:3])} 1000 9 {3600 * 10**9} 9\n" for words in lines))


@row("cudart_either_launch_us", "cudart_either_choice_us")
def either(lab: Lab) -> Iterator[Outcome]:
    """Launch of an empty kernel that has a CPU version, whose side is remembered (the device), and of one that has none:
    with the wait for it, and what the choice adds to the call.
    """
    folder = lab.own_folder("either")
    program = compile_program(EITHER, folder)
    environment = {"VGC_EITHER_FILE": str(folder / "times")}
    with device(folder, lab.threads, "cpu") as link:
        run(link, folder, [program, "1"], environment)
        remember_device(folder / "times")
        found = run(link, folder, [program, str(lab.samples(15, 5))], environment)
    against = "a kernel without a CPU version"
    ours, theirs = found["launch", "either"], found["launch", "plain"]
    yield outcome("cudart_either_launch_us", ours, "us", "lower", theirs, against=against)
    calls = zip(found["call", "either"].values, found["call", "plain"].values, strict=True)
    added = Samples(tuple(marked - plain for marked, plain in calls))
    plain = found["call", "plain"]
    against = "the call that launches a kernel without a CPU version"
    goal = Goal("value", "<", 1.0)
    yield outcome("cudart_either_choice_us", added, "us", "lower", plain, against=against, goal=goal)
