"""A real guest runs a long kernel while the host watches it, talks to it and takes a snapshot of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.api_caller import ApiCaller, Reader
from tests.limits import HANGS_AFTER_S
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from virtio_proto.control.records import Level

pytestmark = pytest.mark.vm

NAME = "watched"
BLOCKS = 100_000
"""Number of blocks: more than run before the kernel is told to hurry."""

GUEST = f"""
import numpy as np
import guest_driver as vgc

SOURCE = r'''
#include <vgc.h>
extern "C" __global__ void work(volatile int *hurry, int *out) {{
    if (blockIdx.x == 0) {{
        int length = 0;
        for (char c = 0; c != '\\n';)
            length += vgc_read(&c, 1);
        vgc_printf("told with %d bytes", length);
        out[0] = length;
        *hurry = 1;
        return;
    }}
    for (int i = 0; i < 1000000 && *hurry == 0; i++) {{ }}
    vgc_count("blocks done", 1);
    if (blockIdx.x % 32 == 1)
        printf("block %d is done\\n", blockIdx.x);
    out[blockIdx.x] = 3 * blockIdx.x;
}}
'''
with vgc.Device() as dev:
    work = dev.compile(SOURCE)["work"]
    hurry, out = dev.zeros(1, "int32"), dev.zeros({BLOCKS}, "int32")
    stream = dev.stream()
    job = work.launch_async({BLOCKS}, 1, hurry, out, stream=stream)
    open("/tmp/computing", "w").close()
    job.wait()
    got = out.get()
    print(got[0], (got[1:] == 3 * np.arange(1, {BLOCKS})).all())
"""


def blocks_done(stats: Mapping[str, Any]) -> int:
    return sum(pe["blocks"] for pe in stats["pes"])


def test_long_kernel_is_watched_and_steered_and_computes_correctly() -> None:
    settings = VmSettings(NAME, extra={"deadline": "10m", "quota": {"pes": 2, "memory": "64M"}})
    with Vgcd(settings) as vgcd, Guest(vgcd.device(NAME)) as guest, ApiCaller(vgcd.control_socket) as caller:
        started = guest.start(f"python3 -c {shlex.quote(GUEST)}", timeout=HANGS_AFTER_S)
        guest.run("while [ ! -e /tmp/computing ]; do sleep 0.1; done")

        perf = Reader(caller, caller.open(f"vm={NAME},fn=perf", level=Level.CRITICAL, period_ms=50))
        perf.next()
        first = blocks_done(caller.ask("stat", selector=f"vm={NAME}"))
        while blocks_done(caller.ask("stat", selector=f"vm={NAME}")) <= first:
            perf.next()

        stdio = caller.open(f"vm={NAME},fn=stdio")
        waiting = caller.event("wants_input")["detail"]["pe"]
        seen = caller.ask("snapshot", selector=f"vm={NAME}")
        assert (seen["coverage"], seen["silent"]) == (1.0, [])
        assert [pe["kernel"] for pe in seen["pes"]] == ["work", "work"]
        assert next(pe["block"] for pe in seen["pes"] if pe["pe"] == waiting) == 0

        other = Reader(caller, caller.open(f"vm={NAME},pe={1 - waiting},fn=stdio"))
        said = other.texts(3)
        numbers = [int(line.split()[1]) for line in said]
        assert said == [f"block {number} is done\n" for number in numbers]
        assert numbers == sorted(numbers)

        assert caller.ask("send", instance=stdio, data=b"hurry up\n", pe=waiting) == {"elements": 1}
        output = guest.result(started, "the guest's program", timeout=HANGS_AFTER_S).stdout.splitlines()
        assert output[-1] == "9 True"
        console = Reader(caller, stdio)
        while console.next()[1] != "told with 9 bytes":
            pass
