"""Compatibility runner: what it finds in a folder, how it judges builds and runs, what it reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compat import corpus, report, shrink, verdict
from tests.compat.__main__ import arguments, known, main, try_corpus
from tests.compat.corpus import Program
from tests.compat.effort import Effort, process_seconds, session_seconds
from tests.compat.frameworks import page as frameworks
from tests.compat.guest import Guest
from tests.compat.process import Limits, run
from tests.compat.sample import Sample, kept, needs_mpi
from tests.compat.trial import Result, Trials, bring_modules
from tests.compat.verdict import Cause, Finished, Status

PLENTY = Limits(500, 4 << 30)


# ---- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cause", "detail"),
    [
        ("a.cu:3:10: fatal error: 'mpi.h' file not found", Cause.OUTSIDE, "mpi.h"),
        ("a.cpp:3:10: fatal error: GL/glew.h: No such file or directory", Cause.OUTSIDE, "GL/glew.h"),
        ("a.cu:3:10: fatal error: 'cublas_v2.h' file not found", Cause.LIBRARY, "cublas_v2.h"),
        ("a.cu:3:10: fatal error: 'thrust/sort.h' file not found", Cause.LIBRARY, "thrust/sort.h"),
        ("a.cu:3:10: fatal error: 'helper.h' file not found", Cause.FILE, "helper.h"),
        ("/usr/bin/ld: cannot find -lcufft: No such file or directory", Cause.LIBRARY, "cufft"),
        ("a.cu:3:10: fatal error: 'boost/sort/sort.hpp' file not found", Cause.FOREIGN, "boost/sort/sort.hpp"),
        ("ModuleNotFoundError: No module named 'torch'", Cause.FOREIGN, "torch"),
        ("make: nvc++: No such file or directory", Cause.OUTSIDE, "nvc++"),
        ("a.cu:7:3: error: no template named 'tuple' in namespace 'thrust'", Cause.CCCL, "thrust::tuple"),
        (
            "a.cu:7:3: error: expected ';'\na.cu:7:3: error: use of undeclared identifier 'ConstantInputIterator'",
            Cause.CCCL,
            "cub::ConstantInputIterator",
        ),
        ("CMake Error: Could NOT find MPI (missing: MPI_CXX_FOUND)", Cause.OUTSIDE, "MPI"),
        ("make: mpicc: command not found", Cause.OUTSIDE, "mpicc"),
        ("a.o: in function `main':\na.cu:(.text+0x1): undefined reference to `cudaFoo'", Cause.LINK, "cudaFoo"),
        ("a.cu:7:3: error: use of undeclared identifier 'x'", Cause.COMPILE_HOST, "a.cu:7:3: error: use of undeclared"),
        ("mynvcc: GPU part:\na.cu:7:3: error: bad", Cause.COMPILE_GPU, "a.cu:7:3: error: bad"),
        ("make: *** No rule to make target 'data.txt'.  Stop.", Cause.FILE, "data.txt"),
        ("/bin/sh: 1: cd: can't cd to BlasLapack\nmake: *** Error 2", Cause.FILE, "BlasLapack"),
        ('Target "a" links to:\n\n    CUDA::nvrtc\n\n  but the target was not found.', Cause.LIBRARY, "CUDA::nvrtc"),
        (
            "a.cpp:3:5: error: \u2018CUctxCreateParams\u2019 was not declared in this scope",
            Cause.DRIVER_API,
            "CUctxCreateParams",
        ),
        ("a.cu:3:5: error: use of undeclared identifier 'CU_JIT_WALL_TIME'", Cause.DRIVER_API, "CU_JIT_WALL_TIME"),
        ("a.o: undefined reference to `cuModuleLoad'", Cause.DRIVER_API, "cuModuleLoad"),
        ("what\nis this", Cause.BUILD, "is this"),
        (
            "nvcc fatal   : Unknown option '-Ofast'\nmake: *** Error 1",
            Cause.BUILD,
            "nvcc fatal : Unknown option '-Ofast'",
        ),
    ],
)
def test_failed_build_is_classified(text: str, cause: Cause, detail: str) -> None:
    found = verdict.of_build(Finished(1, text))
    assert found is not None
    assert found.cause == cause
    assert found.detail.startswith(detail)


@pytest.mark.parametrize(
    "text", ["fatal error: 'GL/glew.h' file not found", "fatal error: 'helper_cuda.h' file not found"]
)
def test_program_without_what_nobody_here_can_give_is_excluded(text: str) -> None:
    found = verdict.of_build(Finished(1, text))
    assert found is not None
    assert found.status is Status.EXCLUDED


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MPI not found - will not build sample 'simpleMPI'", "MPI"),
        ("Sample 'x' is Windows-only - skipping", "Windows"),
    ],
)
def test_sample_that_leaves_itself_out_is_excluded(text: str, name: str) -> None:
    found = verdict.of_build(Finished(0, f"-- {text}\n-- Generating done"))
    assert found == verdict.Verdict(Status.EXCLUDED, Cause.OUTSIDE, name)


def test_build_that_ended_well_has_no_verdict_yet() -> None:
    assert verdict.of_build(Finished(0, "warning: error: undefined reference to `nothing'")) is None


def test_build_that_was_stopped_is_a_time_out() -> None:
    found = verdict.of_build(Finished(-9, "fatal error: 'mpi.h' file not found", 300.0, stopped=True))
    assert found is not None
    assert (found.cause, found.detail) == (Cause.BUILD_TIME, "after 300 s")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Test PASSED\nDone", Status.PASSED),
        ("Result = PASS", Status.PASSED),
        ("max error 0.001, SUCCESS!", Status.PASSED),
        ("Number of errors: 0\nPASS", Status.PASSED),
        ("0 mismatches, results match", Status.PASSED),
        ("Non-Matching Pixel-Outputs Beyond Error Threshold of 0.05 Percent: 0", Status.PASSED),
        ("Average kernel time 3.2 us", Status.RAN),
        ("cudaSuccess", Status.RAN),
        ("", Status.RAN),
    ],
)
def test_good_end_counts_by_the_words(text: str, status: Status) -> None:
    assert verdict.of_run(Finished(0, text)).status is status


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        (0, "Test FAILED", Cause.WRONG),
        (0, "PASS\nFAIL", Cause.WRONG),
        (0, "Mismatch at 3: 1 != 2", Cause.WRONG),
        (0, "errors: 12, verification failed", Cause.WRONG),
        (0, "CUDA error at a.cu:3: invalid argument", Cause.RUNTIME),
        (1, "a.cu(12): CUDA Runtime API error 77: an illegal memory access was encountered.", Cause.RUNTIME),
        (1, "GPUassert: cudaErrorInvalidValue a.cu 3", Cause.RUNTIME),
        (1, "CUDA error code=2(cudaErrorMemoryAllocation)", Cause.MEMORY),
        (134, "terminate called after throwing an instance of 'std::bad_alloc'", Cause.MEMORY),
        (1, "GPUassert: no kernel image is available for execution on the device", Cause.COMPILE_GPU),
        (127, "./a: symbol lookup error: ./a: undefined symbol: cudaNew, version 12", Cause.RUN_SYMBOL),
        (127, "./a: error while loading shared libraries: libcublas.so.12: cannot open", Cause.LIBRARY),
        (1, "what(): std::bad_alloc", Cause.MEMORY),
        (-11, "", Cause.CRASH),
        (139, "Segmentation fault", Cause.CRASH),
        (2, "make: *** [Makefile:60: run] Error 139", Cause.CRASH),
        (2, "make: *** [Makefile:60: run] Error 1\nFAILED", Cause.WRONG),
        (3, "main: nothing to do", Cause.EXIT),
    ],
)
def test_bad_end_is_classified(code: int, text: str, cause: Cause) -> None:
    found = verdict.of_run(Finished(code, text))
    assert (found.status, found.cause) == (Status.FAILED, cause)


def test_failed_call_of_a_program_that_never_asks_is_found() -> None:
    text = "cudaErrorInvalidValue: copy of 16 bytes"
    assert verdict.of_run(Finished(0, "done"), text).cause is Cause.RUNTIME
    assert verdict.of_run(Finished(0, "done\nPASSED"), text).status is Status.PASSED
    assert (
        verdict.of_run(Finished(0, "Assertion `a < N` failed.\nsimpleAssert completed, returned OK")).status
        is Status.PASSED
    )
    assert verdict.of_run(Finished(0, "virtio-gpu-compute: the device is gone\nPASSED")).cause is Cause.RUNTIME
    assert verdict.of_run(Finished(0, "virtio-gpu-compute: the program does not compile:")).cause is Cause.COMPILE_GPU


def test_missing_data_set_is_no_success() -> None:
    for code, text in (
        (0, "Reading File\nError Reading graph file"),
        (1, "Error: could not open file ../data/graph.txt"),
    ):
        found = verdict.of_run(Finished(code, text))
        assert (found.status, found.cause) == (Status.EXCLUDED, Cause.FILE)


def test_program_that_was_stopped_is_a_time_out_whatever_it_said() -> None:
    found = verdict.of_run(Finished(-9, "PASS", 60.0, stopped=True))
    assert (found.status, found.cause) == (Status.FAILED, Cause.TIME)


def test_waived_program_is_no_failure() -> None:
    for text in (
        "Two GPUs are needed, waiving the test.",
        "No CUDA devices support IPC",
        "Device 0 doesn't support VIRTUAL ADDRESS MANAGEMENT.",
        "Two GPUs are required to run this",
    ):
        found = verdict.of_run(Finished(2, text))
        assert (found.status, found.cause) == (Status.WAIVED, Cause.WAIVED)


# ---- programs of a folder ------------------------------------------------------------------------


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_each_layout_is_found(tmp_path: Path) -> None:
    write(tmp_path / "Samples/CMakeLists.txt", "add_subdirectory(one)")
    write(tmp_path / "Samples/one/CMakeLists.txt", "add_executable(one one.cu)")
    write(tmp_path / "Samples/one/one.cu", "int main() {}")
    write(
        tmp_path / "Samples/query/CMakeLists.txt",
        "add_executable(query query.cpp)\ntarget_link_libraries(CUDA::cudart)",
    )
    write(tmp_path / "Samples/query/query.cpp", "int main() {}")
    write(tmp_path / "Samples/other/CMakeLists.txt", "add_executable(other other.cpp)")
    write(tmp_path / "src/bfs-cuda/Makefile", "CC = nvcc\nrun: main\n\t./main 5\n")
    write(tmp_path / "src/bfs-cuda/bfs.cu", "int main() {}")
    write(tmp_path / "cuda/lud/Makefile", "all:\n\tcd inner; make\n")
    write(tmp_path / "cuda/lud/run", "./lud")
    write(tmp_path / "cuda/lud/inner/lud.cu", "int main() {}")
    write(tmp_path / "plain/a.cu", "int main() {}")
    write(tmp_path / "plain/b.cu", "int main(void) {}")
    write(tmp_path / "plain/both.cpp", "int helper() { return 1; }")
    write(tmp_path / "text/Makefile", "all:\n")
    found = {program.name: program for program in corpus.find(tmp_path)}
    assert {name: program.how for name, program in found.items()} == {
        "Samples/one": "cmake",
        "Samples/query": "cmake",
        "src/bfs-cuda": "make",
        "cuda/lud": "make",
        "plain/a": "direct",
        "plain/b": "direct",
    }
    assert [path.name for path in found["plain/a"].sources] == ["a.cu", "both.cpp"]


TARGETS = """APPS=one \\
\t\ttwo.fast
all: $(APPS) three

%: %.cu
\tcp $< $@
three: three.c
\tcp $< $@
four:
\tcp unnamed.cu unnamed
"""


def test_makefile_of_several_programs_is_tried_by_its_targets(tmp_path: Path) -> None:
    write(tmp_path / "book/chapter/Makefile", TARGETS)
    for name in ("one.cu", "two.fast.cu", "three.c", "unnamed.cu"):
        write(tmp_path / "book/chapter" / name, "int main() {}")
    found = corpus.find(tmp_path)
    assert [(program.name, program.how, program.target) for program in found] == [
        ("book/chapter/one", "target", "one"),
        ("book/chapter/two.fast", "target", "two.fast"),
    ]
    write(tmp_path / "book/chapter/three.c", "#include <cuda_runtime.h>\nint main() {}")
    assert "book/chapter/three" in {program.name for program in corpus.find(tmp_path)}


@pytest.mark.parametrize(
    ("recipe", "hows"),
    [("", {"target"}), ("run:\n\t./one 5\n", {"make"}), ("run:\n\t./one\n\tprof ./two\n", {"target"})],
)
def test_makefile_that_runs_one_program_is_one(tmp_path: Path, recipe: str, hows: set[str]) -> None:
    write(tmp_path / "some/Makefile", f"all: one two\n{recipe}")
    for name in ("one.cu", "two.cu"):
        write(tmp_path / "some" / name, "int main() {}")
    assert {program.how for program in corpus.find(tmp_path)} == hows


def test_target_is_built_and_run_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "book/Makefile", TARGETS)
    write(tmp_path / "book/two.fast.cu", "#!/bin/sh\n# int main()\necho PASS\n").chmod(0o755)
    write(tmp_path / "book/one.cu", "#!/bin/sh\n# int main()\nexit 3\n").chmod(0o755)
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    found = [trials.run(program, Guest(dict(os.environ))) for program in corpus.find(tmp_path)]
    assert [(result.name, result.status) for result in found] == [
        ("book/one", Status.FAILED),
        ("book/two.fast", Status.PASSED),
    ]


def test_modules_of_a_build_are_where_the_program_runs(tmp_path: Path) -> None:
    write(tmp_path / "build/kernel.fatbin", "module")
    write(tmp_path / "build/object.o", "object")
    write(tmp_path / "program/main.cpp")
    bring_modules(tmp_path / "build", tmp_path / "program")
    assert sorted(path.name for path in (tmp_path / "program").iterdir()) == ["kernel.fatbin", "main.cpp"]
    bring_modules(tmp_path / "build", tmp_path / "build")


PARBOIL = """include $(PARBOIL_ROOT)/common/Makefile.conf
default:
\tmkdir -p $(BUILDDIR) && cp $(SRCDIR)/program.sh $(BIN) && chmod +x $(BIN)
"""


def parboil(root: Path, program: str) -> list[Program]:
    write(root / "common/mk/cuda.mk")
    write(root / "common/mk/Makefile", PARBOIL)
    write(root / "benchmarks/bfs/src/cuda_base/Makefile", "LANGUAGE=cuda\nSRCDIR_OBJS=main.o\n")
    write(root / "benchmarks/bfs/src/cuda_base/program.sh", program)
    write(root / "benchmarks/bfs/src/omp/Makefile", "LANGUAGE=c\n")
    return corpus.find(root)


def test_parboil_is_built_as_its_driver_does(tmp_path: Path) -> None:
    (program,) = parboil(tmp_path, "#!/bin/sh\necho PASS\n")
    assert (program.name, program.how) == ("bfs/cuda_base", "parboil")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    assert trials.run(program, Guest(dict(os.environ))).status is Status.PASSED


def test_benchmark_of_parboil_without_data_sets_is_excluded(tmp_path: Path) -> None:
    (program,) = parboil(tmp_path, "#!/bin/sh\necho Expecting one input filename\nexit 255\n")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    found = trials.run(program, Guest(dict(os.environ)))
    assert (found.status, found.cause, found.detail) == (Status.EXCLUDED, Cause.FILE, "datasets/bfs")
    (tmp_path / "datasets/bfs").mkdir(parents=True)
    assert trials.run(program, Guest(dict(os.environ))).cause is Cause.EXIT


def test_device_code_of_a_program_without_its_data_is_checked(tmp_path: Path) -> None:
    (program,) = parboil(tmp_path, "")
    (tmp_path / "common/mk/Makefile").write_text("default:\n\ttest -z $$NVCC_APPEND_FLAGS\n")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    assert trials.run(program, Guest(dict(os.environ))).cause is Cause.BUILD
    (tmp_path / "common/mk/Makefile").write_text("default:\n\techo b.h: No such file or directory; exit 1\n")
    assert trials.run(program, Guest(dict(os.environ))).detail == "b.h"
    (tmp_path / "common/mk/Makefile").write_text("default:\n\ttest -z $$NVCC_APPEND_FLAGS\n")
    (tmp_path / "datasets/bfs").mkdir(parents=True)
    assert trials.run(program, Guest(dict(os.environ))).detail == "the build left no program"


def test_single_source_is_a_corpus(tmp_path: Path) -> None:
    source = write(tmp_path / "alone.cu", "int main() {}")
    assert corpus.find(source) == [Program("alone", tmp_path, "direct", (source,))]


def test_source_without_a_build_file_is_linked_by_its_headers(tmp_path: Path) -> None:
    text = '#include <cublas_v2.h>\n#include "curand.h"\n#include <curand_kernel.h>\n'
    assert corpus.libraries([write(tmp_path / "a.cu", text)]) == ["-lcublas", "-lcurand"]
    text = "#include <curand_kernel.h>\nfor (;;)\n  #pragma omp parallel\n"
    assert corpus.libraries([write(tmp_path / "a.cu", text)]) == ["-Xcompiler", "-fopenmp"]


def test_program_of_a_submodule_that_was_not_fetched_is_excluded(tmp_path: Path) -> None:
    write(tmp_path / ".gitmodules", '[submodule "cub"]\n\tpath = some/one/cub\n\turl = https://where/it/is\n')
    write(tmp_path / "some/one/Makefile", "all:\n\techo \"fatal error: 'cub/cub/cub.cuh' file not found\"; exit 1\n")
    write(tmp_path / "some/one/one.cu", "int main() {}")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    (program,) = corpus.find(tmp_path)
    found = trials.run(program, Guest(dict(os.environ)))
    assert (found.status, found.cause, found.detail) == (Status.EXCLUDED, Cause.FILE, "some/one/cub")
    write(tmp_path / "some/one/cub/cub.cuh")
    assert trials.run(program, Guest(dict(os.environ))).cause is Cause.LIBRARY


def test_program_for_openacc_is_excluded(tmp_path: Path) -> None:
    source = write(tmp_path / "loops.cu", "int main() {\n#pragma acc parallel loop\nfor (;;); }")
    write(tmp_path / "bin/nvcc", "#!/bin/sh\necho a.cu:1:1: error: bad; exit 1\n").chmod(0o755)
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    (program,) = corpus.find(source)
    found = trials.run(program, Guest(dict(os.environ)))
    assert (found.status, found.cause, found.detail) == (Status.EXCLUDED, Cause.OUTSIDE, "OpenACC")


@pytest.mark.parametrize(("text", "status"), [("f<<<FIXME>>>();", Status.EXCLUDED), ("f<<<1>>>();", Status.FAILED)])
def test_exercise_with_holes_is_no_failure(tmp_path: Path, text: str, status: Status) -> None:
    source = write(tmp_path / "hello.cu", f"int main() {{ {text} }}")
    write(tmp_path / "bin/nvcc", "#!/bin/sh\necho a.cu:1:1: error: bad; exit 1\n").chmod(0o755)
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    (program,) = corpus.find(source)
    assert trials.run(program, Guest(dict(os.environ))).status is status


def test_makefile_with_a_folder_of_nvcc_is_told_ours(tmp_path: Path) -> None:
    write(
        tmp_path / "Makefile",
        "NVCC := /usr/local/cuda/bin/nvcc\nCC=gcc\nCXX ?= nvcc\n  CUDACC = $(CUDA)/bin/nvcc -O3\n",
    )
    assert corpus.nvcc_variables(tmp_path) == ["NVCC=nvcc", "CUDACC=nvcc"]


def test_include_folders_above_the_program_are_found(tmp_path: Path) -> None:
    for name in ("Common", "a/include", "a/b"):
        (tmp_path / name).mkdir(parents=True)
    found = corpus.include_folders(tmp_path / "a" / "b", tmp_path)
    assert found == [tmp_path / "a" / "b", tmp_path / "a" / "include", tmp_path / "Common"]


def test_run_file_names_the_command(tmp_path: Path) -> None:
    write(tmp_path / "run", "There are datasets:\n# ./bfs old\n./missing 1\n./bfs ../data 3\n")
    write(tmp_path / "bfs").chmod(0o755)
    assert corpus.command(Program("bfs", tmp_path, "make"), tmp_path) == "./bfs ../data 3"


def test_run_target_names_the_command(tmp_path: Path) -> None:
    write(tmp_path / "Makefile", "program = main\n\nrun: $(program)\n\t./$(program) 100\n")
    assert corpus.command(Program("x", tmp_path, "make"), tmp_path) == "make -s run"


def test_program_of_the_folders_name_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "vectorAdd"
    for name in ("vectorAdd", "other", "libthing.so"):
        path = write(tmp_path / "out" / name)
        path.write_bytes(b"\x7fELF rest")
        path.chmod(0o755)
    assert corpus.command(Program("vectorAdd", folder, "cmake"), tmp_path / "out") == str(
        tmp_path / "out" / "vectorAdd"
    )
    assert corpus.command(Program("vectorAdd", folder, "cmake"), folder) is None


# ---- processes -----------------------------------------------------------------------------------


def shell(text: str, folder: Path, limits: Limits = PLENTY) -> Finished:
    return run(["/bin/sh", "-c", text], folder, folder / "output.txt", (limits, Guest(dict(os.environ))))


def test_output_and_exit_status_are_kept(tmp_path: Path) -> None:
    done = shell("echo out; echo err >&2; exit 3", tmp_path)
    assert (done.code, done.output, done.stopped) == (3, "out\nerr\n", False)


def test_program_is_stopped_with_its_children(tmp_path: Path) -> None:
    done = shell("mkfifo wait; (echo child; read x < wait) & read x < wait", tmp_path, Limits(0.2, 4 << 30))
    assert done.stopped


def test_program_that_computes_is_stopped_by_its_processor_time(tmp_path: Path) -> None:
    done = shell("while :; do :; done", tmp_path, Limits(0.05, 4 << 30))
    assert (done.code, done.stopped) == (-signal.SIGKILL, True)


def test_time_of_children_that_have_ended_counts() -> None:
    spinning = "import os\nwhile sum(os.times()[:2]) < 0.3: pass"
    command = ["/bin/sh", "-c", f"{sys.executable} -c '{spinning}'; echo spun; read x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout
        assert shell.stdin
        assert shell.stdout.readline() == b"spun\n"
        assert session_seconds(shell.pid) >= 0.3
        assert process_seconds(shell.pid) < 0.3
        shell.stdin.close()


def test_time_of_a_device_counts_whichever_worker_it_has() -> None:
    told = iter((5.0, 6.0, 6.5, 0.25, 1.0))
    effort = Effort(-1, lambda: next(told))
    assert [effort.seconds() for _ in range(4)] == [1.0, 1.5, 1.75, 2.5]


def test_memory_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    done = shell("exec python3 -c 'bytearray(1 << 30)'", tmp_path, Limits(500, 256 << 20))
    assert "MemoryError" in done.output
    assert verdict.of_run(done).cause is not Cause.NONE


# ---- reports -------------------------------------------------------------------------------------

RESULTS = (
    Result("a", "make", Status.PASSED, Cause.NONE, "", 1.0, 0.5),
    Result("b", "make", Status.FAILED, Cause.LINK, "cudaFoo", 1.0, 0),
    Result("c", "cmake", Status.FAILED, Cause.LINK, "cudaFoo", 1.0, 0),
    Result("d", "cmake", Status.FAILED, Cause.WRONG, "a | b `c`", 1.0, 2),
)


def test_sums_name_causes_by_frequency() -> None:
    assert report.counts(RESULTS) == "1 passed, 3 failed"
    assert report.causes(RESULTS) == [(Cause.LINK, 2), (Cause.WRONG, 1)]
    assert report.table(RESULTS).splitlines()[-2:] == ["    2  link: missing symbol", "    1  run: wrong result"]


def test_page_is_a_table_that_markdown_reads() -> None:
    page = report.page([report.Corpus("some", RESULTS, 7)], "a device")
    assert "| some |  | 4 | 7 | 1 | 0 | 0 | 0 | 3 |" in page
    assert "| link: missing symbol | 2 | `cudaFoo` (2) |" in page
    assert "| d | failed | `run: wrong result: a / b 'c'` |" in page


def test_page_keeps_corpora_that_were_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "remarks", lambda: {"some": {"d": "races"}})
    others = (
        Result("x/y", "make", Status.RAN, Cause.NONE, "with lanes in step", 1.0, 1.0),
        Result("z", "make", Status.FAILED, Cause.BUILD_TIME, "after 300 s", 1.0, 1.0),
        Result("zz", "make", Status.FAILED, Cause.BUILD, "l" * 120, 1.0, 1.0),
        Result("zzz", "make", Status.FAILED, Cause.BUILD, "a word " * 20, 1.0, 1.0),
    )
    old = [
        report.Corpus("some", RESULTS, 7, day="2026-11-20"),
        report.Corpus("more", others, 0, "sample of 3 of 9, seed 5", "2026-11-21"),
    ]
    page = report.page(old, "a device")
    assert report.page(report.read_page(page), "a device") == page
    fresh = report.Corpus("some", RESULTS[:1], day="2026-11-23")
    new = report.page(report.composed([fresh, report.Corpus("last", RESULTS)], report.read_page(page)), "a device")
    assert [line for line in new.splitlines() if line.startswith("## ")] == [
        "## Why programs do not pass",
        "## some",
        "## more (sample of 3 of 9, seed 5)",
        "## last",
    ]
    assert "| some | 2026-11-23 | 1 |  | 1 | 0 | 0 | 0 | 0 |" in new
    assert "| more (sample of 3 of 9, seed 5) | 2026-11-21 | 4 |  | 0 | 1 | 0 | 0 | 3 |" in new
    assert "| zzz | failed | `build: other: a word" in new
    assert " word...` |" in new


def test_amended_corpus_keeps_programs_that_were_not_tried() -> None:
    earlier = report.Corpus("some", RESULTS, 2, "sample of 6 of 9, seed 5", "2026-11-21")
    mended = Result("d", "make", Status.PASSED, Cause.NONE, "", 1.0, 1.0)
    added = Result("bb", "make", Status.RAN, Cause.NONE, "", 1.0, 1.0)
    found = report.amended(report.Corpus("some", (mended, added), day="2026-11-24"), earlier)
    assert [result.name for result in found.results] == ["a", "b", "bb", "c", "d"]
    assert (found.results[2], found.results[4], found.results[0]) == (added, mended, RESULTS[0])
    assert (found.sample, found.untried, found.day) == ("sample of 6 of 9, seed 5", 1, "2026-11-24")


def test_page_is_written_anew_without_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(report.page([report.Corpus("some", RESULTS)], "the software GPU with 2 processing elements"))
    monkeypatch.setattr(report, "remarks", lambda: {"some": {"d": "races"}})
    write(tmp_path / "bin/nvcc")
    assert main(["--page", str(page), "--toolkit", str(tmp_path)]) == 0
    assert "`run: wrong result: a / b 'c'` its own: races" in page.read_text()
    with pytest.raises(SystemExit):
        arguments([])


def test_published_page_is_one_that_can_be_read() -> None:
    text = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    programs = report.page(report.read_page(text), "the software GPU with 2 processing elements")
    assert programs + frameworks.kept(text) == text


def test_page_says_whose_fault_a_failure_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "remarks", lambda: {"some": {"a": "unused", "d": "races"}})
    library = Result("e", "make", Status.FAILED, Cause.LIBRARY, "CUDA::nvrtc", 1.0, 0)
    excluded = Result("f", "make", Status.EXCLUDED, Cause.OUTSIDE, "GL", 1.0, 0)
    page = report.page([report.Corpus("some", (*RESULTS, library, excluded))], "a device")
    assert "| d | failed | `run: wrong result: a / b 'c'` its own: races |" in page
    assert "| a | passed |  |" in page
    assert "some: 1 of 5 programs that are not excluded end well (20 %; 25 % of those without faults)." in page
    assert "Of the others, 1 need parts of CUDA" in page
    assert "1 have faults of their own, 2 fail by us or by time" in page


def test_remarks_are_about_corpora_and_programs() -> None:
    assert {"PolyBench-GPU", "rodinia"} <= set(report.remarks())


def test_interrupted_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    lines = [json.dumps(result.record()) for result in RESULTS]
    file.write_text("\n".join(lines) + '\n{"name": "e", "how')
    programs = [Program(name, tmp_path, "make") for name in "abcde"]
    assert list(known(file, programs, arguments(["x"]))) == ["a", "b", "c", "d"]
    assert list(known(file, programs, arguments(["x", "--retry", "cudaFoo"]))) == ["a", "d"]
    assert not known(file, programs, arguments(["x", "--again"]))


# ---- smaller runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ('printf("Usage: %s <number of points> <repeat>\\n", argv[0]);', [2]),
        ('std::cout << "Usage: " << argv[0] << " <n> <m> <iterations>" << std::endl;', [3]),
        ('printf("Usage: %s <width> "\n  "<number of iterations>\\n", argv[0]);', [2]),
        ('fprintf(stderr, "usage: %s -n <repeat>", argv[0]);', []),
        ('printf("Usage: %s <time steps>\\n", argv[0]);', []),
        ("const int repeat = atoi(argv[3]);", [3]),
        ("int numIterations = std::stoi(argv[1]);", [1]),
        ("int width = atoi(argv[1]);", []),
    ],
)
def test_repeat_counts_are_found_by_what_programs_call_them(tmp_path: Path, source: str, places: list[int]) -> None:
    (tmp_path / "main.cu").write_text(source)
    assert shrink.repeat_places(tmp_path) == places


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["./main", "4096", "100"], ["./main", "4096", "1"]),
        (["./main", "4096", "file.txt"], ["./main", "4096", "file.txt"]),
        (["./main", "4096", "0"], ["./main", "4096", "0"]),
        (["./main", "--repeat", "200"], ["./main", "--repeat", "1"]),
        (["./main", "--iterations=50", "-n=7"], ["./main", "--iterations=1", "-n=7"]),
    ],
)
def test_repeat_counts_become_one(words: list[str], result: list[str]) -> None:
    assert shrink.shrunk(words, [2]) == result


def test_large_numbers_are_divided_and_small_ones_stay() -> None:
    words = ["./main", "8192", "256", "x1024.bin", "50000", "1000"]
    assert shrink.shrunk(words, [4], 16) == ["./main", "512", "256", "x1024.bin", "1", "62"]


@pytest.mark.parametrize(
    ("source", "status"), [("exit 0", Status.RAN), ("test $1 -gt 99", Status.RAN), ("exit 3", Status.FAILED)]
)
def test_small_data_are_tried_first_and_all_of_it_if_they_do_not_do(
    tmp_path: Path, source: str, status: Status
) -> None:
    (tmp_path / "Makefile").write_text("main:\nrun:\n\t$(LAUNCHER) /bin/sh program.sh 1600\n")
    (tmp_path / "program.sh").write_text(source)
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY, is_shrunk=True)
    found = trials.run(Program("one", tmp_path, "make"), Guest(dict(os.environ)))
    assert found.status is status
    assert found.detail.startswith(
        "run with program.sh 100" if source == "exit 0" else "" if status is Status.RAN else "2:"
    )


def test_target_run_is_launched_with_fewer_repeats(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("run:\n\t$(LAUNCHER) /bin/echo got 1000 1000\n")
    (tmp_path / "main.cu").write_text('printf("Usage: %s <what> <n> <repeat>", argv[0]);')
    command = corpus.command(Program("echo", tmp_path, "make"), tmp_path, divisor=1)
    assert command is not None
    ran = run(["/bin/sh", "-c", command], tmp_path, tmp_path / "run.txt", (PLENTY, Guest(dict(os.environ))))
    assert "\ngot 1000 1\n" in ran.output


def test_programs_that_were_only_built_are_left_to_run(tmp_path: Path) -> None:
    built = Result("one", "make", Status.BUILDS, Cause.NONE, "", 1.0, 0.0)
    (tmp_path / "results").write_text(json.dumps(built.record()) + "\n")
    programs = [Program("one", tmp_path, "make")]
    assert not known(tmp_path / "results", programs, arguments([str(tmp_path)]))
    assert known(tmp_path / "results", programs, arguments(["--build-only", str(tmp_path)]))


def test_program_whose_data_set_is_kept_elsewhere_is_excluded(tmp_path: Path) -> None:
    folder, data = tmp_path / "one", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / "Makefile").write_text("main:\nrun:\n\tcat ../data/words.txt\n")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    program = Program("one", folder, "make")
    assert corpus.absent_data(program) is None
    (data / "words.tar.gz.dvc").write_text("")
    found = trials.run(program, Guest(dict(os.environ)))
    assert (found.status, found.cause, found.detail) == (Status.EXCLUDED, Cause.FILE, "words.tar.gz")
    (data / "words.tar.gz").write_text("")
    assert corpus.absent_data(program) is None


@pytest.mark.parametrize("code", [0, 2])
def test_wrong_result_after_an_error_of_the_device_is_told_as_that(code: int) -> None:
    found = verdict.of_run(Finished(code, "FAIL"), "program[7]: cudaErrorLaunchFailure: FAULT: deadlock")
    assert found.cause is Cause.RUNTIME
    assert "deadlock" in found.detail


def test_wrong_result_of_a_file_that_is_not_there_is_the_files_fault() -> None:
    found = verdict.of_run(Finished(0, "sort: cannot read: ../data/a: No such file or directory\nTest FAILED!"))
    assert (found.status, found.cause) == (Status.EXCLUDED, Cause.FILE)


def test_program_that_met_a_replaced_worker_is_run_again(tmp_path: Path) -> None:
    guest = Guest(dict(os.environ) | {"VGC_STATE_DIR": str(tmp_path)})
    said = f"cudaErrorDevicesUnavailable > {guest.last_error}"
    (tmp_path / "Makefile").write_text(
        f"main:\nrun:\n\tif test -e again; then echo PASS; else touch again; echo {said}; echo FAIL; fi\n"
    )
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    assert trials.run(Program("one", tmp_path, "make"), guest).status is Status.PASSED


def test_program_that_ends_badly_without_a_file_of_its_arguments_is_excluded(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("main:\nrun:\n\t$(LAUNCHER) /bin/sh program.sh -n 3 data/words.txt\n")
    (tmp_path / "program.sh").write_text("exit 3")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    program, guest = Program("one", tmp_path, "make"), Guest(dict(os.environ))
    found = trials.run(program, guest)
    assert (found.status, found.cause, found.detail) == (Status.EXCLUDED, Cause.FILE, "data/words.txt")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("")
    assert trials.run(program, guest).cause is Cause.EXIT


def test_file_among_the_arguments_of_a_script_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("main:\n")
    (tmp_path / "run").write_text("./program.sh ../data/words.txt\n")
    (tmp_path / "program.sh").write_text("#!/bin/sh\nkill -SEGV $$\n")
    (tmp_path / "program.sh").chmod(0o755)
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY)
    found = trials.run(Program("one", tmp_path, "make"), Guest(dict(os.environ)))
    assert (found.status, found.cause, found.detail) == (Status.EXCLUDED, Cause.FILE, "../data/words.txt")


@pytest.mark.parametrize("text", ["Usage: dwt [options] image", "Please supply src file name\n -b depth"])
def test_program_that_asks_for_arguments_is_excluded(text: str) -> None:
    found = verdict.of_run(Finished(255, text))
    assert (found.status, found.cause) == (Status.EXCLUDED, Cause.ARGUMENTS)


def test_wrong_that_is_said_of_a_file_is_the_files_fault() -> None:
    found = verdict.of_run(Finished(0, "Failed to open ../data/lp1.mtx."))
    assert (found.status, found.cause) == (Status.EXCLUDED, Cause.FILE)


def test_arguments_of_ones_own_take_the_place_of_the_makefiles(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("main:\nrun:\n\t$(LAUNCHER) /bin/sh program.sh 1600\n")
    (tmp_path / "program.sh").write_text('test "$1 $2" = "5 a b"')
    guest, program = Guest(dict(os.environ)), Program("one", tmp_path, "make")
    trials = Trials(tmp_path, tmp_path / "work", tmp_path, PLENTY, PLENTY, given={"one": "program.sh 5 'a b'"})
    assert trials.run(program, guest).status is Status.FAILED
    found = replace(trials, is_shrunk=True).run(program, guest)
    assert (found.status, found.detail) == (Status.RAN, "run with program.sh 5 a b")


def test_arguments_are_about_corpora_and_programs() -> None:
    assert shrink.given("HeCBench")
    assert shrink.given("another") == {}


# ---- samples -------------------------------------------------------------------------------------


def programs_of(folder: Path, names: str) -> list[Program]:
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "Makefile").write_text("main:\nrun:\n\techo PASS\n")
        (folder / name / "main.cu").write_text("")
    return corpus.find(folder)


def test_sample_is_the_same_for_the_same_seed_only(tmp_path: Path) -> None:
    programs = programs_of(tmp_path, "abcdefghijkl")
    drawn = Sample(4, 1).draw(programs)
    assert len(drawn) == 4
    assert drawn == Sample(4, 1).draw(reversed(programs))[::-1]
    assert drawn != Sample(4, 2).draw(programs)
    assert set(drawn) < set(Sample(5, 1).draw(programs))


def test_sample_that_loses_a_program_that_was_not_drawn_stays(tmp_path: Path) -> None:
    programs = programs_of(tmp_path, "abcdefghijkl")
    drawn = Sample(4, 1).draw(programs)
    left_out = next(program for program in programs if program not in drawn)
    assert Sample(4, 1).draw(program for program in programs if program != left_out) == drawn


@pytest.mark.parametrize(
    "line", ["CC = mpicxx", "LDFLAGS += -L/usr/lib -lmpi", "MPI_ROOT = /usr", "run:\n\tmpirun ./main"]
)
def test_program_that_needs_mpi_is_told_by_its_makefile(tmp_path: Path, line: str) -> None:
    (program,) = programs_of(tmp_path, "a")
    assert not needs_mpi(program)
    (program.folder / "Makefile").write_text(f"{line}\n")
    assert needs_mpi(program)


def test_sample_holds_for_later_runs_until_it_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "sample.json"
    assert kept(file, None) is None
    assert kept(file, Sample(3, 8)) == Sample(3, 8)
    assert kept(file, None) == Sample(3, 8)
    assert kept(file, Sample(0, 0)) is None
    assert kept(file, None) is None


def test_sample_is_tried_without_programs_of_mpi_and_says_so(tmp_path: Path) -> None:
    folder, work = tmp_path / "some", tmp_path / "work"
    folder.mkdir()
    programs_of(folder, "abcd")
    (folder / "b" / "Makefile").write_text("CC = mpicc\nmain:\nrun:\n\techo PASS\n")
    guests = [Guest(dict(os.environ))]
    words = [str(folder), "--work", str(work), "--toolkit", str(tmp_path)]
    tried = try_corpus(folder, guests, arguments([*words, "--sample", "2", "--seed", "5"]))
    assert (len(tried.results), tried.untried, tried.sample) == (2, 0, "sample of 2 of 3, seed 5")
    assert "b" not in {result.name for result in tried.results}
    assert tried.day == tried.results[0].day > "2026"
    assert try_corpus(folder, guests, arguments(words)) == tried
    assert "## some (sample of 2 of 3, seed 5)" in report.page([tried], "a device")
