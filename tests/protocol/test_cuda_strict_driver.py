"""Daemons on a GPU that starts slowly and time-slices the processes of its VMs."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import Final

import pytest

from tests.protocol.cuda_host import SOURCE, TEXT_BYTES, CudaGuest, Settings, cuda_host
from virtio_proto.schema import Opcode, Status

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

SLOW_START: Final = "start_ms 1500\n"


def test_a_worker_gets_ready_on_a_gpu_that_starts_slowly(tmp_path: Path) -> None:
    with cuda_host(tmp_path, Settings(), fake=SLOW_START) as (vm,):
        guest = CudaGuest(vm)
        assert guest.computes()
        assert guest.generation() == 1


def test_the_probe_waits_for_a_gpu_that_starts_slowly(tmp_path: Path, logs: io.StringIO) -> None:
    """The probe is the first to open the GPU, which shuts down after it."""
    with cuda_host(tmp_path, Settings(kind="auto"), fake=SLOW_START) as (vm,):
        assert CudaGuest(vm).computes()
    assert re.search(r"engine_chosen.*engine=cuda", logs.getvalue())


def test_a_vm_computes_beside_one_whose_kernel_hangs(tmp_path: Path) -> None:
    """Its turns come round: what hangs is interrupted, and goes on in its own."""
    with cuda_host(tmp_path, Settings("a"), Settings("b")) as vms:
        hanging, other = (CudaGuest(vm) for vm in vms)
        assert hanging.load(SOURCE).status == Status.OK
        found = hanging.ok(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": 4}, b"hang")
        shape = {"grid": [1, 1, 1], "block": [1, 1, 1], "param_len": 0}
        launch = {"function": found.value, **shape}
        hanging.vm.driver.submit(Opcode.LAUNCH, launch, context=hanging.context, writable_len=TEXT_BYTES)
        assert other.computes()
        address = other.alloc(struct.pack("<I", 0))
        for _ in range(20):
            assert other.launch("add_one", struct.pack("<QI", address, 1)).status == Status.OK
        assert other.read(address, 4) == struct.pack("<I", 20)
        assert (hanging.generation(), other.generation()) == (1, 1)
