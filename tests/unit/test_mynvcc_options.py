"""mynvcc's command line: nvcc's spellings, what is made, what is refused."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
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
        ("-gencode", "arch=compute_80,code=sm_80", "-arch=compute_75", "-code=sm_75,compute_75"),
        ("--generate-code=arch=compute_75,code=[compute_75,sm_75]", "--gpu-architecture", "sm_80"),
        ("-Xptxas", "-v,-O3", "-Xptxas=-dlcm=cg", "-t", "4", "-t4", "--threads=0", "-lineinfo", "-G", "-g", "-m64"),
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


@pytest.mark.parametrize("clang", CLANGS)
def test_options_of_gcc_alone_do_not_stop_clang(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(
        a_cu='#include <cstdio>\n#include <dlfcn.h>\nextern "C" void seen() {}\n'
        'int main() { std::puts(dlsym(RTLD_DEFAULT, "seen") ? "exported" : "hidden"); }\n'
    )
    words = "-fno-gnu-unique,-fipa-pta,-fno-tree-sra,-fabi-version=6,-mpreferred-stack-boundary=4,-Wall,-Werror"
    toolkit.build("-Xcompiler", words, "a.cu", environment={"MYNVCC_CLANG": clang})
    assert toolkit.output() == ["hidden"]
    toolkit.build("-Xcompiler", f"{words},-export-dynamic", "a.cu", environment={"MYNVCC_CLANG": clang})
    assert toolkit.output() == ["exported"]


def test_options_of_gcc_reach_gcc(toolkit: Toolkit) -> None:
    toolkit.write(a_cu="int main() {}\n", b_cpp="")
    words = ("-dryrun", "-ccbin", "g++", "-Xcompiler", "-fno-gnu-unique,-ftree-vectorize", "a.cu", "b.cpp")
    lines = [line for line in toolkit.build(*words).splitlines() if "-ftree-vectorize" in line]
    assert len(lines) == 3
    assert ["-fno-gnu-unique" in line for line in lines] == ["--cuda-host-only" not in line for line in lines]


OPENMP = """
#include <cstdio>
#include <omp.h>
int main() {
    int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
    sum += omp_get_thread_num();
    std::printf("%d\\n", sum);
}
"""
GCCS_OPENMP: Final = (
    ("-lgomp",),
    ("-l", "gomp"),
    ("-l:libgomp.so.1",),
    ("-Xlinker", "-lgomp"),
    ("-Xlinker", "-l,gomp"),
    ("-Xcompiler", "-lgomp"),
    (subprocess.getoutput("gcc -print-file-name=libgomp.so"),),
)
"""Words that name gcc's library of OpenMP; CMake gives its path."""

with_clangs_openmp = pytest.mark.skipif(
    not Path(subprocess.getoutput(f"{CLANGS[-1]} -print-file-name=libomp.so")).is_absolute(), reason="needs libomp-dev"
)


@with_clangs_openmp
@pytest.mark.parametrize("linker", [CLANGS[-1], "g++"])
@pytest.mark.parametrize("words", GCCS_OPENMP)
def test_clangs_library_of_openmp_takes_the_place_of_gccs(
    toolkit: Toolkit, words: tuple[str, ...], linker: str
) -> None:
    toolkit.write(a_cu=OPENMP)
    assert toolkit.build("-ccbin", linker, "-Xcompiler", "-Werror,-fopenmp", *words, "a.cu", "-o", "one") == ""
    toolkit.build("-Xcompiler", "-fopenmp", "-c", "a.cu")
    toolkit.build("-ccbin", linker, *words, "a.o", "-o", "two")
    for program in ("one", "two"):
        assert toolkit.output(program) == ["3"]
        needed = subprocess.run(["ldd", toolkit.folder / program], check=True, capture_output=True, text=True).stdout
        assert "libomp.so" in needed
        assert "libgomp" not in needed


@with_clangs_openmp
def test_gccs_library_of_openmp_is_linked_where_there_is_no_other(toolkit: Toolkit) -> None:
    clang = toolkit.folder / "bin" / "clang++"
    clang.parent.mkdir()
    clang.write_text(f'#!/bin/sh\nexec {CLANGS[-1]} "$@"\n')
    clang.chmod(0o755)
    environment = {"MYNVCC_CLANG": str(clang)}
    toolkit.write(a_cu=OPENMP, b_cpp=OPENMP)
    subprocess.run(["g++", "-fopenmp", "-c", "b.cpp"], cwd=toolkit.folder, check=True, timeout=HANGS_AFTER_S)
    toolkit.build("b.o", "-lgomp", environment=environment)
    assert toolkit.output() == ["3"]
    toolkit.build("-Xcompiler", "-fopenmp", "-c", "a.cu")
    toolkit.build("-lib", "a.o", "-o", "liba.a")
    for words, file in ((("a.o",), "a.o"), (("b.o", "-L.", "-la"), "./liba.a")):
        done = toolkit.nvcc(*words, "-lgomp", environment=environment)
        assert done.stderr == (
            f"nvcc fatal   : clang has compiled '{file}' with OpenMP, and its library is missing; apt-get install libomp-dev\n"
        )


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("-std=c++98",),
            "Value 'c++98' is not defined for option 'std'. Allowed values: 'c++03', 'c++11', 'c++14', 'c++17', 'c++20'",
        ),
        (("-x", "hip"), "Value 'hip' is not defined for option 'x'. Allowed values: 'cu', 'c++', 'c'"),
        (("-ftz=maybe",), "Value 'maybe' is not defined for option 'ftz'. Allowed values: 'true', 'false'"),
        (("-Ofast",), "'fast': expected a number"),
        (("-maxrregcount", "few"), "'few': expected a number"),
        (("-arch=foo",), "Unsupported gpu architecture 'foo'. Allowed: sm_50 to sm_121"),
        (("-arch=sm_80a",), "Unsupported gpu architecture 'sm_80a'"),
        (("-gencode", "arch=compute_80,code=foo"), "Unsupported gpu architecture 'foo'"),
        (("-gencode=arch=foo,code=sm_80",), "Unsupported gpu architecture 'foo'"),
        (("-gencode", "compute_80"), "'compute_80' is not in 'keyword=value' format"),
        (("-gencode", "arch=compute_80"), "Option '--generate-code arch=compute_80', missing code"),
        (("-gencode", "arch=sm_80,code=sm_80"), "Value of -arch option ('sm_80') must be a virtual code architecture"),
        (("-code=sm_80",), "-arch option not specified"),
        (("-arch=sm_80", "-code=sm_80"), "Value of -arch option ('sm_80') must be a virtual code architecture"),
        (("-arch=native", "-code=sm_80"), "Cannot use '-arch=native' with '--gpu-code (-code)'"),
        (("-arch=compute_80", "-code=sm_80,foo"), "Unsupported gpu architecture 'foo'"),
        (("-ccbin=/nonexistent",), "Failed to preprocess host compiler properties: /nonexistent: No such file"),
    ],
)
def test_value_that_an_option_does_not_have_is_refused(toolkit: Toolkit, words: tuple[str, ...], message: str) -> None:
    toolkit.write(a_cu=MAIN)
    done = toolkit.nvcc("-c", *words, "a.cu")
    assert done.returncode == 1
    assert done.stderr.startswith(f"nvcc fatal   : {message}")


@pytest.mark.parametrize(
    "words",
    [
        *[(f"-arch={name}",) for name in ("sm_35", "compute_50", "lto_80", "sm_121", "sm_90a", "sm_100f", "sm_103a")],
        *[(f"-arch={name}",) for name in ("all", "all-major", "native", "sm_20")],
        ("-gencode=arch=compute_90a,code=[sm_90a,compute_90a]",),
        ("-gencode", 'arch=compute_80,code="lto_80,sm_80"', "-gencode", "code=sm_120,arch=compute_120"),
    ],
)
def test_architecture_that_any_nvcc_knows_is_taken(toolkit: Toolkit, words: tuple[str, ...]) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build("-dryrun", *words, "a.cu")


def test_host_compiler_of_a_dry_run_may_be_missing(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    assert "/nonexistent" in toolkit.build("-dryrun", "-ccbin=/nonexistent", "a.cu")


def test_last_of_two_values_counts_and_a_warning_says_so(toolkit: Toolkit) -> None:
    toolkit.write(a_cu="#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM\n#error\n#endif\n" + MAIN)
    words = ("-o", "first", "-o", "second", "-default-stream=per-thread", "-default-stream=legacy", "-std=c++14")
    done = toolkit.nvcc(*words, "-std=c++14", "-DX", "-DY", "a.cu")
    warning = "nvcc warning : incompatible redefinition for option '{}', the last value of this option was used"
    assert done.stderr.splitlines() == [warning.format("output-file"), warning.format("default-stream")]
    assert sorted(path.name for path in toolkit.folder.iterdir()) == ["a.cu", "second"]


def test_level_of_optimisation_above_3_is_3(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    assert "-O3" in toolkit.build("-dryrun", "-O9", "a.cu").split()


def test_file_that_is_not_there_is_named_once(toolkit: Toolkit) -> None:
    assert toolkit.nvcc("a.cu").stderr == "nvcc fatal   : a.cu: No such file or directory\n"


def test_file_of_no_known_kind_is_refused(toolkit: Toolkit) -> None:
    assert "Don't know what to do with 'a.xyz'" in toolkit.nvcc("a.xyz").stderr


def test_code_for_the_device_alone_cannot_be_linked(toolkit: Toolkit) -> None:
    assert "give its source" in toolkit.nvcc("a.ptx").stderr


@pytest.mark.parametrize("words", [("-x", "cu", "a.txt"), ("a.txt", "-x=cu")])
def test_language_can_be_named(toolkit: Toolkit, words: tuple[str, ...]) -> None:
    toolkit.write(a_txt=MAIN)
    toolkit.build(*words)
    assert toolkit.output()[-1].endswith(" first 7")


@pytest.mark.parametrize("option", ["cubin", "fatbin"])
def test_device_code_alone_is_the_container(toolkit: Toolkit, option: str) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build(f"-{option}", "-DX=1", "-arch=sm_80", "a.cu")
    blob = (toolkit.folder / f"a.{option}").read_bytes()
    magic, flags, name_len, options_len, _reserved, text_len = struct.unpack_from("<8s4IQ", blob)
    assert (magic, flags) == (b"VGCUDA1\0", 0)
    assert blob[32 : 32 + name_len + options_len] == b"a.cu" + b"-DX=1\0"
    assert len(blob) == 32 + name_len + options_len + text_len
    assert b"kernel" in blob[-text_len:]


def test_device_code_for_those_who_load_ptx_is_a_text(toolkit: Toolkit) -> None:
    toolkit.write(a_cu=MAIN)
    toolkit.build("-ptx", "-DX=1", "-DY='a\\b'", "a.cu")
    text = (toolkit.folder / "a.ptx").read_bytes()
    assert b"\0" not in text
    head, number, options = text.split(b"\n", 2)
    assert head.startswith(b"// CUDA C, ")
    assert number == b"//# vgc cuda 2"
    assert options.startswith(b"-DX=1\n-DY='a\\\\b'\n")
    assert b"kernel" in options


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
