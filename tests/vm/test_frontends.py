"""Frontends of vhost-user that are not QEMU's: what they are told, and that none of them harms the device (docs/vmm.md)."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from typing import IO, Final

import pytest

from tests.fakes.driver import FakeDriver
from tests.fakes.region import Region
from tests.limits import HANGS_AFTER_S
from tests.vm import frontends
from tests.vm.vgcd import Vgcd, VmSettings
from tests.waiting import until
from virtio_proto import schema
from virtio_proto.schema import Opcode, Status

SECTOR: Final = 512
"""Unit of a disk's capacity, which is the first field of a disk's configuration."""
REGION_BYTES: Final = 16 << 20
REQUESTS: Final = 100

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="Debian's packages are fetched for x86-64"),
]


def vm(name: str) -> VmSettings:
    return VmSettings(name, region_bytes=REGION_BYTES, extra={"engine": "null"})


def lines(stream: IO[str], end: str) -> list[str]:
    """Lines of `stream` before the line `end`."""
    seen: list[str] = []
    while (line := stream.readline()) and line != f"{end}\n":
        seen.append(line.rstrip("\n"))
    return seen


def test_libblkio_reads_the_configuration_and_has_no_region_to_offer(tmp_path: Path) -> None:
    program = frontends.build_blkio(Path(__file__).with_name("blkio_frontend.c"), tmp_path / "blkio_frontend")
    with Vgcd(vm("one")) as vgcd:
        argv = [*program, str(vgcd.folder / "one.sock")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=True)
        first_field = schema.WIRE_VERSION << 32 | schema.CONFIG_MAGIC
        assert done.stdout == f"capacity {first_field * SECTOR % (1 << 64)}\n"
        log = vgcd.folder / "vgcd.log"
        until(lambda: "frontend_disconnected" in log.read_text())
        assert "and no region; allowed: a whole file of 16 MiB" in log.read_text()


@pytest.mark.slow
@pytest.mark.skipif("VGC_FRONTENDS" not in os.environ, reason="takes minutes: VGC_FRONTENDS=1, as in `make nightly`")
@pytest.mark.skipif(os.geteuid() != 0, reason="rust-vmm's frontend is compiled in a root of its own, by root")
def test_rust_vmms_frontend_has_a_queue_in_the_region_served() -> None:
    """With all of a machine's memory in one table, and the configuration read in pieces."""
    program = frontends.rust_frontend()
    with Vgcd(vm("one")) as vgcd, Region(REGION_BYTES) as region, FakeDriver(region, num_queues=1) as driver:
        queue = driver.queues[0]
        numbers: Sequence[int] = (
            schema.CONFIG.size_bytes,
            region.fd,
            region.size,
            region.gpa,
            region.uva,
            queue.at.num,
            queue.at.desc,
            queue.at.avail,
            queue.at.used,
            queue.kick_fd,
            queue.call_fd,
        )
        argv = [str(program), str(vgcd.folder / "one.sock"), *map(str, numbers)]
        passed = (region.fd, queue.kick_fd, queue.call_fd)
        with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, text=True, pass_fds=passed) as frontend:
            assert frontend.stdout is not None
            queues, config = lines(frontend.stdout, "ready")
            assert int(queues.removeprefix("queues ")) == schema.CONFIG.construct.parse(_config(config)).num_queues
            assert schema.CONFIG.construct.parse(_config(config)).magic == schema.CONFIG_MAGIC
            for _ in range(REQUESTS):
                assert driver.request(Opcode.NOP).status == Status.OK
            rest, _ = frontend.communicate(timeout=HANGS_AFTER_S)
        assert (frontend.returncode, rest) == (0, f"stopped at {REQUESTS}\n")


def _config(line: str) -> bytes:
    return bytes.fromhex(line.removeprefix("config "))
