"""Registered programs of a VM in the daemon: numbers, limits, files of kept ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vhost_backend.daemon import registrations
from vhost_backend.daemon.registrations import RegisteredProgram, RegistrationError, Registrations
from vhost_backend.log import get_logger
from vhost_backend.worker_protocol import codec


def program(text: str = "one", options: tuple[str, ...] = ()) -> RegisteredProgram:
    return RegisteredProgram.of(1, options, text.encode(), 1, (f"{text}(pointer)",))


def add(table: Registrations, each: RegisteredProgram, *, keep: bool) -> int:
    return asyncio.run(table.add(each, keep=keep))


def opened(folder: Path | None) -> Registrations:
    return Registrations(get_logger(vm="a"), folder)


def test_the_same_content_has_one_number() -> None:
    table = opened(None)
    first, other, options = (
        add(table, each, keep=False) for each in (program(), program("two"), program("one", ("-g",)))
    )
    assert add(table, program(), keep=False) == first
    assert len({first, other, options}) == 3
    assert [number for number, _ in table] == [first, other, options]


def test_options_and_source_are_told_apart() -> None:
    contents = [((), b"a b"), (("a",), b" b"), (("a", ""), b"b"), (("ab",), b""), (("a", "b"), b"")]
    digests = {RegisteredProgram.of(1, options, source, 0, ()).digest for options, source in contents}
    assert len(digests) == len(contents)


def test_a_program_that_is_registered_anew_has_no_problem_any_more() -> None:
    table = opened(None)
    number = add(table, program(), keep=False)
    table.note_problem(number, "line 1: error")
    table.note_problem(number + 1, "of nothing")
    assert (table.problem_of(number), table.problem_of(number + 1)) == ("line 1: error", "")
    assert add(table, program(), keep=False) == number
    assert table.problem_of(number) == ""


def test_a_number_is_never_used_again() -> None:
    table = opened(None)
    first = add(table, program(), keep=False)
    table.remove(first)
    table.remove(first)
    assert add(table, program(), keep=False) != first
    assert len(table) == 1


def test_limits_are_those_of_all_programs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MAX_BYTES", 10)
    table = opened(None)
    number = add(table, program("12345678"), keep=False)
    with pytest.raises(
        RegistrationError, match="the source has 3 bytes, and the VM's registered programs have 8 of at most 10"
    ):
        add(table, program("abc"), keep=False)
    table.remove(number)
    add(table, program("abc"), keep=False)
    monkeypatch.setattr(registrations, "MAX_PROGRAMS", 1)
    add(table, program("abc"), keep=False)
    with pytest.raises(RegistrationError, match="has registered 1 programs, which is the limit"):
        add(table, program("d"), keep=False)


def test_a_restart_of_the_guest_leaves_kept_ones(tmp_path: Path) -> None:
    table = opened(tmp_path / "vm")
    add(table, program("goes"), keep=False)
    kept = add(table, program("stays"), keep=True)
    table.guest_restarts()
    assert [number for number, _ in table] == [kept]
    assert table.is_kept(kept)


def test_one_may_be_kept_later(tmp_path: Path) -> None:
    table = opened(tmp_path / "vm")
    number = add(table, program(), keep=False)
    assert add(table, program(), keep=True) == number
    add(table, program(), keep=False)
    assert table.is_kept(number)
    assert [each for _, each in opened(tmp_path / "vm")] == [program()]


def test_kept_ones_outlast_the_daemon_in_their_order(tmp_path: Path) -> None:
    table = opened(tmp_path / "vm")
    numbers = [add(table, program(f"p{i}"), keep=True) for i in range(3)]
    table.remove(numbers[1])
    again = opened(tmp_path / "vm")
    assert sorted(each.source for _, each in again) == [b"p0", b"p2"]
    again.forget()
    assert not (tmp_path / "vm").exists()
    assert len(opened(tmp_path / "vm")) == 0


def test_without_a_folder_none_is_kept() -> None:
    table = opened(None)
    with pytest.raises(RegistrationError, match="its vgcd has no folder for its state"):
        add(table, program(), keep=True)
    assert len(table) == 0


def test_a_folder_that_cannot_be_written_keeps_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    table = opened(tmp_path / "file" / "vm")
    with pytest.raises(RegistrationError, match="cannot keep programs through restarts at present"):
        add(table, program(), keep=True)
    assert len(table) == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"no MessagePack", codec.pack(program())[:-3], b"\xff" * 100],
    ids=["empty", "text", "cut", "bytes"],
)
def test_damaged_files_are_left_out(tmp_path: Path, content: bytes) -> None:
    add(opened(tmp_path), program("good"), keep=True)
    damaged = tmp_path / "0.program"
    damaged.write_bytes(content)
    assert [each.source for _, each in opened(tmp_path)] == [b"good"]
    assert damaged.exists()
