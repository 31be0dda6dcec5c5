"""Pages that walk through the code agree with it: files, functions, and the order of calls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit import page_walks
from tests.unit.page_walks import Code, Place, walks_of
from vhost_backend.daemon.runstate import TABLE

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("name", ["request-path.md", "control.md"])
def test_every_file_that_the_page_names_exists(name: str) -> None:
    named = page_walks.files_of(page(name))
    assert len(named) > 20
    assert not sorted(path for path in named if not (ROOT / path).exists())


@pytest.mark.parametrize("name", ["request-path.md", "control.md"])
def test_functions_are_where_the_page_says_and_call_each_other_in_its_order(name: str) -> None:
    code = page_walks.code_under(ROOT)
    assert [problem for walk in walks_of(page(name)) for problem in code.problems(walk)] == []


def test_functions_on_the_page_stand_beside_their_files() -> None:
    path = page("request-path.md")
    assert page_walks.without_file(path) == set()
    assert sum(map(len, walks_of(path))) > 60


# --------------------------------------------------------------------------------------------------
# The comparison itself
# --------------------------------------------------------------------------------------------------

RING = """
static int at(int i) { return i; }
int pop(void) { return at(0); /* push() comes later */ }
int push(void) { return at(1); }
"""
LOOP = """
static const struct ops OPS = {.run = run_block};
static void help(struct queue *q) { if (pop() < 0) log("gone()"); }
static void *thread(void *p) { help(p); while (more(p)) { p->ops->submit(p); } push(); return NULL; }
int start(void) { return pthread_create(NULL, thread); }
"""
ENGINE = """
struct vgc_engine *made(void) { return NULL; }
static int submit(struct op *op) { return made() != NULL; }
const struct ops ENGINE = { .name = "engine", .submit = submit };
static int at(int i) { return -i; }
"""
SERVER = """
class Server:
    def __init__(self, plane):
        self._serve = {1: self._load}
        self._plane = plane

    def serve(self):
        self._serve[self._plane.take()](lib.start())

    def _load(self, answer):
        finish(parse(answer))

def parse(answer): ...
def finish(parsed): ...
"""
CODE = Code(
    {"a/ring.c": RING, "a/loop.c": LOOP, "b/engine.c": ENGINE, "c/server.py": SERVER, "c/other.py": "def gone(): ..."}
)


def problems(text: str) -> list[str]:
    return [problem for walk in walks_of(text) for problem in CODE.problems(walk)]


def test_a_page_is_read_as_walks_of_places() -> None:
    text = "# One\n1. `a/ring.c`: `pop()`,\n   `push()`. See `a/b.h`.\n2. (`a/loop.c`: `start()`)\n## Two\n- `b/x.py`: `A.f()`\n- no"
    ring = [Place("a/ring.c", "pop"), Place("a/ring.c", "push"), Place("a/loop.c", "start")]
    assert walks_of(text) == [ring, [Place("b/x.py", "A.f")]]
    assert page_walks.files_of(text) == {"a/ring.c", "a/b.h", "a/loop.c", "b/x.py"}
    assert page_walks.without_file(text + " `pop()` `gone()`") == {"gone"}


@pytest.mark.parametrize(
    "text",
    [
        "`a/loop.c`: `start()`, `a/ring.c`: `pop()`, `b/engine.c`: `submit()`, `made()`, `a/ring.c`: `push()`",
        "`a/loop.c`: `thread()`, `help()`, `a/ring.c`: `pop()`, `at()`, `push()`",
        "`c/server.py`: `Server.serve()`, `a/loop.c`: `start()`, `c/server.py`: `parse()`, `finish()`",
        "`a/ring.c`: `push()`\n- `a/ring.c`: `pop()`",
    ],
    ids=["thread, helper, table", "helper named", "Python to C, handlers", "another walk"],
)
def test_a_walk_that_agrees_with_the_code_has_no_problems(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("`a/loop.c`: `pop()`", "pop() of a/loop.c is not there"),
        ("`a/gone.c`: `pop()`", "pop() of a/gone.c is not there"),
        ("`c/server.py`: `serve()`", "serve() of c/server.py is not there"),
        ("`a/ring.c`: `pop()`, `push()`", "push() of a/ring.c is not called next by any of: pop() of a/ring.c"),
        ("`a/loop.c`: `start()`, `a/ring.c`: `push()`, `pop()`", "pop() of a/ring.c is not called next by any of"),
        ("`a/ring.c`: `pop()`, `b/engine.c`: `at()`", "at() of b/engine.c is not called next by any of"),
        ("`c/server.py`: `Server.serve()`, `finish()`, `parse()`", "parse() of c/server.py is not called next"),
        ("`a/loop.c`: `help()`, `c/other.py`: `gone()`", "gone() of c/other.py is not called next by any of"),
    ],
    ids=[
        "wrong file",
        "no such file",
        "method without class",
        "in a comment",
        "wrong order",
        "private",
        "Python",
        "string",
    ],
)
def test_a_walk_that_disagrees_with_the_code_is_reported(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_table_of_states_is_that_of_the_daemon() -> None:
    rows = re.findall(r"^\| ([A-Z_]+) \| (\w+) \| (\w*) ?\| (.*?) ?\|$", page("request-path.md"), re.MULTILINE)
    shown = {state: (api, health, re.sub(r" \([^)]*\)", "", following)) for state, api, health, following in rows}
    assert shown == {
        state.name: (
            row.shown,
            "" if row.shown == "stopped" else row.health.name,  # nothing reads it
            ", ".join(following.name for following in row.leads_to),
        )
        for state, row in TABLE.items()
    }
