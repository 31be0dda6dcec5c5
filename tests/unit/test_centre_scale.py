"""Many hosts: the load of elements stays bytes in the control centre, and every host is polled.

The full size, 50 hosts of 8 GPUs of 132 elements, is a benchmark (``centre_page_p95_ms``).
"""

from __future__ import annotations

import asyncio
import base64
import gc
from pathlib import Path

from tests.fakes.control_world import Shape
from tests.unit.centre_rig import rig_of, run

SHAPE = Shape(gpus=4, pes=132, vms_per_gpu=1)
HOSTS = 6


def test_load_makes_no_python_objects_per_element(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, HOSTS, shape=SHAPE) as rig:
            await rig.get("/load")
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(5):
                rig.clock.seconds += 1
                await rig.poll()
                load = await rig.get("/load")
            elements = sum(
                len(base64.b64decode(busy)) for host in load["hosts"].values() for busy in host["pes"].values()
            )
            assert elements == HOSTS * 4 * 132
            gc.collect()
            assert len(gc.get_objects()) - before < elements

    run(test())


def test_one_request_per_host_and_second_fetches_the_load_of_all_elements(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, HOSTS, shape=SHAPE) as rig:
            for daemon in rig.daemons:
                daemon.asked.clear()
            await rig.poll()
            await asyncio.gather(*(rig.get("/load") for _ in range(10)))
            asked = [[verb for verb, _ in daemon.asked if verb != "topology"] for daemon in rig.daemons]
            assert asked == [["load"]] * HOSTS

    run(test())


def test_channels_of_all_elements_are_opened_summed_and_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, HOSTS, shape=SHAPE) as rig:
            opened = await rig.post("/channels", {"selector": "fn=load"})
            assert len(opened["instances"]) == HOSTS
            listed = await rig.get("/channels", totals=1)
            assert sum(one["totals"]["channels"] for one in listed) == HOSTS * 4 * 132
            for one in listed:
                assert (await rig.ask("DELETE", f"/channels/{one['instance']}")).status == 200
            assert await rig.get("/channels") == []

    run(test())
