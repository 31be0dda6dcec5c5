"""A guest of the CUDA engine over the fake driver, which records launches and computes nothing; fakes of NVIDIA's libraries
compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.fakes import cuda_driver, cuda_libraries
from tests.protocol.guest_host import GuestHost, guest_host
from vhost_backend.config.daemon import EngineConfig

MEMORY_MIB: Final = 1024


@contextmanager
def fake_gpu_host(folder: Path, *libraries: str) -> Iterator[tuple[GuestHost, Path]]:
    """A daemon whose one VM has a link, and the driver's log, in `folder`. Without a sandbox, as the fake driver writes
    there. `libraries` are those of NVIDIA's that the host has: "cublas", "cufft", "cudnn".
    """
    log = folder / "calls"
    (folder / "driver").mkdir()
    lines = ("memory 8589934592", "foreign_kernels 1", f"log {log}")
    library = cuda_driver.with_settings(folder / "driver", "\n".join(lines))
    paths = {name: str(cuda_libraries.build(name)) for name in libraries}
    engine = EngineConfig("cuda", {"driver": str(library), "binaries": True, "libraries": "auto", **paths})
    with guest_host(folder, engine=engine, memory_mib=MEMORY_MIB, pes=48, sandbox="off") as host:
        yield host, log
