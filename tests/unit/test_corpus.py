"""The corpus tool compiles the units of real folders, counts kernels and names what fails first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import corpus
from vhost_backend.engines.cpu.toolchain import COMPILER

KERNEL = "__global__ void {}(int *x) {{ *x = WIDTH; }}\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Programs: two good units, one without kernels, two that fail for one cause."""
    write(
        tmp_path / "good/Makefile",
        "INC = inc\nSIZE ?= 3\nCFLAGS := -O3 -std=c++14 -DWIDTH=$(SIZE)\nCFLAGS +=-I./$(INC) -I/usr/elsewhere -std=c99\n",
    )
    write(tmp_path / "good/main.cu", '#include <vector>\n#include "sizes.h"\n#include "part.cu"\n' + KERNEL.format("f"))
    write(tmp_path / "good/part.cu", KERNEL.format("g"))
    write(tmp_path / "good/inc/sizes.h", "#pragma once\n")
    write(tmp_path / "good/host.cu", "int main() { return WIDTH; }\n")
    write(tmp_path / "bad/one.cu", "#include <no/such/header.h>\n" + KERNEL.format("f"))
    write(tmp_path / "bad/two.cu", "#include <no/such/header.h>\n")
    return tmp_path


def test_units_are_sources_that_no_other_includes(programs: Path) -> None:
    found = [path.relative_to(programs).as_posix() for path in corpus.units(programs)]
    assert found == ["bad/one.cu", "bad/two.cu", "good/host.cu", "good/main.cu"]


def test_flags_are_those_of_the_makefile(programs: Path) -> None:
    folders, options = corpus.flags_of(programs / "good/main.cu", programs)
    assert folders == [programs / "good", programs / "good/inc"]
    assert options == ["-std=c++14", "-DWIDTH=3"]


def test_summary_counts_units_and_groups_causes(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = programs / "results.json"
    assert corpus.main([str(programs), "--json", str(results)]) == 0
    said = capsys.readouterr().out
    assert "2 of 4 units compile (50.0 %)" in said
    assert "1 with 2 kernels, 1 without; 2 failed, 0 crashed" in said
    assert "    2 'no/such/header.h' file not found" in said
    assert {Path(row["unit"]).name: row["verdict"] for row in json.loads(results.read_text())} == {
        "one.cu": "failed",
        "two.cu": "failed",
        "host.cu": "no kernel",
        "main.cu": "ok",
    }


def test_crash_of_the_compiler_is_told_by_the_exit_status(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crashing = programs / "crashing"
    write(
        crashing,
        f'#!/bin/sh\n[ "$1" = --host-headers ] && exec {COMPILER} "$@"\n'
        "echo 'vgc-cpucc: error: a defect of the compiler: SIGSEGV' >&2\nexit 1\n",
    )
    crashing.chmod(0o755)
    monkeypatch.setattr("vhost_backend.engines.cpu.toolchain.COMPILER", crashing)
    monkeypatch.setattr("vhost_backend.engines.cpu.toolchain.identity", str)
    assert corpus.main([str(programs / "good")]) == 1
    assert "2 crashed" in capsys.readouterr().out


def test_flags_behind_conditions_that_do_not_hold_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "DEBUG = no\nSIZE := 8\nFLAGS = -DALWAYS\nifeq ($(DEBUG),yes)\n  FLAGS += -DDEBUG\nelse\n  FLAGS += -DFAST\nendif\n"
        "ifneq ($(SIZE), 8)\nFLAGS += -DSMALL\nendif\nifdef HIP\nFLAGS += -DMAYBE\nendif\n"
    )
    unit = tmp_path / "a.cu"
    unit.write_text("")
    assert corpus.flags_of(unit, tmp_path)[1] == ["-DALWAYS", "-DFAST", "-DMAYBE"]
