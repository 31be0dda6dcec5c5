"""Files that mynvcc handles: inputs stay whole, nothing is left half-written, pipes and standard input are read."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.mynvcc_rig import Toolkit, fake_toolkit, toolkit

__all__ = ["fake_toolkit", "toolkit"]

MAIN = "__global__ void kernel(int x) {}\nint main() { kernel<<<1, 1>>>(7); }\n"


@pytest.mark.parametrize(
    "words",
    [
        ("a.cu", "-o", "a.cu"),
        ("-c", "a.cu", "-o", "./a.cu"),
        ("-E", "a.cu", "-o", "link.cu"),
        ("-ptx", "a.cu", "-o", "a.cu"),
        ("-x", "cu", "a.out"),
    ],
)
def test_an_output_that_is_an_input_is_refused(toolkit: Toolkit, words: tuple[str, ...]) -> None:
    toolkit.write(a_cu=MAIN, a_out=MAIN)
    (toolkit.folder / "link.cu").symlink_to("a.cu")
    done = toolkit.nvcc(*words)
    assert done.returncode == 1
    assert "is an input file, too" in done.stderr
    for name in ("a.cu", "a.out"):
        assert (toolkit.folder / name).read_text() == MAIN


def test_a_source_on_standard_input_is_compiled_for_both_sides(toolkit: Toolkit) -> None:
    toolkit.write(kernel_h=MAIN)
    done = subprocess.run(
        [toolkit.top / "bin" / "mynvcc", "-x", "cu", "-"],
        cwd=toolkit.folder,
        input='#include "kernel.h"\n',
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr
    assert toolkit.output()[-1].endswith(" first 7")
    assert "kernel(int x)" in toolkit.text()


def test_a_source_that_comes_through_a_pipe_is_compiled_for_both_sides(toolkit: Toolkit) -> None:
    reader, writer = os.pipe()
    os.write(writer, MAIN.encode())
    os.close(writer)
    try:
        done = toolkit.nvcc("-x", "cu", f"/dev/fd/{reader}", fds=(reader,))
    finally:
        os.close(reader)
    assert done.returncode == 0, done.stderr
    assert toolkit.output()[-1].endswith(" first 7")


def test_a_folder_of_options_is_an_error(toolkit: Toolkit) -> None:
    (toolkit.folder / "options").mkdir()
    done = toolkit.nvcc("@options")
    assert (done.returncode, done.stderr) == (1, "nvcc fatal   : cannot read options: Is a directory\n")


def test_the_rule_of_a_program_names_the_program(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build("a.cu", "-MD", "-o", "program")
    assert (toolkit.folder / "a.d").read_text().startswith("program: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupted_compilation_leaves_nothing(toolkit: Toolkit, number: signal.Signals) -> None:
    temporary = toolkit.folder / "temporary"
    temporary.mkdir()
    os.mkfifo(toolkit.folder / "endless.h")
    toolkit.write(a_cu='#include "endless.h"\n' + MAIN)
    process = subprocess.Popen(
        [toolkit.top / "bin" / "mynvcc", "-c", "a.cu"],
        cwd=toolkit.folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with Path(toolkit.folder / "endless.h").open("w"):  # opens once the compiler reads there
        os.killpg(process.pid, number)
        assert process.wait(HANGS_AFTER_S) == -number
    assert not list(temporary.iterdir())
    assert not (toolkit.folder / "a.o").exists()


def test_a_pipe_that_ends_never_can_be_given_up(toolkit: Toolkit) -> None:
    source = toolkit.folder / "a.cu"
    os.mkfifo(source)
    process = subprocess.Popen([toolkit.top / "bin" / "mynvcc", "-x", "cu", "-c", source.name], cwd=toolkit.folder)
    with source.open("w"):  # opens once it is read
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_AFTER_S) == -signal.SIGTERM
