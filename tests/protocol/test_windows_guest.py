"""libvgc for Windows under Wine: against the fake device, and a guest's program on the real daemon and the CPU engine."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

from tests.fakes import wine
from tests.fakes.bridge import Bridge
from tests.fakes.device import FakeDevice
from tests.fakes.guest import REPOSITORY
from tests.fakes.link import GuestLink
from tests.fakes.wine import LIBVGC, Wine, windows_path
from tests.limits import ANSWERS_WITHIN_S, HANGS_AFTER_S
from tests.protocol.guest_host import guest_host
from virtio_proto.schema import Opcode

pytestmark = pytest.mark.skipif(bool(wine.lacks()), reason=wine.lacks())

SOURCES: Final = REPOSITORY / "tests" / "windows"
HEADER: Final = LIBVGC / "vgc.h"
ROUND_TRIPS: Final = {"polling": ("2000", "0"), "sleeping": ("200", "2000")}
"""Number of round trips, and microseconds of rest before each."""


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    wine.build_library()
    with Wine(tmp_path_factory.mktemp("windows")) as started:
        yield started


@pytest.fixture(scope="module")
def guest(windows: Wine) -> Path:
    """The program of `tests/windows/guest.c`."""
    return wine.build_program(windows.folder, [SOURCES / "guest.c"], name="guest")


@pytest.fixture
def link(tmp_path: Path) -> Iterator[GuestLink]:
    with GuestLink(folder=tmp_path / "link") as link:
        yield link


@pytest.fixture
def fake(link: GuestLink) -> Iterator[FakeDevice]:
    with FakeDevice(link) as fake:
        yield fake


@pytest.fixture
def bridge(link: GuestLink, tmp_path: Path) -> Iterator[Bridge]:
    with Bridge(link, tmp_path / "link") as bridge:
        yield bridge


def variables(bridge: Bridge, state: Path) -> dict[str, str]:
    """Environment of programs under Wine."""
    return {"VGC_BRIDGE": bridge.description(windows=True), "VGC_STATE_DIR": windows_path(state)}


@pytest.fixture
def given(bridge: Bridge, tmp_path: Path) -> dict[str, str]:
    return variables(bridge, tmp_path / "state")


def native_program(folder: Path, source: Path) -> Path:
    """Builds a program for this machine."""
    program = folder / source.stem
    built = LIBVGC / "build" / "libvgc.a"
    argv: list[str | Path] = ["cc", "-O2", "-D_GNU_SOURCE", f"-I{LIBVGC}", source, built, "-pthread", "-o", program]
    subprocess.run(argv, check=True, timeout=HANGS_AFTER_S)
    return program


# ---- the library -----------------------------------------------------------------------------------


def test_dll_has_all_functions_of_the_header(windows: Wine) -> None:
    assert windows.folder.exists()
    listed = (wine.BUILT / "vgc.def").read_text()
    exported = set(re.findall(r"^ +(\w+) @", listed, re.MULTILINE))
    declared = set(re.findall(r"^VGC_API [^(]*?\b(vgc_\w+)\(", HEADER.read_text(), re.MULTILINE))
    assert declared
    assert exported == declared


@pytest.mark.parametrize(("compiler", "language"), [("clang-19", "c"), ("clang++-19", "c++")])
def test_header_is_of_use_to_c_and_cpp_for_windows(compiler: str, language: str) -> None:
    flags = ["--target=x86_64-w64-windows-gnu", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{LIBVGC}"]
    program = '#include "vgc.h"\nint main(void) { vgc_close(0); return vgc_version()[0] == 0; }\n'
    done = subprocess.run(
        [compiler, *flags, "-x", language, "-"], input=program, text=True, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def patterns() -> list[tuple[str, str]]:
    """Random patterns with names that fit some of them; none has a bracket without end, which Python takes otherwise."""
    choice = random.Random(1)
    letters = "ab-_"
    elements = [*letters, "*", "?", "[ab]", "[!a]", "[a-c]", "[]a]", "[!]_]", "[_-]"]
    return [
        ("".join(choice.choices(elements, k=choice.randint(0, 6))), "".join(choice.choices(letters, k=length)))
        for length in range(7)
        for _ in range(700)
    ]


def test_patterns_match_as_on_linux(windows: Wine, tmp_path: Path) -> None:
    """Those of `VGC_SIDE`, for which Windows has no function."""
    cases = patterns()
    program = wine.build_program(
        tmp_path, [SOURCES / "patterns.c", LIBVGC / "src" / "windows" / "fnmatch.c"], name="patterns"
    )
    lines = "".join(f"{pattern}\t{name}\n" for pattern, name in cases)
    extra = [
        ("a\\*b", "a*b"),
        ("a\\*b", "axb"),
        ("[a", "[a"),
        ("[\\]]x", "]x"),
        ("\\", "\\"),
        ("*" * 40 + "c", "b" * 60),
    ]
    lines += "".join(f"{pattern}\t{name}\n" for pattern, name in extra)
    native = native_program(tmp_path, SOURCES / "patterns.c")
    argv: list[str | Path] = [wine.LOADER, program]
    answers = [
        subprocess.run(
            command,
            input=lines,
            env=windows.environment({}),
            text=True,
            capture_output=True,
            check=True,
            timeout=HANGS_AFTER_S,
        ).stdout.split()
        for command in (argv, [native])
    ]
    assert len(answers[0]) == len(cases) + len(extra)
    assert answers[0] == answers[1]
    assert answers[1][: len(cases)] == [str(int(fnmatchcase(name, pattern))) for pattern, name in cases]


# ---- requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4096, 3_000_001])
def test_memory_is_copied_there_and_back(
    windows: Wine, guest: Path, given: dict[str, str], fake: FakeDevice, size: int
) -> None:
    done = windows.run(guest, "copy", str(size), **given)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    assert not fake.contexts


def test_threads_share_a_queue(windows: Wine, guest: Path, bridge: Bridge, fake: FakeDevice, tmp_path: Path) -> None:
    done = windows.run(guest, "threads", "200", **variables(bridge, tmp_path / "state"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert fake.opcodes().count(Opcode.NOP) >= 800


def test_trace_is_written(windows: Wine, guest: Path, bridge: Bridge, fake: FakeDevice, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    given = variables(bridge, tmp_path / "state") | {"VGC_TRACE": windows_path(folder)}
    done = windows.run(guest, "copy", "100", **given)
    assert done.stdout == "right\n"
    (trace,) = folder.iterdir()
    lines = trace.read_bytes().rstrip(b"\0").decode().splitlines()
    assert sum(line.startswith("request\t") for line in lines) == len(fake.opcodes())


# ---- processes -------------------------------------------------------------------------------------


def test_processes_share_a_device_and_its_state(
    windows: Wine, guest: Path, bridge: Bridge, fake: FakeDevice, tmp_path: Path
) -> None:
    given = variables(bridge, tmp_path / "state")
    with windows.start(guest, "hold", **given) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "up\n"
        assert windows.run(guest, "processes", **given).stdout == "2\n"
        assert len(fake.contexts) == 1
        first.stdin.write("go on\n")
        first.stdin.close()
        assert first.stdout.readline() == "closed\n"
    assert not fake.contexts


def test_what_a_killed_process_held_is_freed(
    windows: Wine, guest: Path, bridge: Bridge, fake: FakeDevice, tmp_path: Path
) -> None:
    """Its lock in the state file ends with it."""
    given = variables(bridge, tmp_path / "state")
    with windows.start(guest, "hold", **given) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "up\n"
        first.kill()
        first.wait(ANSWERS_WITHIN_S)
    assert len(fake.contexts) == 1
    done = windows.run(guest, "processes", **given)
    assert done.stdout == "1\n"
    assert fake.opcodes().count(Opcode.CONTEXT_DESTROY) == 2
    assert not fake.contexts


@pytest.mark.usefixtures("fake")
def test_reset_under_a_live_process_is_noticed(
    windows: Wine, guest: Path, bridge: Bridge, link: GuestLink, tmp_path: Path
) -> None:
    given = variables(bridge, tmp_path / "state")
    with windows.start(guest, "hold", **given) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "up\n"
        link.region.memory[8:16] = bytes(8)
        done = windows.run(guest, "open", **given)
        first.kill()
    assert re.match(r"open: DEVICE_LOST: vm was reset while process \d+ used it: end that process", done.stdout)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("old", [b"", b"\xff" * 100, b"\xff" * 100_000])
def test_state_file_of_another_version_is_replaced(
    windows: Wine, guest: Path, bridge: Bridge, tmp_path: Path, old: bytes
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "vm.state").write_bytes(old)
    done = windows.run(guest, "open", **variables(bridge, tmp_path / "state"))
    assert done.stdout == "opened\n"


# ---- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"region": "Z:\\no\\such\\file"},
            r"SYSTEM: VGC_BRIDGE: cannot open the region Z:\\no\\such\\file: .*not found",
        ),
        ({"region": "Z:\\usr"}, r"NO_PERMISSION: VGC_BRIDGE: cannot open the region Z:\\usr: .*denied"),
        ({"region": "Z:\\dev\\null"}, r"INVALID_ARGUMENT: VGC_BRIDGE: the region .* has 0 bytes; at least 4096"),
        ({"name": "a\\b"}, r"INVALID_ARGUMENT: VGC_BRIDGE: a name without '/', '\\' and ':' is needed"),
        ({"queues": "0"}, "INVALID_ARGUMENT: VGC_BRIDGE: 0 queues of 64 entries; allowed: 1 to"),
        ({"ring": "48"}, "INVALID_ARGUMENT: VGC_BRIDGE: 2 queues of 48 entries; allowed: .*a power of two"),
        ({"port": "65536"}, "INVALID_ARGUMENT: VGC_BRIDGE: port 65536; allowed: 1 to 65535"),
        ({"port": "many"}, "INVALID_ARGUMENT: VGC_BRIDGE: port=many is no number"),
        ({"colour": "red"}, "INVALID_ARGUMENT: VGC_BRIDGE: unknown key 'colour'; allowed: name, region"),
    ],
)
def test_wrong_description_is_explained(
    windows: Wine, guest: Path, bridge: Bridge, changes: dict[str, str], words: str
) -> None:
    done = windows.run(guest, "open", VGC_BRIDGE=bridge.description(changes, windows=True))
    assert done.returncode == 1
    assert re.match("open: " + words, done.stdout), done.stdout


def test_bridge_that_is_gone_is_named(windows: Wine, guest: Path, link: GuestLink, tmp_path: Path) -> None:
    with Bridge(link, tmp_path / "link") as bridge:
        given = variables(bridge, tmp_path / "state")
    done = windows.run(guest, "open", **given)
    assert re.match(
        rf"open: SYSTEM: cannot connect to the bridge of vm at 127.0.0.1:{bridge.port}: .*refused", done.stdout
    )


def test_folder_of_state_that_cannot_be_made_is_named(
    windows: Wine, guest: Path, bridge: Bridge, tmp_path: Path
) -> None:
    done = windows.run(guest, "open", **variables(bridge, tmp_path / "no" / "such" / "state"))
    assert re.match(r"open: SYSTEM: cannot make Z:\\.*\\no\\such\\state: .*not found", done.stdout), done.stdout


def test_descriptors_of_linux_are_refused(windows: Wine, guest: Path) -> None:
    done = windows.run(guest, "open", VGC_MEMFD="name=vm,region=3")
    assert done.stdout.startswith("open: UNSUPPORTED: memfd devices are descriptors of Linux")


def test_without_a_device_the_library_says_so(windows: Wine, guest: Path) -> None:
    """SetupAPI lists no PCI functions here."""
    done = windows.run(guest, "open")
    assert done.stdout.startswith("open: NO_DEVICE: no virtio-gpu-compute device number 0 in this machine: 0 found")


# ---- PCI functions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def machine(windows: Wine) -> Path:
    """A program that stands in for Windows and its drivers (`tests/windows/machine.c`)."""
    return wine.build_program(windows.folder, [SOURCES / "machine.c"], name="machine", static=True)


def said(windows: Wine, machine: Path, *arguments: str, **variables: str) -> list[str]:
    done = windows.run(machine, *arguments, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_functions_are_listed_in_the_order_of_their_addresses(windows: Wine, machine: Path) -> None:
    assert said(windows, machine, "list") == ["OK", "00-04.1 '' 01-06.0", "00-05.0 '' "]


@pytest.mark.parametrize(("file", "mode"), [("resource2_wc", 1), ("resource2", 0)])
def test_region_is_mapped_for_one_process_at_a_time(windows: Wine, machine: Path, file: str, mode: int) -> None:
    lines = said(windows, machine, "use", file)
    assert lines[:4] == ["OK", "0x800002000 1048576", "OK", f"mode {mode}, the memory, 1 open"]
    assert lines[4:7] == ["OK", f"mode {mode}, shared, 1 open", "mode -1, 1 released, 0 open"]
    assert lines[7].startswith(
        "SYSTEM: cannot map the memory of the ivshmem function 01-06.0; one process at a time can: "
    )
    assert lines[8:] == ["none, 0 open"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["lacks-driver"],
            r"NO_DEVICE: .*01-06.0 has no driver .*\(its driver is 'IVSHMEM'\): install ivshmem of virtio-win",
        ),
        (["lacks-range"], "SYSTEM: Windows has no range of 1048576 bytes among the resources of 01-06.0"),
        (
            ["open-error", "5"],
            r"NO_PERMISSION: cannot open the ivshmem function 01-06.0: .* \(error 5\) \(libvgc needs",
        ),
        (["open-error", "55"], r"SYSTEM: cannot open the ivshmem function 01-06.0: .*\(error 55\)$"),
        (["map-error", "1450"], r"SYSTEM: cannot map the memory of the ivshmem function 01-06.0.*\(error 1450\)"),
        (["mapped-size", "4096"], "SYSTEM: the driver .* 01-06.0 has mapped 4096 bytes instead of 1048576"),
    ],
)
def test_region_that_cannot_be_mapped_is_explained(
    windows: Wine, machine: Path, arguments: list[str], words: str
) -> None:
    why, still_open = said(windows, machine, *arguments)
    assert re.match(words, why), why
    assert still_open == "0 open"


def test_other_bar_of_an_ivshmem_function_is_refused(windows: Wine, machine: Path) -> None:
    (why,) = said(windows, machine, "bar", "0")
    assert why == "NO_DEVICE: of the ivshmem function 01-06.0 only BAR 2 can be mapped, not 0"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "",
            "UNSUPPORTED: the PCI function 00-04.1 has no driver through which programs can use it (its driver is '')",
        ),
        ("00-05.0", "UNSUPPORTED: the PCI function 00-05.0 has no driver through which programs can use it"),
        (
            "0000:00:05.0",
            "NO_DEVICE: no PCI function 1af4:1066, as a virtio-gpu-compute device is, has the address 0000:00:05.0",
        ),
    ],
)
def test_function_that_programs_cannot_use_is_named(windows: Wine, machine: Path, address: str, words: str) -> None:
    (why,) = said(windows, machine, "open", address)
    assert why.startswith(words)


def test_virtio_function_is_started_through_its_driver(windows: Wine, machine: Path, tmp_path: Path) -> None:
    """Its rings lie in the region, where it sees this; its interrupt stays off. Then it answers nothing."""
    why, state = said(windows, machine, "start", VGC_STATE_DIR=windows_path(tmp_path))
    assert why.startswith("NO_ANSWER: 00-04.1 was set up but does not answer")
    second_ring = 0x8_0000_2000 + 4096 + 4096
    assert state == f"status 0xf, command 0x406, queue 1 at {second_ring:#x}, 0 open"


def test_bars_of_a_function_are_mapped_once_at_a_time(windows: Wine, machine: Path) -> None:
    lines = said(windows, machine, "bars")
    assert lines[:4] == ["OK", "OK", "OK", "one mapping, 1 open"]
    assert lines[4:7] == [
        "SYSTEM: BAR 4 of PCI function 00-04.1 has 16384 bytes, not 4096",
        "NO_DEVICE: PCI function 00-04.1 has no BAR 1 that its driver maps",
        "INVALID_ARGUMENT: 'config' names no BAR; allowed: resourceN, resourceN_wc",
    ]
    assert lines[7:9] == ["1 open", "0 open"]
    assert lines[9].startswith("SYSTEM: cannot map the PCI function 00-04.1; one process at a time can: ")
    assert lines[10:] == ["0 open"]


# ---- the real daemon -------------------------------------------------------------------------------


@contextmanager
def daemon(folder: Path) -> Iterator[Bridge]:
    """A daemon with one VM on the CPU engine, behind a bridge."""
    with (
        guest_host(folder / "host", link_folder=folder / "link") as host,
        Bridge(host.link, folder / "link") as bridge,
    ):
        yield bridge


def test_program_computes_on_the_daemon_as_on_linux(windows: Wine, guest: Path, tmp_path: Path) -> None:
    """One program, unmodified, for both systems, over the same transport; round trips of both are printed."""
    source = REPOSITORY / "examples" / "saxpy.c"
    programs = [native_program(tmp_path, source), native_program(tmp_path, SOURCES / "guest.c")]
    with daemon(tmp_path / "linux") as bridge:
        own = {"VGC_BRIDGE": bridge.description(), "VGC_STATE_DIR": str(tmp_path / "linux" / "state")}
        native = [output_of([programs[0]], own)]
        native += [output_of([programs[1], "trips", *given], own) for given in ROUND_TRIPS.values()]
    with daemon(tmp_path / "windows") as bridge:
        own = windows.environment(variables(bridge, tmp_path / "windows" / "state"))
        program = wine.build_program(tmp_path, [source], name="saxpy")
        under_wine = [output_of([wine.LOADER, program], own)]
        under_wine += [output_of([wine.LOADER, guest, "trips", *given], own) for given in ROUND_TRIPS.values()]
    assert under_wine[0] == native[0] == "saxpy of 1048576 elements: right\n"
    for way, there, here in zip(ROUND_TRIPS, under_wine[1:], native[1:], strict=True):
        assert there.endswith("us\n")
        print(f"round trip, {way}: under Wine {there.strip()}, on Linux over such a bridge {here.strip()}")  # noqa: T201


def output_of(argv: list[str | Path], environment: dict[str, str]) -> str:
    done = subprocess.run(argv, env=environment, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
