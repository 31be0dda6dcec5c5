"""NVTX ranges of an ordinary CUDA program: the recorder has them in order, with names, colours, numbers and threads."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from control_center import address
from control_center.config import CentreConfig, RecorderConfig
from control_center.host import HostConfig
from control_center.recorder import StoreRecorder
from control_center.service import running
from tests.fakes.api_caller import ApiCaller
from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import TOOLKIT
from tests.protocol.guest_host import GuestHost, guest_host
from tests.unit.vgcctl_rig import vgcctl
from tests.waiting import turns_until
from vhost_backend.config.daemon import ControlConfig

PROGRAM: Final = REPOSITORY / "tests/cuda_programs/nvtx_ranges.cu"
RANGES: Final = [
    ("range", "outer"),
    ("range", "größer"),
    ("range", "registered"),
    ("range", "loose"),
    ("mark", "tick?"),
    ("range", "scoped"),
    ("range", "in a domain"),
    ("range", "unique"),
    ("mark", "instant"),
    ("range", "named_function"),
]
"""In the order in which they begin."""
LINKED: Final = r"""
#include <stdint.h>
int nvtxRangePushA(const char *);
int nvtxRangePop(void);
int cudaFree(void *);
int main(void) {
    cudaFree(0);
    for (int i = 0; i < 10000; i++) {
        nvtxRangePushA("flood");
        nvtxRangePop();
    }
    return nvtxRangePop() != -2;
}
"""


def build(command: list[str | Path]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the built programs."""
    folder = tmp_path_factory.mktemp("nvtx")
    build([TOOLKIT / "bin/mynvcc", PROGRAM, "-o", folder / "ranges"])
    (folder / "linked.c").write_text(LINKED)
    library = [f"-L{TOOLKIT / 'lib64'}", f"-Wl,-rpath,{TOOLKIT / 'lib64'}", "-lnvToolsExt", "-lcudart"]
    build(["cc", folder / "linked.c", "-o", folder / "linked", *library])
    return folder


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[GuestHost]:
    with guest_host(folder / "host", control=ControlConfig(socket=folder / "control", host="h1")) as host:
        yield host


def texts(pushes: list[dict[str, Any]]) -> list[str]:
    return [mark["text"] for push in pushes for mark in push["detail"]["marks"]]


def test_the_recorder_has_a_programs_ranges_in_order(host: GuestHost, folder: Path) -> None:
    hosts = (HostConfig("h1", address.parse(f"unix:{folder}/control")),)
    recording = RecorderConfig(f"sqlite://{folder}/recording.db")
    rows: list[dict[str, Any]] = []
    trace: dict[str, Any] = {}

    async def run() -> None:
        async with running(CentreConfig(hosts, ("127.0.0.1", 0), recorder=recording)) as (url, centre):
            await turns_until(lambda: centre.cluster.hosts["h1"].state == "up")
            with ApiCaller(folder / "control") as caller:
                ran = await asyncio.to_thread(host.run, folder / "ranges")
                assert ran.stdout == "PASS\n", ran.stdout + ran.stderr
                seen: list[dict[str, Any]] = []
                while len(texts(seen)) < len(RANGES):
                    seen.append(await asyncio.to_thread(caller.event, "marks"))
            recorder = centre.recorder
            assert isinstance(recorder, StoreRecorder)

            async def replayed() -> bool:
                await recorder.flush()
                ran = await vgcctl("replay", "vm=a", "--speed", "max", "--json", "--centre", url)
                found = [json.loads(line) for line in ran.out.splitlines()]
                rows[:] = [row for row in found if row["event"] in ("range", "mark")]
                return len(rows) >= len(RANGES)

            while not await replayed():
                pass
            exported = await vgcctl("replay", "vm=a", "--export", "perfetto", "--centre", url)
            trace.update(json.loads(exported.out))

    asyncio.run(run())
    assert [(row["event"], row["detail"]["text"]) for row in rows] == RANGES
    assert [row["time_ns"] for row in rows] == sorted(row["time_ns"] for row in rows)
    details = {row["detail"]["text"]: row["detail"] for row in rows}
    (thread,) = {detail["thread"] for detail in details.values()}
    assert {detail["program"] for detail in details.values()} == {f"ranges[{thread}]"}
    registered = details["registered"]
    assert (registered["domain"], registered["category"], registered["colour"]) == ("io", 7, "#00ff00")
    assert (registered["payload"], details["scoped"]["payload"]) == (-5, 1.5)
    assert details["in a domain"]["domain"] == "solver"
    ends = {row["detail"]["text"]: row["time_ns"] + row["detail"].get("duration_ns", 0) for row in rows}
    assert ends["registered"] <= ends["größer"] <= ends["loose"] <= ends["outer"]
    phases = {event["name"]: event["ph"] for event in trace["traceEvents"] if event.get("cat") in ("nvtx", "io")}
    assert (phases["outer"], phases["registered"], phases["loose"], phases["instant"]) == ("X", "X", "e", "i")


def test_a_flood_is_cut_and_what_was_left_out_is_counted(host: GuestHost, folder: Path) -> None:
    with ApiCaller(folder / "control") as caller:
        ran = host.run(folder / "linked")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        seen = [caller.event("marks")]
        while seen[-1]["detail"]["dropped"] == 0:
            seen.append(caller.event("marks"))
    assert set(texts(seen)) == {"flood"}
    assert len(texts(seen)) < 5000


def test_ranges_without_a_control_system_cost_nothing_and_break_nothing(folder: Path, tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        ran = host.run(folder / "ranges")
    assert (ran.stdout, ran.returncode) == ("PASS\n", 0)


def test_a_program_without_libcudart_gets_what_nvtx_returns_without_a_tool(tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text('#include <nvtx3/nvToolsExt.h>\nint main(void) { return nvtxRangePushA("x") != -2; }')
    build(["cc", f"-I{TOOLKIT / 'include'}", source, "-o", tmp_path / "alone"])
    build([tmp_path / "alone"])


LOADER: Final = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef void (*function)(void);
static function marks[16], domains[16];
static function *mark_table[16], *domain_table[16];
static int module_table(uint32_t module, function ***table, unsigned *count) {
    *table = module == 1 ? mark_table : domain_table;
    *count = 16;
    return module == 1 || module == 5;
}
static struct { size_t size; int (*module_table)(uint32_t, function ***, unsigned *); } callbacks = {16, module_table};
static const void *tables(uint32_t number) { return number == 1 ? &callbacks : NULL; }
int cudaFree(void *);
int main(int argc, char **argv) {
    cudaFree(0);
    for (int i = 1; i < 16; i++) {
        mark_table[i] = &marks[i];
        domain_table[i] = &domains[i];
    }
    void *library = dlopen(argc > 1 ? argv[1] : getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
    if (library == NULL) return 1;
    int (*initialise)(const void *(*)(uint32_t)) = dlsym(library, "InitializeInjectionNvtx2");
    if (initialise == NULL || initialise(tables) != 1) return 2;
    if (((int (*)(const char *))marks[9])("injected") != 0) return 3;
    if (((int (*)(void))marks[11])() != 0) return 4;
    return domains[15] == NULL;
}
"""
"""Stand-in for NVIDIA's headers, which have a library fill tables of functions at a program's first mark."""


@pytest.mark.parametrize("library", [[], [TOOLKIT / "lib64/libnvToolsExt.so.1"]])
def test_programs_with_nvidias_headers_are_heard(host: GuestHost, folder: Path, library: list[Path]) -> None:
    (folder / "loader.c").write_text(LOADER)
    runtime = [f"-L{TOOLKIT / 'lib64'}", f"-Wl,-rpath,{TOOLKIT / 'lib64'}", "-lcudart", "-ldl"]
    build(["cc", folder / "loader.c", "-o", folder / "loader", *runtime])
    with ApiCaller(folder / "control") as caller:
        ran = host.run(folder / "loader", *library)
        assert ran.returncode == 0, ran
        while "injected" not in texts([caller.event("marks")]):
            pass
