"""Compilation of CUDA source to a cubin: errors name the guest's lines, and the host is out of reach.

The counterpart of test_cpu_compiler.py: guests see the same behaviour of both engines' compilers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.cuda_compile_rig import (
    EMPTY,
    PATIENT,
    CompileError,
    compile_image,
    kernels,
    log_of,
    needs_nvcc,
    needs_nvrtc,
    parsed,
)
from vhost_backend.compiler.run import CompileLimits
from vhost_backend.engines.cuda import toolchain
from vhost_backend.engines.cuda.names import short_name

pytestmark = needs_nvrtc

COMPILERS = ["nvrtc", pytest.param("nvcc", marks=needs_nvcc)]
EXPONENTIAL = """
    template <int N, unsigned long Path> struct Twice {
        static constexpr int value = Twice<N - 1, 2 * Path>::value + Twice<N - 1, 2 * Path + 1>::value;
    };
    template <unsigned long Path> struct Twice<0, Path> { static constexpr int value = 1; };
    __device__ int count = Twice<40, 1>::value;
"""
SECOND_LINE = 'extern "C" __global__ void f(int *x) {\n    x[0] = undeclared;\n}\n'


# ---- the log -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", COMPILERS)
def test_error_has_file_and_line(compiler: str) -> None:
    assert 'source.cu(2): error: identifier "undeclared" is undefined' in log_of(SECOND_LINE, compiler=compiler)


def test_line_directives_of_the_guest_are_followed() -> None:
    assert "blur.cu(40): error" in log_of('#line 40 "blur.cu"\nextern "C" __global__ void f() { oops(); }\n')


@pytest.mark.parametrize("compiler", COMPILERS)
def test_warnings_come_with_the_image(compiler: str) -> None:
    image, log = compile_image('#warning "look here"\n' + EMPTY, compiler=compiler)
    assert "look here" in log
    assert image[:4] == b"\x7fELF"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_good_source_has_an_empty_log(compiler: str) -> None:
    source = "static __global__ void f(int *x) { x[0] = 1; }\n__device__ int unused_function() { return 1; }\n"
    assert compile_image(source, compiler=compiler)[1] == ""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_source_without_kernels_is_refused(compiler: str) -> None:
    log = log_of("__device__ int f(int x) { return x; }\n", compiler=compiler)
    assert log.startswith("vgc-cudacc: error: the source defines no kernel (a __global__ function; templates need")


def test_source_with_variables_alone_is_a_program() -> None:
    assert [variable.name for variable in parsed("__device__ int counter[8];\n").variables] == ["counter"]


def test_undefined_function_is_named() -> None:
    assert "outside" in log_of(
        '__device__ int outside(int);\nextern "C" __global__ void f(int *x) { x[0] = outside(1); }\n'
    )


def test_zero_byte_in_the_source_is_refused() -> None:
    assert "source.cu(2): error: a zero byte in the source" in log_of(b"// one\n// \0\n" + EMPTY.encode())


# ---- walls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", ["/etc/passwd", "../../etc/passwd", "../../../../../../etc/passwd"])
def test_files_of_the_host_are_out_of_reach(header: str, compiler: str) -> None:
    log = log_of(f'#include "{header}"\n{EMPTY}', compiler=compiler)
    assert header in log
    assert "cannot open source file" in log or "No such file or directory" in log
    assert "root:" not in log


@pytest.mark.parametrize("header", ["vector", "iostream", "unistd.h", "sys/socket.h"])
def test_headers_of_the_host_are_out_of_reach(header: str) -> None:
    assert f'cannot open source file "{header}"' in log_of(f"#include <{header}>\n{EMPTY}")


def test_errors_in_headers_name_no_folder_of_the_host() -> None:
    log = log_of(f"#define half )\n#include <cuda_fp16.h>\n{EMPTY}")
    assert "cuda_fp16.h" in log
    assert "site-packages" not in log
    assert "/include/" not in log


def test_endless_compilation_is_stopped() -> None:
    with pytest.raises(CompileError, match=r"stopped after 0\.5 s"):
        compile_image(EXPONENTIAL, limits=CompileLimits(wall_seconds=0.5))


def test_hungry_compilation_is_refused() -> None:
    """NVRTC says so, or crashes: it does not survive every allocation that fails."""
    limits = replace(PATIENT, memory_bytes=400 << 20)
    with pytest.raises(CompileError, match=r"memory|crashed"):
        compile_image(EXPONENTIAL, limits=limits)


# ---- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("-I/etc", "option '-I/etc' is not allowed (allowed: -D, -U, -std="),
        ("--include-path=/etc", "option '--include-path=/etc' is not allowed"),
        ("--pre-include=/etc/passwd", "option '--pre-include=/etc/passwd' is not allowed"),
        ("--options-file=/etc/passwd", "option '--options-file=/etc/passwd' is not allowed"),
        ("-std=c++98", "unknown language standard 'c++98' (allowed: c++03, c++11, c++14, c++17, c++20, c++23)"),
        ("--default-stream=mine", "--default-stream is 'mine' (allowed: legacy, null, per-thread)"),
        ("-D", "option '-D' needs a value"),
        ("other.cu", "option 'other.cu' is not allowed"),
        ("--maxrregcount=many", "--maxrregcount is 'many' (allowed: a number of registers)"),
        ("--fmad=perhaps", "--fmad is 'perhaps' (allowed: true, false)"),
        ("-rdc=maybe", "-rdc is 'maybe' (allowed: true, false)"),
        ("--use_fast_math=true", "option '--use_fast_math=true' is not allowed"),
    ],
)
def test_unsafe_options_are_refused(option: str, reason: str, compiler: str) -> None:
    assert reason in log_of(EMPTY, option, compiler=compiler)


@pytest.mark.parametrize(
    ("option", "reason"),
    [(f"--{name}check", "compute-sanitizer") for name in ("mem", "init", "race", "leak-")]
    + [("--lockstep", "__syncwarp")],
)
def test_checks_of_the_software_gpu_are_refused_with_the_reason(option: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"option '{option}' is for the software GPU, not for a GPU: .*{reason}"):
        toolchain.compile_job("CUDA_SOURCE", b"", (option,), {})


@pytest.mark.parametrize("compiler", COMPILERS)
def test_harmless_options_are_accepted(compiler: str) -> None:
    words = "-arch=sm_70 -arch sm_80 -gencode arch=compute_80,code=sm_80 --maxrregcount=32 -O3 -lineinfo -std=c++14"
    words += " --use_fast_math --ftz=false --prec-sqrt=true --prec-div=true --fmad=false -w --restrict -default-device"
    words += " --diag-suppress=177,550 --extra-device-vectorization --extended-lambda --expt-relaxed-constexpr"
    words += " -m64 -default-stream=per-thread --default-stream legacy"
    words += " -rdc=false -rdc=true -dc --ptxas-options=-O2,--warn-on-spills -Xptxas -dlcm=ca"
    words += " -dlcm=cg --def-load-cache cv --def-store-cache=wt --opt-level 1"
    compile_image(EMPTY, words.split(), compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_options_for_debuggers_add_debug_sections(compiler: str) -> None:
    assert b".debug_line" in compile_image(EMPTY, ["-lineinfo"], compiler=compiler)[0]
    assert b".debug_info" in compile_image(EMPTY, ["-G"], compiler=compiler)[0]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_log_has_a_kernels_resource_usage_on_request(compiler: str) -> None:
    assert "registers" in compile_image(EMPTY, ["-Xptxas=-v"], compiler=compiler)[1]


@pytest.mark.parametrize("options", ["-Xptxas=--options-file=/etc/passwd", "--ptxas-options=-o,/tmp/x"])
def test_ptxas_options_that_name_files_are_left_out(options: str) -> None:
    assert compile_image(EMPTY, [options]) == compile_image(EMPTY)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_definitions_reach_the_source(compiler: str) -> None:
    source = "__device__ char sized[VALUE]; EMPTY(f)\n"
    empty = "-DEMPTY(name)=__global__ void name() {}"
    for options in (
        ["-DVALUE=5"],
        ["-D", "VALUE=5"],
        ["--define-macro=VALUE=5"],
        ["-DVALUE=1", "-UVALUE", "-DVALUE=5"],
    ):
        assert parsed(source, *options, empty, compiler=compiler).variables[0].size == 5
    assert parsed(source, "-DVALUE", empty, compiler=compiler).variables[0].size == 1
    assert "VALUE" in log_of(source, "-DVALUE=1", "-UVALUE", empty, compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_definitions_are_not_run_by_a_shell(compiler: str) -> None:
    source = "__device__ char sized[sizeof(VALUE)];\n"
    assert parsed(source, '-DVALUE="$(id) `id` \'"', compiler=compiler).variables[0].size == len("$(id) `id` '") + 1


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("standard", "value"), [("c++14", 201402), ("c++17", 201703), ("c++20", 202002)])
def test_language_standard_can_be_chosen(standard: str, value: int, compiler: str) -> None:
    source = f'static_assert(__cplusplus == {value}L, "");\n{EMPTY}'
    compile_image(source, [f"-std={standard}"], compiler=compiler)


def test_architecture_variant_counts_for_the_vms_architecture_only() -> None:
    source = f"#ifndef __CUDA_ARCH_FEAT_SM90_ALL\n#error no\n#endif\n{EMPTY}"
    compile_image(source, ["-arch=sm_90a"])
    assert "#error" in log_of(source, "-arch=sm_100a")


# ---- which kernels come out, and under which names -----------------------------------------------------------------


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_kernel_that_is_no_template_comes_out(compiler: str) -> None:
    source = """
        static __global__ void hidden(int *x, int n) { x[0] = n; }
        namespace { __global__ void anonymous(float *x) { x[0] = 1; } }
        namespace deep { static __global__ void inner(float *x) { x[0] = 1; } }
        __global__ void plain(float *x) { x[0] = 1; }
        extern "C" __global__ void c_name(float *x) { x[0] = 1; }
        template <class T> __global__ void unused(T *x) { x[0] = 3; }
        template <class T> __global__ void instantiated(T *x) { x[0] = 3; }
        template __global__ void instantiated<int>(int *);
    """
    found = kernels(source, compiler=compiler)
    assert {short_name(name) for name in found} == {"hidden", "anonymous", "inner", "plain", "c_name", "instantiated"}
    # clang, and so the CPU engine, writes _ZL6hiddenPii and _ZN4deepL5innerEPf
    assert {"_Z6hiddenPii", "_ZN4deep5innerEPf", "_Z5plainPf", "c_name", "_Z12instantiatedIiEvPT_"} <= found


@pytest.mark.parametrize("compiler", COMPILERS)
def test_name_expressions_instantiate_templates(compiler: str) -> None:
    source = "template <class T> __global__ void g(T *x) { x[threadIdx.x] = sizeof(T); }\n"
    found = kernels(source, "--name-expression=g<short>", "--name-expression", "g<double>", compiler=compiler)
    assert found == {"_Z1gIsEvPT_", "_Z1gIdEvPT_"}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_name_expression_without_a_match_is_an_error(compiler: str) -> None:
    assert "nonsense" in log_of(EMPTY, "--name-expression=nonsense<3>", compiler=compiler)


def test_integers_of_known_size_have_the_hosts_names() -> None:
    for header in ("stdint.h", "cstdint", "cuda/std/cstdint"):
        source = f"#include <{header}>\n__global__ void g(uint64_t *x, int64_t *y, int32_t *z) {{}}\n"
        assert kernels(source) == {"_Z1gPmPlPi"}


def test_host_functions_are_parsed_and_left_out() -> None:
    source = EMPTY + "int helper(int x) { return x + 1; }\n__host__ int explicit_host(int x) { return helper(x); }\n"
    assert kernels(source) == {"f"}


@needs_nvcc
def test_sources_with_launches_are_compiled_by_nvcc() -> None:
    source = "template <int N> __global__ void g(int *x) { *x = N; }\nvoid host(int *x) { g<7><<<1, 1>>>(x); }\n"
    assert kernels(source, compiler="auto") == {"_Z1gILi7EEvPi"}


def test_launches_without_nvcc_are_refused_with_the_reason() -> None:
    log = log_of("__global__ void g() {}\nvoid host() { g<<<1, 1>>>(); }\n")
    assert "launches (<<<>>>) and other host code need nvcc" in log


@needs_nvcc
def test_the_guest_may_ask_for_nvcc() -> None:
    source = "#include <vector>\n" + EMPTY
    assert kernels(source, "--use-nvcc", compiler="auto") == {"f"}
    assert '"vector"' in log_of(source, compiler="nvrtc")


def test_other_kinds_of_program_are_refused() -> None:
    settings = {"arch": "sm_90", "driver": "13.0", "compiler": "auto", "hooks": "on"}
    with pytest.raises(
        ValueError, match="does not compile ALGOL; allowed: CUDA_SOURCE, CUDA_UNITS, PTX, CUBIN, FATBIN"
    ):
        toolchain.compile_job("ALGOL", b"", (), settings)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_kernel_is_compiled_the_same_each_time(compiler: str) -> None:
    assert compile_image(EMPTY, compiler=compiler) == compile_image(EMPTY, compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_guests_headers_stand_before_the_source(compiler: str) -> None:
    shape = '#pragma once\n#include "../b/size.h"\n'
    size = "#define SIZE 3\n"
    listed = f"//# vgc headers 1 2\n/app/a\n{len(shape)} /app/a/shape.h\n{shape}{len(size)} /app/b/size.h\n{size}"
    source = "#include <shape.h>\n__global__ void f(int *x) { *x = SIZE; }\n"
    assert kernels(listed + source, compiler=compiler) == {"_Z1fPi"}
    assert "identifier" in log_of(listed + source.replace("SIZE", "OTHER"), compiler=compiler)
    broken = listed.replace("define", "defile")
    assert "/app/a/../b/size.h" in log_of(broken + source, compiler=compiler)


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("//# vgc headers 1", "ends in the middle of a line"),
        ("//# vgc headers 1\n", "no numbers that are allowed"),
        ("//# vgc headers 300 0\n", "up to 256 folders"),
        ("//# vgc headers 0 x\n", "in the place of a number"),
        ("//# vgc headers 0 1\n9 /a.h\n", "the header /a.h ends early: 9 bytes announced, 0 there"),
        ("//# vgc headers 0 1\n0 /../a.h\n", "allowed: absolute paths"),
        ("//# vgc headers 1 0\na\n", "allowed: absolute paths"),
        ("//# vgc headers 0 2\n0 /a.h\n0 /a.h\n", "two headers of the source have the path /a.h"),
    ],
)
def test_malformed_lists_of_headers_are_refused(listed: str, words: str) -> None:
    assert words in log_of(listed)


def test_nvrtc_compiles_a_source_without_kernels() -> None:
    image, log = compile_image("__device__ int f(int x) { return x; }\n", ["--lowered-names"])
    assert image[:4] == b"\x7fELF"
    assert not log


def test_log_says_what_the_linker_calls_instances_if_asked() -> None:
    source = "template <class T> __global__ void g(T *x) {}\nnamespace n { __device__ int v; }\n"
    names = ("--name-expression=g<int>", "--name-expression=&n::v")
    _, log = compile_image(source, [*names, "--lowered-names"])
    assert log == "vgc: lowered name 0: _Z1gIiEvPT_\nvgc: lowered name 1: _ZN1n1vE\n"
    assert compile_image(source, names)[1] == ""
