"""Each fuzz target runs for a few seconds from the committed corpus, and detects planted bugs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz import mutation
from tests.limits import HANGS_AFTER_S
from tools import fuzz
from vhost_backend.compiler import cache
from vhost_backend.config import daemon
from vhost_backend.control.api import commands
from vhost_backend.worker_protocol import codec

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
SECONDS: Final = 2
PYTHON_SECONDS: Final = 1
TARGETS: Final = ("vring", "dataplane", "image", "ptx", "lowering", "pci", "driver")
FAST: Final = ("vring", "dataplane", "image", "ptx", "pci", "driver")


def fuzzer_runtime() -> Path | None:
    """Path of LibFuzzer's library, if clang-19 has one."""
    if not shutil.which("clang-19"):
        return None
    asked = subprocess.run(
        ["clang-19", "-print-resource-dir"], capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S
    )
    found = sorted(Path(asked.stdout.strip()).glob("lib/**/libclang_rt.fuzzer-*.a"))
    return found[0] if found else None


needs_runtime = pytest.mark.skipif(
    fuzzer_runtime() is None, reason="clang-19 has no fuzzer runtime here: install libclang-rt-19-dev"
)


def make(*arguments: str, folder: Path = HERE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", "-C", folder, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )


def test_every_target_of_the_makefile_is_run_here() -> None:
    assert make("list").stdout.split() == list(TARGETS)
    assert make("list-fast").stdout.split() == list(FAST)
    assert {each.name for each in fuzz.TARGETS} == {*TARGETS, *mutation.TARGETS}


@needs_runtime
@pytest.mark.parametrize("target", TARGETS)
def test_target_finds_no_error_in_its_corpus_and_some_seconds(target: str) -> None:
    run = make(f"run-{target}", f"SECONDS={SECONDS}")

    assert run.returncode == 0, run.stdout[-4000:]
    assert "INFO: seed corpus: files: 0" not in run.stdout
    assert "Done " in run.stdout


@needs_runtime
@pytest.mark.parametrize("target", [name for name in FAST if name != "ptx"])  # which takes long to build
def test_target_without_sanitizers_finds_no_error_in_its_corpus(target: str) -> None:
    run = make(f"fast-{target}", "OPTIONS=-runs=0")

    assert run.returncode == 0, run.stdout[-4000:]
    assert "Done " in run.stdout


PLANTED_BUGS: Final = {
    "head popped twice": (
        "vring",
        "virtio_proto/src/vring.c",
        "head >= vq->ring.num || is_inflight(vq, head)",
        "head >= vq->ring.num",
    ),
    "span beyond the region": (
        "vring",
        "virtio_proto/src/vring.c",
        "offset < region->size && len != 0 && len <= region->size - offset",
        "offset < region->size && len != 0",
    ),
    "head pushed twice": (
        "vring",
        "virtio_proto/src/vring.c",
        "vq->inflight[head / 64] &= ~(UINT64_C(1) << (head % 64));",
        "",
    ),
    "memory of another size": (
        "dataplane",
        "vhost_backend/dataplane/memory.c",
        "size <= alloc->size - offset",
        "size <= alloc->size",
    ),
    "block of any size": (
        "dataplane",
        "vhost_backend/dataplane/launch.c",
        "threads == 0 || threads > max_threads_of(kernel)",
        "threads > max_threads_of(kernel)",
    ),
    "quota not given back": (
        "dataplane",
        "vhost_backend/dataplane/memory.c",
        "dp->memory_used -= alloc->charged;",
        "",
    ),
    "graph not checked again": (
        "dataplane",
        "vhost_backend/dataplane/plan.c",
        "if (VGC_LIKELY(plan->checked == dp->removals))",
        "if (plan->num_nodes != 0)",
    ),
    "memory closed while it is used": (
        "dataplane",
        "vhost_backend/dataplane/sharing.c",
        "vgc_line_wait(dp, req, close_now);",
        "close_now(dp, req);",
    ),
    "relocation of any symbol": (
        "image",
        "vhost_backend/engines/cpu/loader.c",
        "index >= loader->num_symbols",
        "index == UINT32_MAX",
    ),
    "relocation of code": (
        "image",
        "vhost_backend/engines/cpu/loader.c",
        "if (!is_writable(loader, entry->r_offset, sizeof(uint64_t)))",
        "if (!is_writable(loader, entry->r_offset, 0) && part(loader, entry->r_offset, 8, 1) == NULL)",
    ),
    "name anywhere": (
        "image",
        "vhost_backend/engines/cpu/loader.c",
        "const char *first = part(loader, offset, 1, 1);",
        "const char *first = (const char *)loader->base + offset;",
    ),
    "table that points anywhere": (
        "image",
        "vhost_backend/engines/cpu/loader.c",
        "if (!is_sound(loader, *image))",
        "if (!is_sound(loader, *image) && (*image)->num_kernels > 1u << 16)",
    ),
    "lines of a section that is not in the file": (
        "image",
        "vhost_backend/engines/cpu/lines.c",
        "if (offset > elf->file_size || size > elf->file_size - offset)",
        "if (offset > elf->file_size)",
    ),
    "symbols that are not in the file": (
        "image",
        "vhost_backend/engines/cpu/symbols.c",
        "return sections[i].sh_offset % 8 == 0 && is_in_file(elf, *symbols) && is_in_file(elf, *names);",
        "return sections[i].sh_offset % 8 == 0 && is_in_file(elf, *names);",
    ),
    "capability shorter than its registers": (
        "pci",
        "guest_driver/libvgc/src/virtio_areas.c",
        "length < AREAS[type].bytes || ",
        "",
    ),
    "capability at an odd place": (
        "pci",
        "guest_driver/libvgc/src/virtio_areas.c",
        " || offset % AREAS[type].align != 0",
        "",
    ),
    "queue notified outside of the area": (
        "pci",
        "guest_driver/libvgc/src/virtio_start.c",
        " || place + sizeof(uint16_t) > pci->notify_bytes",
        "",
    ),
    "request on a broken queue": (
        "driver",
        "guest_driver/libvgc/src/message.c",
        "if (queue->broken) /* since the slot was reserved */",
        "if (queue->broken && queue->num_slots == 0)",
    ),
    "answer of any size": (
        "driver",
        "guest_driver/libvgc/src/program.c",
        "load.room <= device->transport->region_bytes ?",
        "load.room != 0 ?",
    ),
    "function table longer than the payload": (
        "driver",
        "guest_driver/libvgc/src/program.c",
        "log_at > len ||",
        "",
    ),
    "lost requests not answered": (
        "dataplane",
        "vhost_backend/dataplane/inflight.c",
        "answer_lost(dp, queue, (uint16_t)head);",
        "(void)answer_lost;",
    ),
}


@needs_runtime
@pytest.mark.parametrize(("target", "source", "sound", "planted"), PLANTED_BUGS.values(), ids=PLANTED_BUGS)
def test_corpus_detects_a_planted_bug(tmp_path: Path, target: str, source: str, sound: str, planted: str) -> None:
    mirror = tmp_path / "tree"
    for folder in (
        "virtio_proto",
        "vhost_backend/dataplane",
        "vhost_backend/builtins",
        "vhost_backend/engines/cpu",
        "kernels/control",
        "kernels/cpu/include",
        "guest_driver/libvgc",
        "tests/fuzz",
    ):
        shutil.copytree(ROOT / folder, mirror / folder, ignore=shutil.ignore_patterns("build"))
    text = (mirror / source).read_text()
    assert text.count(sound) == 1, "the planted bug no longer fits the source"
    (mirror / source).write_text(text.replace(sound, planted))

    program = tmp_path / f"fuzz_{target}"
    built = make(f"BUILD={tmp_path}", str(program), folder=mirror / "tests/fuzz")
    assert built.returncode == 0, built.stdout
    replayed = subprocess.run(
        [program, "-runs=0", f"-artifact_prefix={tmp_path}/", HERE / "corpus" / target],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )
    assert replayed.returncode != 0
    assert "ERROR: " in replayed.stderr or "SUMMARY: UndefinedBehaviorSanitizer" in replayed.stderr


# ---- in Python -----------------------------------------------------------------------------------


def run_python(target: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.mutation", target, *arguments, f"--folder={folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
    )


@pytest.mark.parametrize("target", mutation.TARGETS)
def test_python_target_finds_no_error_in_some_seconds(target: str, tmp_path: Path) -> None:
    done = run_python(target, tmp_path, f"--seconds={PYTHON_SECONDS}")

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Done " in done.stdout


PYTHON_BUGS: Final[dict[str, tuple[object, str, object]]] = {
    "worker_link": (codec, "close_fds", lambda _fds: None),
    "control_frames": (commands, "request_of", lambda verb, values: verb.Request(**values)),
    "disk_cache": (cache, "_parse", lambda _key, content: ("", content[76:])),
    "configuration": (daemon, "wrong_cores", lambda vm: vm.quota.cores.nothing),
}


def test_every_python_target_has_a_planted_bug() -> None:
    assert set(PYTHON_BUGS) == set(mutation.TARGETS)


@pytest.mark.parametrize("target", mutation.TARGETS)
def test_python_target_detects_a_planted_bug_and_keeps_its_input(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, name, planted = PYTHON_BUGS[target]
    with monkeypatch.context() as patch:
        patch.setattr(module, name, planted)
        status = mutation.Fuzzer(target, tmp_path, seed=1).go_on()

    assert status == mutation.CRASH_STATUS
    (crash,) = tmp_path.glob("crash-*")
    assert f"Test unit written to {crash}" in capsys.readouterr().out
    repeated = run_python(target, tmp_path, str(crash))
    assert repeated.returncode == 0, "the bug is planted in this process alone"
