"""Layers of C and C++: within a folder, files depend on one another from the top down, without circles."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit import c_layers

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("guest_driver", "kernels", "vhost_backend", "virtio_proto")
CUDA_HEADERS = ROOT / "kernels/cpu/include"
"""CUDA's headers; files of the same names in `kernels/cuda/host/later` do no more than include these."""


@dataclass(frozen=True)
class Room:
    """A folder with the folders in it."""

    folder: str
    upward: dict[tuple[str, str], str] = field(default_factory=dict)
    """Permitted dependencies of a lower file on a higher one, with the reason. All others must point downward."""

    def graph(self) -> c_layers.Graph:
        folder = ROOT / self.folder
        return c_layers.graph(folder, c_layers.sources([folder]), [ROOT])


ROOMS = [
    Room("guest_driver/cuda/nvml"),
    Room("guest_driver/libvgc/src"),
    Room("vhost_backend/builtins"),
    Room("vhost_backend/channels"),
    Room(
        "vhost_backend/dataplane",
        {
            ("complete", "call"): "the end of one operation of a CALL begins the next",
            ("complete", "context"): "the last request of a dying context lets its destruction go on",
            ("complete", "event"): "the end of a record ends the requests that wait for it",
        },
    ),
    Room(
        "vhost_backend/engines/cpu",
        {("schedule", "children"): "a block that waits or has ended lets the grids run that it has launched"},
    ),
    Room(
        "vhost_backend/engines/cuda",
        {("fault", "lane"): "any call may say that the context is lost; the lanes say whose work ran then"},
    ),
    Room(
        "kernels",
        {("control/include/vgc", "cuda/control/vgc_unheard"): "vgc.h calls the hooks that each machine defines"},
    ),
    Room("virtio_proto"),
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.folder)
def test_files_of_a_room_depend_on_one_another_in_no_circle(room: Room) -> None:
    graph = c_layers.without(room.graph(), room.upward)
    assert any(graph.values())
    circle = c_layers.shortest_circle(graph)
    assert not circle, c_layers.tell(graph, circle)


@pytest.mark.parametrize(
    ("room", "edge"),
    [(room, edge) for room in ROOMS for edge in room.upward],
    ids=lambda value: value.folder if isinstance(value, Room) else " to ".join(value),
)
def test_upward_dependency_that_is_excused_closes_a_circle(room: Room, edge: tuple[str, str]) -> None:
    others = room.upward.keys() - {edge}
    assert edge[1] in room.graph()[edge[0]]
    assert c_layers.shortest_circle(c_layers.without(room.graph(), others)), "it needs no excuse any more"


def test_headers_of_all_packages_include_one_another_in_no_circle() -> None:
    files = c_layers.sources(ROOT / package for package in PACKAGES)
    graph = c_layers.graph(ROOT, files, [ROOT, CUDA_HEADERS], calls=False)
    circle = c_layers.shortest_circle(graph)
    assert not circle, c_layers.tell(graph, circle)


# ---- the checker itself ---------------------------------------------------------------------------------------------


def graph_of(folder: Path, files: dict[str, str]) -> c_layers.Graph:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return c_layers.graph(folder, c_layers.sources([folder]))


SHARED = "int low_take(void);\nint high_ask(void);\n"
HIGH = '#include "shared.h"\n\nint high_ask(void)\n{\n    return low_take();\n}\n'
LOW = '#include "shared.h"\n\nstatic int helper(void)\n{\n    return %s;\n}\n\nint low_take(void)\n{\n    return helper();\n}\n'


def test_circle_of_calls_is_named(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"shared.h": SHARED, "high.c": HIGH, "low.c": LOW % "high_ask()"})
    circle = c_layers.shortest_circle(graph)
    assert circle == ["high", "low"]
    assert c_layers.tell(graph, circle) == "high -> low: low_take()\nlow -> high: high_ask()"


@pytest.mark.parametrize(
    "harmless", ["0 /* high_ask() */", 'sizeof("high_ask()")', "object.high_ask", "object->high_ask"]
)
def test_words_that_only_look_like_a_call_do_not_count(harmless: str, tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"shared.h": SHARED, "high.c": HIGH, "low.c": LOW % harmless})
    assert not c_layers.shortest_circle(graph)
    assert graph["high"].keys() == {"low", "shared"}


def test_function_in_a_table_counts_as_a_call(tmp_path: Path) -> None:
    table = LOW % "0" + "\nstatic const struct ops OPS = {\n    .ask = high_ask,\n};\n"
    graph = graph_of(tmp_path, {"shared.h": SHARED, "high.c": HIGH, "low.c": table})
    assert graph["low"]["high"] == {"high_ask()"}


def test_static_function_does_not_count_as_called_by_other_files(tmp_path: Path) -> None:
    other = "static int helper(void)\n{\n    return 1;\n}\n\nint other(void)\n{\n    return helper();\n}\n"
    graph = graph_of(tmp_path, {"low.c": LOW % "0", "other.c": other})
    assert graph == {"low": {}, "other": {}}


def test_header_named_like_a_source_is_the_same_file(tmp_path: Path) -> None:
    files = {
        "high.h": "struct high;\n",
        "high.c": '#include "high.h"\n\nint high_ask(void)\n{\n    return low_take();\n}\n',
        "low.c": '#include "high.h"\n\nint low_take(void)\n{\n    return 0;\n}\n',
    }
    graph = graph_of(tmp_path, files)
    assert c_layers.tell(graph, c_layers.shortest_circle(graph)) == 'high -> low: low_take()\nlow -> high: "high.h"'


def test_methods_and_unnamed_namespaces_of_cpp_are_private(tmp_path: Path) -> None:
    files = {
        "one.cpp": "namespace vgc\n{\nnamespace\n{\nvoid run()\n{\n}\n} // namespace\n\n"
        "void Maker::make()\n{\n    run();\n}\n\nvoid finish()\n{\n}\n} // namespace vgc\n",
        "two.cpp": "namespace vgc\n{\nvoid work(Maker &maker)\n{\n    maker.make();\n    llvm::run();\n"
        "    maker.finish();\n    make();\n    run();\n}\n} // namespace vgc\n",
        "three.cpp": "int main()\n{\n    vgc::finish();\n    vgc::work();\n}\n",
    }
    graph = graph_of(tmp_path, files)
    assert graph == {"one": {}, "two": {}, "three": {"one": {"finish()"}, "two": {"work()"}}}


def test_include_that_could_mean_two_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"first/same\.h.*second/same\.h"):
        graph_of(tmp_path, {"first/same.h": "", "second/same.h": "", "user.c": '#include "same.h"\n'})
