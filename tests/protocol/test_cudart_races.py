"""Data races of the CUDA runtime and libvgc, which ThreadSanitizer looks for while programs with several threads run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.protocol.cuda_programs import PROGRAMS, TOOLKIT
from tests.protocol.guest_host import GuestHost, guest_host
from vhost_backend.daemon import worker_messages

TREES: Final = ("guest_driver", "kernels", "virtio_proto")
ADDRESSES: Final = 0x5600_0000_0000
"""Begin of 512 GiB that ThreadSanitizer leaves to programs, and in which this process's addresses can be reserved."""
FOUND: Final = "WARNING: ThreadSanitizer"
IN_THREADS: Final = (
    "graph_conditions",
    "graphs_built",
    "graphs_captured_streams",
    "graphs_segments",
    "host_functions",
    "host_threads",
    "illegal_address_beside_others",
    "managed_memory",
    "memory_pools",
    "per_thread_default_stream",
    "streams_called_back",
    "streams_held_back",
)
"""Programs whose host code has threads, or makes the runtime have some."""


def runtime_of_sanitizer() -> Path | None:
    told = subprocess.run(["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=False)
    path = Path(told.stdout.strip())
    return path if path.is_absolute() and path.exists() else None


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a libcudart that is built with ThreadSanitizer."""
    if runtime_of_sanitizer() is None or shutil.which("setarch") is None:
        pytest.skip("gcc has no ThreadSanitizer here, or setarch is missing: apt-get install libtsan2 util-linux")
    tree = tmp_path_factory.mktemp("races")
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *TREES],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, names.stdout.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, tree / name)
    # The sanitizer knows no fences, which the rings have for the other side; of that side it sees nothing.
    environment = os.environ | {"VGC_SANITIZE": "thread", "CFLAGS": "-Wno-tsan"}
    folder = tree / "guest_driver" / "cuda" / "runtime"
    for part, target in ((tree / "guest_driver" / "libvgc", "all"), (folder, "build/libcudart.so.12")):
        made = subprocess.run(
            ["make", "-C", part, "-j2", target], env=environment, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stdout + made.stderr
    return folder / "build"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_messages, "ARENA_FIRST", ADDRESSES)
        patch.setattr(worker_messages, "ARENA_END", ADDRESSES + (1 << 39))
        patch.setattr(worker_messages, "SMALLEST_ARENA", 1 << 38)
        with guest_host(tmp_path_factory.mktemp("host")) as host:
            yield host


def run(host: GuestHost, libraries: Path, program: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "LD_LIBRARY_PATH": f"{libraries}:{TOOLKIT / 'lib64'}",
        "LD_PRELOAD": str(runtime_of_sanitizer()),
        "TSAN_OPTIONS": "exitcode=66 report_signal_unsafe=0 history_size=4",
    }
    # The sanitizer has fixed places for its memory, which a random layout may overlap.
    setting = [f"{name}={value}" for name, value in environment.items()]
    return host.run("setarch", "-R", "env", *setting, program, cwd=program.parent)


@pytest.mark.parametrize("name", IN_THREADS)
def test_program_has_no_data_race(host: GuestHost, libraries: Path, name: str, tmp_path: Path) -> None:
    (program,) = [program for program in PROGRAMS if program.name == name]
    done = run(host, libraries, program.build(tmp_path / name))
    assert FOUND not in done.stderr, done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout


RACE: Final = r"""
#include <pthread.h>
static int counter;
static void *count(void *data) { for (int i = 0; i < 1000; i++) counter++; return data; }
int main(void) {
    pthread_t one, other;
    pthread_create(&one, 0, count, 0);
    pthread_create(&other, 0, count, 0);
    return pthread_join(one, 0) + pthread_join(other, 0);
}
"""


def test_races_would_be_found(host: GuestHost, libraries: Path, tmp_path: Path) -> None:
    (tmp_path / "race.c").write_text(RACE)
    subprocess.run(["gcc", "-g", "-fsanitize=thread", "race.c", "-o", "race"], cwd=tmp_path, check=True)
    assert FOUND in run(host, libraries, tmp_path / "race").stderr
