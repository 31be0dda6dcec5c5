"""mynvcc's command line: nvcc's spellings, what is made, what is refused."""

from __future__ import annotations

import re
import struct

import pytest

from tests.unit.mynvcc_rig import CLANGS, Toolkit, fake_toolkit, toolkit

__all__ = ["fake_toolkit", "toolkit"]

KERNEL = "__global__ void kernel(int x) {}\n"
MAIN = KERNEL + "int main() { kernel<<<1, 1>>>(7); }\n"


def test_version_has_the_form_that_build_tools_read(toolkit: Toolkit) -> None:
    lines = toolkit.build("--version").splitlines()
    assert lines[0] == "nvcc: NVIDIA (R) Cuda compiler driver"
    assert lines[3] == "Cuda compilation tools, release 12.6, V12.6.20"
    assert "mynvcc of virtio-gpu-compute" in lines[4]


def test_help_names_every_option_that_it_takes(toolkit: Toolkit) -> None:
    text = toolkit.build("--help")
    for name in ("--relocatable-device-code {true|false}  (-rdc)", "--gpu-architecture", "--keep-dir", "--check"):
        assert name in text


@pytest.mark.parametrize(
    "words",
    [
        ("-D", "X=7"),
        ("-DX=7",),
        ("--define-macro=X=7",),
        ("--define-macro", "X=7"),
        ("--options-file", "options"),
        ("-optf=options",),
        ("@options",),
    ],
)
def test_options_have_all_of_nvccs_spellings(toolkit: Toolkit, words: tuple[str, ...]) -> None:
    toolkit.write(a_cu=KERNEL + "int main() { kernel<<<1, 1>>>(X); }\n")
    (toolkit.folder / "options").write_text('-D\n"X=7"\n')
    toolkit.build("a.cu", *words)
    assert toolkit.output()[-1].endswith(" first 7")


@pytest.mark.parametrize(
    "words",
    [
        ("-gencode", "arch=compute_80,code=sm_80", "-arch=sm_75", "-code=sm_75,compute_75"),
        ("--generate-code=arch=compute_75,code=[compute_75,sm_75]", "--gpu-architecture", "sm_80"),
        ("-Xptxas", "-v,-O3", "-Xptxas=-dlcm=cg", "-t", "4", "--threads=0", "-lineinfo", "-G", "-g", "-m64"),
        ("--expt-relaxed-constexpr", "--extended-lambda", "--default-stream", "per-thread", "-maxrregcount=32"),
        ("-Wno-deprecated-gpu-targets", "-Werror", "all-warnings", "-w", "-std=c++14", "-O3", "--use_fast_math"),
        ("-ftz=true", "-prec-div=false", "-prec-sqrt", "false", "-fmad=false", "-Xcompiler", "-Wall,-O2", "-O"),
        (
            "-Xcudafe",
            "--diag_suppress=177",
            "-Xfatbin=-compress-all",
            "--optimize",
            "3",
            "-lto",
            "-ftemplate-depth=900",
        ),
        ("--compress-mode=size", "-noeh", "-Ofc=min", "--brief-diagnostics", "true", "-ftemplate-backtrace-limit", "0"),
        ("-cudart", "static", "-Xlinker=-rpath,/nowhere", "-lm", "-L.", "-ccbin", CLANGS[-1], "-restrict"),
    ],
)
def test_usual_options_are_taken(toolkit: Toolkit, words: tuple[str, ...]) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build(*words, "a.cu")
    assert toolkit.output()[-1].endswith(" first 7")


def test_options_of_other_programs_are_taken_apart_as_by_a_shell(toolkit: Toolkit) -> None:
    toolkit.write(
        a_cu="#include <cstdio>\nint main() { std::puts(TEXT); }\n#ifndef __CUDA_ARCH__\n#if !__PIC__\n#error\n#endif\n#endif\n"
    )
    options = "-fPIC -DX '-DTEXT=\"two, words\"'"
    toolkit.build("--compiler-options", options, "-Xlinker", "-rpath /nowhere,-z 'now'", "a.cu")
    assert toolkit.output() == ["two, words"]


def test_macros_and_folders_of_the_hosts_compiler_are_those_of_device_code_too(toolkit: Toolkit) -> None:
    kernel = "#ifndef WIDE\n#error not wide\n#endif\n__global__ void kernel(int x) {}\n"
    toolkit.write(a_cu='#include "folder/kernel.h"\n' + "int main() { kernel<<<1, 1>>>(WIDE); }\n")
    (toolkit.folder / "far" / "folder").mkdir(parents=True)
    (toolkit.folder / "far" / "folder" / "kernel.h").write_text(kernel)
    toolkit.build("-Xcompiler", "-O2 -DWIDE=7 -DOTHER -UOTHER,-Ifar", "a.cu")
    assert toolkit.output()[-1].endswith(" first 7")


@pytest.mark.parametrize(("option", "line"), [("--list-gpu-arch", "compute_80"), ("--list-gpu-code", "sm_80")])
def test_architectures_are_listed(toolkit: Toolkit, option: str, line: str) -> None:
    assert line in toolkit.build(option).splitlines()


def test_gccs_link_of_openmp_takes_clangs_library(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    link = toolkit.build("-dryrun", "-ccbin", "g++", "-Xcompiler", "-fopenmp", "a.cu").splitlines()[-1]
    assert "-lomp" in link.split()
    assert "-fopenmp" not in link


def test_missing_library_of_openmp_is_named(toolkit: Toolkit) -> None:
    clang = toolkit.folder / "bin" / "clang++"
    clang.parent.mkdir()
    clang.write_text(f'#!/bin/sh\ncase "$*" in *lcudart*) exit 1 ;; *) exec {CLANGS[-1]} "$@" ;; esac\n')
    clang.chmod(0o755)
    toolkit.write(a_cu="int main() {}\n")
    done = toolkit.nvcc("-Xcompiler", "-fopenmp", "a.cu", environment={"MYNVCC_CLANG": str(clang)})
    assert done.stderr == "nvcc fatal   : -fopenmp: clang's OpenMP library is missing; apt-get install libomp-dev\n"


def test_unknown_option_is_refused(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    done = toolkit.nvcc("-pedantic", "a.cu")
    assert (done.returncode, done.stderr) == (1, "nvcc fatal   : Unknown option '-pedantic'\n")


def test_unknown_option_is_forwarded_if_that_is_asked(toolkit: Toolkit) -> None:
    toolkit.write(a_cu="int main() { int unused; }\n")
    done = toolkit.nvcc("-Wunused-variable", "-c", "a.cu", "-forward-unknown-to-host-compiler")
    assert done.returncode == 0
    assert "unused variable" in done.stderr


def test_environment_adds_options_before_and_behind(toolkit: Toolkit) -> None:
    toolkit.write(a_cu='#include <cstdio>\nint main() { std::printf("%s %d\\n", TEXT, NUMBER); }\n')
    environment = {
        "NVCC_PREPEND_FLAGS": "-DNUMBER=1 '-DTEXT=\"two words\"'",
        "NVCC_APPEND_FLAGS": "-UNUMBER -DNUMBER=2",
    }
    toolkit.build("a.cu", environment=environment)
    assert toolkit.output() == ["two words 2"]


def test_value_that_an_option_does_not_have_is_refused(toolkit: Toolkit) -> None:
    done = toolkit.nvcc("-std=c++98", "a.cu")
    assert done.stderr == "nvcc fatal   : Value 'c++98' is not defined for option 'std'\n"


def test_file_that_is_not_there_is_named_once(toolkit: Toolkit) -> None:
    assert toolkit.nvcc("a.cu").stderr == "nvcc fatal   : a.cu: No such file or directory\n"


def test_file_of_no_known_kind_is_refused(toolkit: Toolkit) -> None:
    assert "Don't know what to do with 'a.xyz'" in toolkit.nvcc("a.xyz").stderr


def test_code_for_the_device_alone_cannot_be_linked(toolkit: Toolkit) -> None:
    assert "give its source" in toolkit.nvcc("a.ptx").stderr


def test_language_can_be_named(toolkit: Toolkit) -> None:
    toolkit.write(a_txt=MAIN)
    toolkit.build("-x", "cu", "a.txt")
    assert toolkit.output()[-1].endswith(" first 7")


@pytest.mark.parametrize("option", ["ptx", "cubin", "fatbin"])
def test_device_code_alone_is_the_container(toolkit: Toolkit, option: str) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build(f"-{option}", "-DX=1", "-arch=sm_80", "a.cu")
    blob = (toolkit.folder / f"a.{option}").read_bytes()
    magic, flags, name_len, options_len, _reserved, text_len = struct.unpack_from("<8s4IQ", blob)
    assert (magic, flags) == (b"VGCUDA1\0", 0)
    assert blob[32 : 32 + name_len + options_len] == b"a.cu" + b"-DX=1\0"
    assert len(blob) == 32 + name_len + options_len + text_len
    assert b"kernel" in blob[-text_len:]


def test_rule_for_make_is_written_beside_the_object(toolkit: Toolkit) -> None:
    toolkit.write(a_cu='#include "b.h"\n' + MAIN, b_h="")
    toolkit.build("-MD", "-MT", "target.o", "-MF", "rule.d", "-c", "a.cu", "-o", "c.o")
    assert (toolkit.folder / "c.o").exists()
    rule = (toolkit.folder / "rule.d").read_text()
    assert rule.startswith("target.o:")
    assert {"a.cu", "b.h"} <= set(rule.split())


def test_rule_for_make_can_be_printed(toolkit: Toolkit) -> None:
    toolkit.write(a_cu='#include "b.h"\n' + MAIN, b_h="")
    assert re.fullmatch(r"a\.o: a\.cu .*b\.h\n", toolkit.build("-MM", "a.cu").replace("\\\n", ""))


def test_program_can_be_run_at_once(toolkit: Toolkit) -> None:
    toolkit.write(a_cu='#include <cstdio>\nint main(int, char **words) { printf("%s %s\\n", words[1], words[2]); }\n')
    assert toolkit.build("--run", "a.cu", "--run-args", "one,two").splitlines()[-1] == "one two"


def test_dry_run_prints_commands_and_makes_nothing(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    lines = toolkit.build("--dryrun", "a.cu", "-o", "program").splitlines()
    assert all(line.startswith("#$ ") for line in lines)
    assert f"#$ TOP={toolkit.top}" in lines
    assert [path.name for path in toolkit.folder.iterdir()] == ["a.cu"]


def test_intermediate_files_can_be_kept(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build("--keep", "--keep-dir", "kept", "a.cu")
    assert (toolkit.folder / "kept" / "a.vgcblob").read_bytes().startswith(b"VGCUDA1")


def test_shared_and_static_libraries_are_linked(toolkit: Toolkit) -> None:
    call = "kernel<<<1, 1>>>({}); }}\n"
    toolkit.write(
        a_cu="static " + KERNEL + "void one() { " + call.format(1),
        b_cu="static " + KERNEL + "void two() { " + call.format(2),
        main_cu="void one(); void two(); int main() { one(); two(); }\n",
    )
    toolkit.build("-shared", "-Xcompiler", "-fPIC", "a.cu", "-o", "liba.so")
    toolkit.build("-lib", "b.cu", "-o", "libb.a")
    toolkit.build("-L.", "-lb", "main.cu", "-la", "-Xlinker", "-rpath,.")
    assert [line.split()[-1] for line in toolkit.output() if line.startswith("launch")] == ["1", "2"]
