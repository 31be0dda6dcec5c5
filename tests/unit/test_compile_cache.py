"""The program cache returns the stored image or nothing, and never anything else."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from vhost_backend.compiler.cache import DiskCache, MemoryCache, Program, default_directory
from vhost_backend.compiler.job import CompileJob, CompileRequest
from vhost_backend.errors import HostError
from vhost_backend.fds import Fd
from vhost_backend.sandbox import memfd

JOB = CompileJob(("cc",), "in", "out", (), "cc 1.0")
REQUEST = CompileRequest("vm a", b"source", "CUDA_SOURCE", ("-O2", "-g"), JOB)
KEY = REQUEST.key()
OTHER_KEY = replace(REQUEST, source=b"other").key()


def program(image: bytes = b"image", log: str = "a warning\n") -> Program:
    return Program(Fd(memfd.sealed("test", image)), log)


def image_of(program: Program | None) -> bytes:
    assert program is not None
    return memfd.read(program.image.fileno(), 1 << 20)


def cached_file(directory: Path) -> Path:
    return directory / KEY


# Keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, domain="vm b"),
        replace(REQUEST, source=b"source2"),
        replace(REQUEST, kind="PTX"),
        replace(REQUEST, options=("-O2",)),
        replace(REQUEST, options=("-O2-g",)),
        replace(REQUEST, options=("-g", "-O2")),
        replace(REQUEST, job=replace(JOB, identity="cc 1.1")),
    ],
)
def test_key_depends_on_the_domain_and_everything_that_determines_the_image(other: CompileRequest) -> None:
    assert other.key() != KEY


def test_key_does_not_depend_on_the_compilers_path() -> None:
    assert replace(REQUEST, job=replace(JOB, argv=("/opt/cc",))).key() == KEY


# In memory ----------------------------------------------------------------------------------------


def key_of(domain: str, number: int) -> str:
    return replace(REQUEST, domain=domain, source=bytes([number])).key()


def test_memory_returns_the_stored_image() -> None:
    cache = MemoryCache()
    cache.put(KEY, program())
    assert image_of(cache.get(KEY)) == b"image"
    assert cache.get(OTHER_KEY) is None
    cache.close()


def test_memory_drops_and_closes_the_least_recently_used() -> None:
    cache = MemoryCache(max_programs=2)
    programs = {name: program(name.encode()) for name in ("a", "b", "c")}
    cache.put("a", programs["a"])
    cache.put("b", programs["b"])
    assert cache.get("a") is programs["a"]
    cache.put("c", programs["c"])
    assert cache.get("b") is None
    assert programs["b"].image.closed
    assert image_of(cache.get("a")) == b"a"
    cache.close()


def test_memory_of_other_domains_is_not_crowded_out() -> None:
    cache = MemoryCache(max_programs=4)
    cache.put(KEY, program())
    for n in range(20):
        cache.put(key_of("crowd", n), program())
    assert image_of(cache.get(KEY)) == b"image"
    assert [n for n in range(20) if cache.get(key_of("crowd", n)) is not None] == [17, 18, 19]
    cache.close()


def test_memory_is_bounded_in_bytes() -> None:
    cache = MemoryCache(max_bytes=1000)
    for name in ("a", "b", "c"):
        cache.put(name, program(bytes(600), log=""))
    assert len(cache) == 1
    cache.close()


# On disk ------------------------------------------------------------------------------------------


def test_disk_returns_stored_images_after_a_restart(tmp_path: Path) -> None:
    DiskCache(tmp_path).store(KEY, program(b"an image", "a log with ü\n"))
    found = DiskCache(tmp_path).load(KEY)
    assert found is not None
    assert (image_of(found), found.log) == (b"an image", "a log with ü\n")
    assert memfd.is_sealed(found.image.fileno())


def test_disk_has_no_image_that_was_not_stored(tmp_path: Path) -> None:
    assert DiskCache(tmp_path).load(KEY) is None


@pytest.mark.parametrize("position", [0, 8, 40, 72, 76, -1])
def test_damaged_file_is_found_and_deleted(tmp_path: Path, position: int) -> None:
    cache = DiskCache(tmp_path)
    cache.store(KEY, program())
    content = bytearray(cached_file(tmp_path).read_bytes())
    content[position] ^= 0x40
    cached_file(tmp_path).write_bytes(content)
    assert cache.load(KEY) is None
    assert cache.corrupt_entries == 1
    assert not cached_file(tmp_path).exists()


@pytest.mark.parametrize("size", [0, 10, 75, 80])
def test_truncated_file_is_found_and_deleted(tmp_path: Path, size: int) -> None:
    cache = DiskCache(tmp_path)
    cache.store(KEY, program())
    os.truncate(cached_file(tmp_path), size)
    assert cache.load(KEY) is None
    assert not cached_file(tmp_path).exists()


@pytest.mark.parametrize(("log_bytes", "log"), [(4, b"\xff\xfe\xfd\xfc"), (5, b"four")], ids=["not text", "too long"])
def test_file_with_a_forged_log_is_found_and_deleted(tmp_path: Path, log_bytes: int, log: bytes) -> None:
    disk = DiskCache(tmp_path)
    body = bytes.fromhex(KEY.replace("-", "")) + struct.pack("<I", log_bytes) + log
    cached_file(tmp_path).write_bytes(b"VGCPROG1" + hashlib.sha256(body).digest() + body)
    assert disk.load(KEY) is None
    assert disk.corrupt_entries == 1
    assert not cached_file(tmp_path).exists()


def test_file_under_another_programs_name_is_rejected(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.store(OTHER_KEY, program())
    (tmp_path / OTHER_KEY).rename(cached_file(tmp_path))
    assert cache.load(KEY) is None


def test_disk_drops_the_least_recently_used(tmp_path: Path) -> None:
    keys = [replace(REQUEST, source=bytes([n])).key() for n in range(3)]
    cache = DiskCache(tmp_path, max_bytes=50_000)
    for age, key in enumerate(keys[:2]):
        cache.store(key, program(bytes(20_000)))
        os.utime(tmp_path / key, (age, age))
    assert cache.load(keys[0]) is not None  # now the more recently used of the two
    cache.store(keys[2], program(bytes(20_000)))
    assert [cache.load(key) is not None for key in keys] == [True, False, True]


def test_disk_of_other_domains_is_not_crowded_out(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=90_000)
    for age, key in enumerate((KEY, *(key_of("crowd", n) for n in range(9)))):
        cache.store(key, program(bytes(20_000)))
        os.utime(tmp_path / key, (age, age))
    kept = [n for n in range(9) if cache.load(key_of("crowd", n)) is not None]
    assert cache.load(KEY) is not None
    assert kept == [6, 7, 8]


def test_a_full_disk_is_not_looked_through_for_each_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs are the most that fit; while one looks through them, stores of all VMs wait."""
    looks: list[Path] = []
    files = DiskCache._files

    def counted(cache: DiskCache) -> list[tuple[Path, os.stat_result]]:
        looks.append(tmp_path)
        return files(cache)

    monkeypatch.setattr(DiskCache, "_files", counted)
    cache = DiskCache(tmp_path, max_bytes=64 << 14)
    for number in range(128):
        cache.store(key_of("crowd", number), program())
    assert len(looks) <= 1 + 64 // 8
    assert 0 < len(list(tmp_path.iterdir())) <= 64


def test_programs_of_versions_without_domains_are_deleted(tmp_path: Path) -> None:
    old, other = tmp_path / ("0" * 64), tmp_path / "README"
    for path in (old, other):
        path.write_text("")
    DiskCache(tmp_path)
    assert (old.exists(), other.exists()) == (False, True)


def test_folder_that_cannot_be_made_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        HostError, match=r"/file/cache cannot be used: Not a directory \(set 'cache' in the configuration"
    ):
        DiskCache(tmp_path / "file" / "cache")


def test_failed_store_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cached_file(tmp_path).mkdir()
    with pytest.raises(OSError, match="directory"):
        cache.store(KEY, program())
    assert [path.name for path in tmp_path.iterdir()] == [KEY]


def test_leftovers_of_a_crash_are_deleted(tmp_path: Path) -> None:
    leftover = tmp_path / "unfinished-1-1"
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    DiskCache(tmp_path)
    assert not leftover.exists()


def test_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(HostError, match="mode 777"):
        DiskCache(tmp_path)


def test_new_directory_is_private(tmp_path: Path) -> None:
    DiskCache(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="file/cache cannot be used"):
        DiskCache(tmp_path / "file" / "cache")


def test_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/x")
    assert default_directory() == Path("/var/cache/x/virtio-gpu-compute/programs")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory() == Path.home() / ".cache/virtio-gpu-compute/programs"
