"""Changes that come while the daemon ends, which takes as long as its VMs take to leave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, FakeCompiler, no_gpus
from tests.fakes.vm import REGION_BYTES
from tests.waiting import turns_until
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.roll import VmStore
from vhost_backend.daemon.served_vm import ServedVm
from vhost_backend.daemon.server import Daemon
from vhost_backend.errors import HostError


def test_no_vm_is_added_while_others_leave_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        begun, ending, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def run(_served: ServedVm) -> None:
            try:
                begun.set()
                await gone.wait()
            except asyncio.CancelledError:
                ending.set()
                await gone.wait()
                raise

        monkeypatch.setattr(ServedVm, "run", run)
        engine, store = EngineConfig("null"), VmStore(tmp_path / "state")
        vm = VmConfig("a", vm_uuid("a"), tmp_path / "a", REGION_BYTES, engine=engine, num_queues=1, sandbox=SANDBOX)
        daemon = Daemon(
            DaemonConfig((vm,), cache=tmp_path / "cache"),
            FakeCompiler(),
            Engines(no_gpus, lambda *_: None),
            store=store,
        )
        running = asyncio.create_task(daemon.run())
        await turns_until(begun.is_set)
        running.cancel()
        await turns_until(ending.is_set)
        with pytest.raises(HostError, match="vgcd is ending"):
            await daemon.add("b", {"socket": str(tmp_path / "b"), "engine": "null"}, persists=True)
        assert list(daemon.vms) == ["a"]
        gone.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert store.load() == {}

    asyncio.run(story())
