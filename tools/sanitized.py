"""Runs tests on C code built with AddressSanitizer and UndefinedBehaviorSanitizer.

The tree is mirrored to ``build/asan`` and built there, so that ordinary and sanitized modules never mix. Python is not
sanitized itself: the runtimes are preloaded, and leaks are not looked for, as Python keeps memory until it exits. Nor
is thread-local memory followed, which only that search needs: gcc 12's runtime may read its list of it when a thread has
ended and the list is no longer there.

``python -m tools.sanitized [pytest arguments]``; without arguments, the unit and protocol tests. The names of those that
pass are then in `PASSED`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.common import BUILD, REPOSITORY, say

MIRROR: Final = BUILD / "asan"
PASSED: Final = BUILD / "asan-passed"
SANITIZERS: Final = "address,undefined"
RUNTIMES: Final = ("libasan.so", "libubsan.so")
BEHIND_WALLS: Final = (
    "tests/protocol/test_takeover.py",
    "tests/protocol/test_vgcd.py::test_idle_daemon_sleeps",
    "tests/protocol/test_worker.py::test_a_strict_sandbox_serves_requests",
    "tests/protocol/test_worker_recovery.py::test_a_fault_in_a_strict_sandbox_is_reported",
)
"""Tests that do not run under sanitizers: their workers are in the strict sandbox, which denies AddressSanitizer its
terabytes of address space and its system calls."""

WITHOUT_OUR_C: Final = (
    "tests/unit/test_bench_guest.py",
    "tests/unit/test_centre_*.py",
    "tests/unit/test_cloud_vm.py",
    "tests/unit/test_control_config.py",
    "tests/unit/test_control_firmware*.py",
    "tests/unit/test_control_frames.py",
    "tests/unit/test_control_selector.py",
    "tests/unit/test_control_versions.py",
    "tests/unit/test_daemon_link.py",
    "tests/unit/test_keeper.py",
    "tests/unit/test_kubernetes*.py",
    "tests/unit/test_libvirt*.py",
    "tests/unit/test_load_*.py",
    "tests/unit/test_recorder*.py",
    "tests/unit/test_vgcctl*.py",
    "tests/unit/test_web_*.py",
    "tests/unit/test_cpu_narrow_floats.py",
    "tests/unit/test_cuda_compile*.py",
    "tests/unit/test_cuda_cubin.py",
    "tests/unit/test_cuda_probe.py",
    "tests/unit/test_cuda_signature*.py",
    "tests/unit/test_gpu_kit.py",
    "tests/unit/test_gpu_packages.py",
    "tests/unit/test_gpu_tool.py",
    "tests/unit/test_gpu_verdict.py",
    "tests/protocol/test_gpu_rehearsal.py",
    "tests/unit/test_compat.py",
    "tests/unit/test_installation.py",
    "tests/unit/test_build_paths.py",
    "tests/unit/test_guest_cudnn.py",
    "tests/unit/test_guest_exec.py",
    "tests/unit/test_mynvcc*.py",
    "tests/protocol/test_debs.py",
    "tests/protocol/test_device_plugin.py",
    "tests/protocol/test_hook_sidecar.py",
    "tests/protocol/test_cuda_bindings.py",
    "tests/protocol/test_cuda_libraries.py",
    "tests/protocol/test_cuda_libraries_by_name.py",
    "tests/protocol/test_ptx_versions.py",
    "tests/protocol/test_cuda_programs.py",
    "tests/protocol/test_bench_cublas.py",
    "tests/protocol/test_frameworks.py",
    "tests/protocol/test_frameworks_on_cuda.py",
    "tests/protocol/test_further_frameworks.py",
    "tests/protocol/test_pytorch.py",
    "tests/protocol/test_vgc_trace.py",
    "tests/protocol/test_windows_guest.py",
    "tests/protocol/test_cupy.py",
    "tests/protocol/test_cudart_alone.py",
    "tests/protocol/test_cudart_either.py",
    "tests/protocol/test_cudart_errors.py",
    "tests/protocol/test_cudart_fork.py",
    "tests/protocol/test_cudart_graphs.py",
    "tests/protocol/test_cudart_memory.py",
    "tests/protocol/test_cudart_nvcc.py",
    "tests/protocol/test_cudart_races.py",
    "tests/protocol/test_cudart_releases.py",
    "tests/protocol/test_cudart_sharing.py",
    "tests/protocol/test_cudart_static.py",
    "tests/protocol/test_cudart_streams.py",
    "tests/protocol/test_shadow_programs.py",
)
"""Tests that use no C code of ours that others do not use, or clang or NVIDIA's compilers, which do not run with preloaded sanitizers."""

DEFAULT_TESTS: Final = (
    *("-p", "tests.passed", f"--record-passed={PASSED}"),
    *("-q", "-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "--max-worker-restart", "0"),
    *("tests/unit", "tests/protocol"),
    *(f"--deselect={name}" for name in BEHIND_WALLS),
    *(f"--ignore-glob={pattern}" for pattern in WITHOUT_OUR_C),
)
ENVIRONMENT: Final = {
    "VGC_SANITIZE": SANITIZERS,
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:intercept_tls_get_addr=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


def main(arguments: list[str]) -> int:
    """Mirrors, builds and tests; returns the exit code of the build if it failed, else pytest's."""
    mirror_tree()
    environment = os.environ | ENVIRONMENT
    built = subprocess.run([sys.executable, "-m", "tools.build"], cwd=MIRROR, env=environment, check=False)
    if built.returncode != 0:
        return built.returncode
    say(f"running tests under {SANITIZERS}")
    argv = [sys.executable, "-m", "pytest", *(arguments or DEFAULT_TESTS)]
    preload = {"LD_PRELOAD": " ".join(runtime_path(name) for name in RUNTIMES)}
    return subprocess.run(argv, cwd=MIRROR, env=environment | preload, check=False).returncode


def runtime_path(name: str) -> str:
    """Path of a sanitizer's runtime library."""
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def mirror_tree() -> None:
    """Updates the mirror with the files of the working tree that git tracks or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    names = {name for name in listing.split("\0") if name and (REPOSITORY / name).is_file()}
    listed = MIRROR / "mirrored"
    for gone in set(listed.read_text().split("\0") if listed.exists() else []) - names:
        (MIRROR / gone).unlink(missing_ok=True)
    for name in names:
        copy_if_newer(REPOSITORY / name, MIRROR / name)
    listed.write_text("\0".join(sorted(names)))


def copy_if_newer(source: Path, target: Path) -> None:
    if not target.exists() or target.stat().st_mtime_ns != source.stat().st_mtime_ns:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
