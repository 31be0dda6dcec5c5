"""Frontends of vhost-user that Debian has beside QEMU and User-Mode Linux: libblkio's, and that of rust-vmm, compiled here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tools import debian
from tools.common import cached, digest_of

SUITE: Final = "trixie"
BLKIO: Final = "libblkio-dev"
RUST: Final = ("librust-vhost-dev", "librust-vmm-sys-util-dev", "cargo", "rustc", "gcc", "libc6-dev")
RUST_FRONTEND: Final = Path(__file__).parent / "rust_frontend"
_REGISTRY: Final = """[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "/usr/share/cargo/registry"
"""
_TARGET: Final = "x86_64-unknown-linux-gnu"
_NULL: Final = os.makedev(1, 3)


def libblkio() -> Path:
    """Folder with libblkio, its header and all that it needs."""

    def make(folder: Path) -> None:
        with debian.private_apt(SUITE) as apt:
            debian.unpack(apt.fetch([BLKIO]), folder)

    return cached("libblkio", digest_of([Path(debian.__file__)]), f"a root with Debian's {BLKIO}", make)


def build_blkio(source: Path, program: Path) -> list[str]:
    """Compiles a C program with libblkio; returns the command that runs it with libblkio's own C library."""
    root = libblkio()
    libraries = root / "usr/lib/x86_64-linux-gnu"
    words = ["cc", f"-I{root / 'usr/include'}", source, "-o", program, libraries / "libblkio.so.1"]
    subprocess.run([*map(str, words), "-Wl,--allow-shlib-undefined"], check=True)
    return [str(root / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(program)]


def rust_frontend() -> Path:
    """Program of `RUST_FRONTEND`, linked statically; compiled with Debian's crates in a root of its own. Takes root's rights."""
    sources = [Path(debian.__file__), *(path for path in RUST_FRONTEND.rglob("*") if path.is_file())]
    return cached("rust", digest_of(sources), "a frontend of rust-vmm's", _build_rust) / "rust-frontend"


def _build_rust(folder: Path) -> None:
    root = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(root, ignore_errors=True)
    with debian.private_apt(SUITE) as apt:
        debian.unpack(apt.fetch(RUST), root)
    for name in ("dev", "cargo", "tmp"):
        (root / name).mkdir(exist_ok=True)
    os.mknod(root / "dev/null", 0o020666, _NULL)
    (root / "usr/bin/cc").symlink_to("gcc")
    (root / "cargo/config.toml").write_text(_REGISTRY)
    shutil.copytree(RUST_FRONTEND, root / "source")
    words = ["build", "--offline", "--quiet", "--manifest-path", "/source/Cargo.toml", "--target-dir", "/built"]
    words += ["--target", _TARGET]  # flags are for the program alone then, not for what compiles it
    environment = {"PATH": os.defpath + ":/usr/sbin:/sbin", "CARGO_HOME": "/cargo", "HOME": "/cargo"}
    environment["RUSTFLAGS"] = "-C target-feature=+crt-static -D warnings"
    enter = ["unshare", "--mount", "--pid", "--fork", "chroot", str(root), "/usr/bin/cargo"]
    subprocess.run([*enter, *words], check=True, env=environment)
    folder.mkdir()
    shutil.copy(root / "built" / _TARGET / "debug/rust-frontend", folder)
    shutil.rmtree(root)
