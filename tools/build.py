"""Compiles the C parts that have changed, in place: cffi modules, libvgc, compiler tool, sandbox launcher.

Each part has one build script or Makefile. The contents of its sources decide whether it is up to date, so a checkout
or a touched file costs nothing. ``VGC_SANITIZE`` (say ``address,undefined``) is passed on to the build scripts and
counts as a change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.common import REPOSITORY, die, digest_of, say

SOURCE_SUFFIXES: Final = frozenset({".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".py", ".ll", ".map", ".mk"})
WIRE: Final = ("virtio_proto/include", "virtio_proto/src", "virtio_proto/schema.py", "virtio_proto/codegen.py")


@dataclass(frozen=True, slots=True)
class Part:
    """Part to build; `sources` are folders and files relative to the repository."""

    name: str
    script: str
    """Python build module, or folder with a Makefile."""
    sources: tuple[str, ...]
    products: tuple[str, ...]
    """Patterns of the files that it makes: missing products are built again."""
    watched: tuple[str, ...] = ()
    """Patterns of files of this Python environment that it is made from, too."""
    is_local: bool = False
    """It serves those who work from this tree alone: it is neither packaged nor built with sanitizers."""
    levels: tuple[str, ...] = ()
    """Levels of x86-64 for which it is built, the best last; () if it is the same for all. In place, one is enough."""
    is_sanitized: bool = True
    """False for what our own compiler builds, which does not know the sanitizers."""

    def argv(self, sanitize: str, *, in_place: bool) -> list[str]:
        """Command that builds it; `in_place`: for this machine alone."""
        if self.script.endswith(".py"):
            return [sys.executable, "-m", self.script.removesuffix(".py").replace("/", ".")]
        make = ["make", "--silent", "--no-print-directory", f"-j{os.cpu_count() or 1}", "-C", self.script]
        if sanitize:
            return [*make, "SANITIZE=1", "BUILD=build"]
        return [*make, f"LEVELS={_best(self.levels)}"] if self.levels and in_place else make


PARTS: Final = (
    Part(
        "ring extension",
        "virtio_proto/build_vring.py",
        (*WIRE, "virtio_proto/build_vring.py"),
        ("virtio_proto/_vring*.so",),
    ),
    Part(
        "data plane extension",
        "vhost_backend/dataplane/build.py",
        (
            *WIRE,
            "vhost_backend/dataplane",
            "vhost_backend/builtins",
            "vhost_backend/channels",
            "vhost_backend/engines/cpu",
            "vhost_backend/engines/cuda",
            "kernels/cpu",
            "kernels/control",
        ),
        ("vhost_backend/_dataplane*.so",),
    ),
    Part(
        "CPU engine's compiler",
        "vhost_backend/engines/cpu/compiler",
        (
            "vhost_backend/engines/cpu/compiler",
            "vhost_backend/engines/cpu/vgc_cpu_abi.h",
            "vhost_backend/engines/cpu/vgc_cpu_symbols.h",
            "kernels/cpu",
            "kernels/control",
        ),
        (
            "vhost_backend/engines/cpu/compiler/build/vgc-cpucc",
            "vhost_backend/engines/cpu/compiler/build/preludes/stamp",
        ),
    ),
    Part(
        "precompiled headers of CUB and Thrust",
        "vhost_backend/engines/cpu/precompile.py",
        (
            "vhost_backend/engines/cpu/compiler",
            "vhost_backend/engines/cpu/precompile.py",
            "kernels/cpu",
            "kernels/control",
        ),
        ("vhost_backend/engines/cpu/compiler/build/cccl-preludes/done",),
        watched=("lib/python*/site-packages/nvidia/*/include/**/cuda/std/__cccl/version.h",),
        is_local=True,
    ),
    Part(
        "CPU engine's built-in functions",
        "vhost_backend/engines/cpu/builtins",
        ("vhost_backend/engines/cpu/builtins", "vhost_backend/builtins", "tools/ducc.py"),
        ("vhost_backend/engines/cpu/builtins/build/*/libvgc-builtins.so",),
        levels=("x86-64", "x86-64-v3", "x86-64-v4"),
    ),
    Part(
        "sandbox launcher",
        "vhost_backend/sandbox/build.py",
        ("vhost_backend/sandbox/launcher", "vhost_backend/sandbox/build.py"),
        ("vhost_backend/sandbox/vgc-launch", "vhost_backend/sandbox/libvgc-launch.so"),
    ),
    Part(
        "keeper",
        "vhost_backend/keeper/build.py",
        ("vhost_backend/keeper",),
        ("vhost_backend/keeper/vgc-keeper",),
    ),
    Part(
        "guest library",
        "guest_driver/libvgc",
        (*WIRE, "guest_driver/libvgc"),
        ("guest_driver/libvgc/build/libvgc.so", "guest_driver/libvgc/build/libvgc.so.1"),
    ),
    Part(
        "guest's CUDA runtime",
        "guest_driver/cuda/runtime",
        (*WIRE, "guest_driver/libvgc", "guest_driver/cuda/runtime", "kernels/cpu"),
        ("guest_driver/cuda/build/toolkit/lib64/libcudart.so.12",),
    ),
    Part(
        "guest's libcuda and NVRTC",
        "guest_driver/cuda/fronts",
        ("guest_driver/cuda/fronts", "guest_driver/cuda/runtime"),
        tuple(
            f"guest_driver/cuda/build/toolkit/lib64/{name}"
            for name in ("libcuda.so.1", "libcuda.so", "libnvrtc.so", "libnvJitLink.so")
        ),
    ),
    Part(
        "guest's NVTX library",
        "guest_driver/cuda/nvtx",
        ("guest_driver/cuda/nvtx", "guest_driver/cuda/runtime/marks/injection.c", "kernels/cpu/include/nvtx3"),
        ("guest_driver/cuda/build/toolkit/lib64/libnvToolsExt.so.1",),
    ),
    Part(
        "guest's CUDA compiler",
        "guest_driver/cuda/mynvcc",
        (
            "guest_driver/cuda/mynvcc",
            "guest_driver/cuda/include",
            "guest_driver/cuda/runtime/blob.h",
            "guest_driver/libvgc/vgc.h",
            "kernels/cpu/include",
        ),
        ("guest_driver/cuda/build/toolkit/bin/mynvcc", "guest_driver/cuda/build/toolkit/include/vgc_host_api.h"),
    ),
    Part(
        "guest's NVML library",
        "guest_driver/cuda/nvml",
        (
            *WIRE,
            "guest_driver/libvgc",
            "guest_driver/cuda/nvml",
            "guest_driver/cuda/nvml/refusals.awk",
            "guest_driver/cuda/nvml/refusals.txt",
            "guest_driver/cuda/runtime/errors",
        ),
        (
            "guest_driver/cuda/build/toolkit/lib64/libnvidia-ml.so.1",
            "guest_driver/cuda/build/toolkit/lib64/stubs/libnvidia-ml.so",
            "guest_driver/cuda/build/toolkit/include/nvml.h",
        ),
    ),
    Part(
        "guest's CUDA libraries",
        "guest_driver/cuda/libraries",
        (
            "guest_driver/cuda/libraries",
            "guest_driver/cuda/mynvcc",
            "guest_driver/cuda/include",
            "guest_driver/cuda/runtime",
            "kernels/cpu/include",
        ),
        (
            "guest_driver/cuda/build/toolkit/lib64/libcublas.so",
            "guest_driver/cuda/build/toolkit/include/cublas_v2.h",
            "guest_driver/cuda/build/toolkit/lib64/libcublasLt.so",
            "guest_driver/cuda/build/toolkit/lib64/libcufft.so",
            "guest_driver/cuda/build/toolkit/lib64/libcurand.so",
            "guest_driver/cuda/build/toolkit/lib64/libcusparse.so",
            "guest_driver/cuda/build/toolkit/lib64/libcusolver.so",
            "guest_driver/cuda/build/toolkit/lib64/libcudnn.so.9",
            "guest_driver/cuda/build/toolkit/include/cufft.h",
        ),
        is_sanitized=False,
    ),
)


def _best(levels: Sequence[str]) -> str:
    """The best of these levels of x86-64 that this machine has; the first if the loader does not tell."""
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    told = subprocess.run([loader, "--help"], check=False, capture_output=True, text=True).stdout
    return next((level for level in reversed(levels) if f"{level} (supported" in told), levels[0])


def build(root: Path = REPOSITORY) -> None:
    """Builds every part of the tree at `root` whose sources changed."""
    for part in PARTS:
        if (part.is_local or not part.is_sanitized) and os.environ.get("VGC_SANITIZE"):
            continue
        if not bring_up_to_date(part, root, in_place=True):
            argv = part.argv(os.environ.get("VGC_SANITIZE", ""), in_place=True)
            die(f"the {part.name} did not build", hint=f"its messages are above; alone: {' '.join(argv)}")


def bring_up_to_date(part: Part, root: Path = REPOSITORY, *, in_place: bool = False) -> bool:
    """Builds one part, if its sources changed; `in_place`: for this machine alone. False if that failed; its messages are
    on stderr.
    """
    sanitize = os.environ.get("VGC_SANITIZE", "")
    stamp = root / "build" / "hashes" / part.script.replace("/", ".")
    argv = part.argv(sanitize, in_place=in_place)
    watched = (path for pattern in part.watched for path in sorted(Path(sys.prefix).glob(pattern)))
    states = (f"{path} {path.stat().st_mtime_ns}" for path in watched)
    wanted = digest_of(_sources(root, part.sources), sanitize, " ".join(argv), *states)
    if stamp.exists() and stamp.read_text() == wanted and all(any(root.glob(p)) for p in part.products):
        return True
    say(f"building the {part.name}{' with ' + sanitize if sanitize else ''}")
    if subprocess.run(argv, cwd=root, check=False).returncode != 0:
        return False
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted)
    return True


def _sources(root: Path, names: Iterable[str]) -> list[Path]:
    """Source files among the folders and files `names`, without built files."""
    found: list[Path] = []
    for name in names:
        path = root / name
        found += [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if _is_source(p)]
    return found


def _is_source(path: Path) -> bool:
    built = "build" in path.parent.parts[-2:] or "__pycache__" in path.parts
    return path.is_file() and not built and (path.suffix in SOURCE_SUFFIXES or path.name == "Makefile")


if __name__ == "__main__":
    build()
