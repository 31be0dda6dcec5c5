"""Allotments of a host: what VMs may use, by what they use it of."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.registry_rig import rig
from tests.unit.test_control_access import token_file
from vhost_backend.config.daemon import EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.config.engine import EngineName
from vhost_backend.daemon.capacity import Share
from vhost_backend.daemon.gpus import Gpu
from vhost_backend.daemon.host_status import Ground, resources
from virtio_proto.control import tokens as token_lines
from virtio_proto.control.api import GpuInfo
from virtio_proto.yaml_values import GIB

GROUND = Ground(cores=8, memory_bytes=32 * GIB, cgroup_version=2)
SOFTWARE: GpuInfo = {"gpu": "cpu", "uuid": "C", "name": "software", "kind": "cpu", "pes": 16, "memory_bytes": 64 * GIB}
CUDA: GpuInfo = {"gpu": "0", "uuid": "GPU-a", "name": "H200", "kind": "cuda", "pes": 132, "memory_bytes": 141 * GIB}
CARD = Gpu(0, "GPU-a", "H200", "sm_90", 132, 141 * GIB, 8, 8, 232448)


def vm(name: str, engine: EngineName, pes: int | None, memory: int) -> VmConfig:
    quota = QuotaConfig(pes=pes, memory_bytes=memory * GIB)
    return VmConfig(name, vm_uuid(name), engine=EngineConfig(engine), quota=quota, region_bytes=GIB)


def test_vms_count_for_the_gpu_that_they_have() -> None:
    shares = [
        Share(vm("a", "cpu", 2, 1)),
        Share(vm("b", "cpu", None, 2)),
        Share(vm("c", "cuda", 32, 40), CARD),
        Share(vm("d", "cuda", 100, 40)),
        Share(vm("e", "null", 5, 9)),
    ]
    found = resources(GROUND, shares, [SOFTWARE, CUDA], overcommit=False)
    software, card = found.gpus
    assert (software["pes"], software["pes_allotted"], software["vms"], software["sharing"]) == (8, 2, 2, 1)
    assert (software["memory_bytes"], software["memory_allotted_bytes"]) == (32 * GIB, 3 * GIB)
    assert (card["pes"], card["pes_allotted"], card["vms"], card["sharing"]) == (132, 32, 1, 0)
    assert (card["memory_bytes"], card["memory_allotted_bytes"]) == (141 * GIB, 40 * GIB)
    assert found.undecided == ("d",)
    assert found.memory_allotted_bytes == (5 + 3) * GIB
    assert (found.cgroup_version, found.overcommit) == (2, False)


def test_ground_is_what_this_process_may_use() -> None:
    ground = Ground.of_host(None, "version 2 is not mounted")
    assert ground.cores >= 1
    assert ground.memory_bytes > 0
    assert (ground.cgroup_version, ground.no_cgroups) == (0, "version 2 is not mounted")


def test_status_has_the_sums_and_the_daemons_age(tmp_path: Path) -> None:
    async def story() -> None:
        async with rig(tmp_path) as made:
            client = await made.client()
            made.host.no_cgroups = "they are not delegated"
            status = await client.ask("status")
            assert (status["gpus"][0]["pes_allotted"], status["undecided"]) == (2, ["web2"])
            assert (status["cgroups"], status["cgroups_missing"]) == (0, "they are not delegated")
            assert 0 < status["started_ns"] <= status["time_ns"]
            assert status["channels"] == 0
            made.host.no_cgroups = ""
            assert "cgroups_missing" not in await client.ask("status")

    asyncio.run(story())


def test_status_is_denied_to_owners_of_some_vms(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", frozenset({"web1"}), None, "owner")

    async def story() -> None:
        async with rig(tmp_path, tokens=token_file(tmp_path, token)) as made:
            client = await made.client(secret)
            refused = await client.refusal("status")
            assert (refused.kind, "a token without vms" in str(refused)) == ("denied", True)

    asyncio.run(story())
