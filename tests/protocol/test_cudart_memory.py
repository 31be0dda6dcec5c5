"""Programs of CUDA in a guest with memory that host and device share: page-locked, registered, managed, and pools."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host

MYNVCC: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit" / "bin" / "mynvcc"
SOURCE: Final = Path(__file__).with_name("cudart_memory.cu")
VARIABLES: Final = Path(__file__).with_name("cudart_managed_variables.cu")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("scenes") / "scenes"
    subprocess.run([MYNVCC, SOURCE, "-o", program], check=True, timeout=HANGS_AFTER_S)
    return program


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def run(host: GuestHost, scenes: Path, scene: str) -> subprocess.CompletedProcess[str]:
    return host.run("/usr/bin/env", f"REGION={host.link.region.size}", scenes, scene)


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param("list", id="a_list_is_walked_by_both_sides_at_the_same_addresses"),
        pytest.param("parts", id="both_sides_change_parts_of_the_same_pages"),
        pytest.param("fresh", id="managed_memory_that_nobody_wrote_is_zero"),
        pytest.param("early", id="a_host_that_looks_during_a_kernel_waits_for_it"),
        pytest.param("copies", id="copies_and_fills_of_managed_memory_find_the_newest_data"),
        pytest.param("streams", id="kernels_of_all_streams_find_what_the_host_wrote_last"),
        pytest.param("threads", id="threads_use_managed_memory_at_once"),
        pytest.param("system_calls", id="system_calls_take_managed_memory_after_a_synchronisation"),
        pytest.param("advice", id="advice_is_kept_per_range"),
        pytest.param("own_handler", id="the_programs_own_handler_gets_the_programs_own_faults"),
        pytest.param("child", id="a_child_has_no_managed_memory"),
        pytest.param("pinned", id="kernels_use_page_locked_memory_at_the_hosts_address"),
        pytest.param("large_pinned", id="page_locked_memory_may_be_larger_than_the_region"),
        pytest.param("registered", id="registered_memory_is_merged_at_synchronisation"),
        pytest.param("quota", id="managed_memory_counts_as_device_memory"),
        pytest.param("pools", id="pools_reuse_memory_in_the_order_of_streams"),
    ],
)
def test_scene(host: GuestHost, scenes: Path, scene: str) -> None:
    done = run(host, scenes, scene)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_copies_may_be_larger_than_the_region(scenes: Path, tmp_path: Path) -> None:
    with guest_host(tmp_path, region_bytes=4 << 20, memory_mib=80) as host:
        done = run(host, scenes, "beyond")
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr


def test_wild_pointer_ends_a_program_with_managed_memory(host: GuestHost, scenes: Path) -> None:
    done = run(host, scenes, "wild")
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "")


def test_host_code_uses_managed_variables_by_their_names(host: GuestHost, tmp_path: Path) -> None:
    program = tmp_path / "variables"
    subprocess.run([MYNVCC, VARIABLES, "-o", program], check=True, timeout=HANGS_AFTER_S)
    done = host.run(program)
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr
