"""The walls of the house: which package and which room may import which; no circles of files or rooms anywhere.

A room is what lies directly in a folder: a subfolder as a whole, or a module. In `vhost_backend` the import picture is the
process picture: daemon -> control -> {channels, worker_protocol} <- worker, engines, compiler and sandbox below.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.unit.import_graph import Graph, Package, circles, imports

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = {
    "virtio_proto": set[str](),
    "kernels": set[str](),
    "vhost_backend": {"virtio_proto", "kernels"},
    "guest_driver": {"virtio_proto"},
    "control_center": {"virtio_proto"},
    "vgc_kubernetes": {"virtio_proto", "control_center", "vgc_libvirt"},
    "vgc_libvirt": {"virtio_proto", "vhost_backend", "control_center"},
    "tools": {"virtio_proto", "kernels", "vhost_backend", "guest_driver", "control_center", "bench", "tests"},
    "bench": {"virtio_proto", "kernels", "vhost_backend", "guest_driver", "control_center", "tools", "tests"},
}
"""Packages of the project that each may import besides itself. Installed packages never import tools or tests."""


def layered(*layers: set[str]) -> dict[str, set[str]]:
    """Walls of a stack of layers, lowest first: a room may import every room of the layers below its own."""
    below: set[str] = set()
    walls: dict[str, set[str]] = {}
    for layer in layers:
        walls |= dict.fromkeys(layer, below)
        below = below | layer
    return walls


COMMON: Final = {"errors", "log", "fds", "sockets", "users", "cgroups", "cores", "quarters"}
EVENTS: Final = {"event_bus", "events", "background_tasks"}
ENGINE_SIDE: Final = {"sandbox", "compiler", "engines"}
WALLS: Final[Mapping[str, Mapping[str, set[str]]]] = {
    "vhost_backend": {
        "errors": set(),
        "log": set(),
        "fds": set(),
        "sockets": {"errors"},
        "users": {"errors"},
        "cgroups": {"errors", "cores"},
        "cores": {"errors"},
        "quarters": {"cgroups", "cores"},
        "config": COMMON,
        "keeper": COMMON,
        "vhost_user": COMMON | {"keeper"},
        "sandbox": COMMON,
        "compiler": COMMON | {"sandbox"},
        "engines": COMMON | {"sandbox", "compiler"},
        "dataplane": set(),
        "channels": COMMON | {"worker_protocol"},
        "worker_protocol": COMMON,
        "worker": COMMON | ENGINE_SIDE | {"channels", "worker_protocol"},
        "control": COMMON | ENGINE_SIDE | {"config", "channels", "keeper", "worker_protocol"},
        "daemon": COMMON | ENGINE_SIDE | {"config", "keeper", "vhost_user", "control", "worker_protocol"},
        "doctor": COMMON | ENGINE_SIDE | {"config", "daemon"},
        "cli": COMMON | ENGINE_SIDE | {"config", "control", "daemon", "doctor", "keeper"},
        "entry": {"cli", "keeper"},
    },
    "vhost_backend.control": {
        "links": set(),
        "event_bus": set(),
        "background_tasks": set(),
        "events": {"links", "event_bus"},
        "api": EVENTS,
        "functions": EVENTS | {"links", "api"},
        "instances": EVENTS | {"links", "api", "functions"},
        "faults": EVENTS | {"links", "api", "functions", "instances"},
        "firmware": EVENTS | {"links", "api", "functions", "instances"},
        "load": EVENTS | {"links", "api", "functions", "instances"},
        "host": EVENTS | {"links", "api", "functions", "instances"},
        "system": EVENTS | {"links", "api", "functions", "instances", "faults", "firmware", "load", "host"},
    },
    "control_center": layered(
        {"address", "errors", "exposition", "health", "recording_port", "usage"},
        {"answers", "doctor", "messages", "rows", "scope"},
        {"access", "daemon_link", "snapshots"},
        {"host"},
        {"cluster", "config", "encoding", "hosts_view"},
        {"replay", "stream"},
        {"centre"},
        {"metrics", "rest"},
        {"openapi", "websocket"},
        {"app"},
        {"service"},
        {"server"},
    )
    | {
        "marks": set(),
        "doctor": {"address", "config", "health", "recorder"},
        "recorder": {"marks", "recording_port"},
        "replay": {"encoding", "errors", "messages", "recorder", "recording_port", "scope"},
        "websocket": {
            "access",
            "centre",
            "encoding",
            "errors",
            "messages",
            "recorder",
            "replay",
            "rest",
            "scope",
            "stream",
        },
        "service": {"access", "app", "centre", "cluster", "config", "errors", "host", "recorder", "recording_port"},
        "cli": {
            "address",
            "daemon_link",
            "errors",
            "health",
            "marks",
            "recorder",
            "recording_port",
            "rows",
            "snapshots",
        },
    },
    "vgc_libvirt": layered(
        {"apparmor", "arguments", "errors", "finding", "host"},
        {"device"},
        {"domain", "live", "regions", "vms"},
        {"connection", "definition_check", "host_check", "status"},
        {"cli"},
        {"entry"},
    ),
}
"""By folder: what each room in it may import of its neighbours. A new room is added here, with what it stands on."""

PACKAGES_WITHOUT_CIRCLES: Final = (
    "virtio_proto",
    "vhost_backend",
    "guest_driver",
    "control_center",
    "vgc_kubernetes",
    "vgc_libvirt",
    "tools",
    "bench",
)


@cache
def package(name: str) -> Package:
    return Package.read(ROOT / name)


def trespasses(allowed: Mapping[str, set[str]], graph: Graph) -> list[str]:
    """Imports that the walls forbid, as "a imports b"; rooms that have no entry, too."""
    strangers = [
        f"{room} has no walls yet: say here what it may import" for room in sorted(graph.keys() - allowed.keys())
    ]
    forbidden = [
        f"{room} imports {target}"
        for room, targets in sorted(graph.items())
        for target in sorted(targets - allowed.get(room, targets))
    ]
    return strangers + forbidden


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_imports_only_packages_below_it(name: str) -> None:
    allowed = PACKAGES[name] | {name}
    found = [
        f"{path.relative_to(ROOT)} imports {target}"
        for path in sorted((ROOT / name).rglob("*.py"))
        for target in sorted({full.partition(".")[0] for full in imports(path.read_text())})
        if (ROOT / target).is_dir() and target not in allowed
    ]
    assert not found


@pytest.mark.parametrize("folder", WALLS)
def test_a_room_imports_only_rooms_below_it(folder: str) -> None:
    rooms = package(folder.partition(".")[0]).rooms(folder)
    assert not trespasses(WALLS[folder], rooms)
    assert not WALLS[folder].keys() - rooms.keys() - {"dataplane"}, "rooms that are gone"


@pytest.mark.parametrize("name", PACKAGES_WITHOUT_CIRCLES)
def test_no_files_import_each_other_in_a_circle(name: str) -> None:
    assert not circles(package(name).graph)


@pytest.mark.parametrize("name", PACKAGES_WITHOUT_CIRCLES)
def test_no_rooms_import_each_other_in_a_circle(name: str) -> None:
    found = {folder: found for folder in package(name).folders() if (found := circles(package(name).rooms(folder)))}
    assert not found


def test_a_daemon_without_control_system_does_not_load_it() -> None:
    """Its modules take 13 MiB of memory."""
    source = "import sys, vhost_backend.daemon.server; print('vhost_backend.control.system' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_a_worker_loads_only_what_it_needs_to_start() -> None:
    """A VM waits for it: modules of the control system take 20 ms, those that start processes 15 ms."""
    unneeded = ("vhost_backend.channels.driver", "vhost_backend.sandbox.launch", "subprocess", "asyncio")
    source = f"import sys, vhost_backend.worker.life; print([name for name in {unneeded} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


# ---- the checks themselves -----------------------------------------------------------------------


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a.b\nif TYPE_CHECKING:\n    from c import d\ndef f():\n    from e.f import g as h\n"
    assert imports(source) == {"a.b", "c.d", "e.f.g"}


def test_a_circle_of_files_is_named() -> None:
    made = Package.of(
        "p", {"p.a": "from p import b", "p.b": "import p.c", "p.c": "from p.a import x", "p.d": "import p.a"}
    )
    assert circles(made.graph) == [["p.a", "p.b", "p.c"]]


def test_a_circle_of_rooms_without_one_of_files_is_named() -> None:
    made = Package.of("p", {"p.a.x": "import p.b.x", "p.b.x": "", "p.b.y": "import p.a.y", "p.a.y": ""})
    assert not circles(made.graph)
    assert circles(made.rooms("p")) == [["a", "b"]]


def test_a_trespass_and_a_stranger_are_named() -> None:
    graph = {"low": {"high"}, "high": {"low"}, "new": set[str]()}
    assert trespasses({"low": set(), "high": {"low"}}, graph) == [
        "new has no walls yet: say here what it may import",
        "low imports high",
    ]
