"""Rows of VMs that share cores, end to end: every kind of greedy guest does its work, and a crowd of VMs is measured."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench.greed import computing, copying, faulting, rates, sized
from bench.host_vms import MIB, HostVm, daemon, running
from bench.rows.many import null_us, start_ms
from tests.protocol.worker_rig import needs_walls

pytestmark = needs_walls


def test_every_kind_of_greedy_guest_works_beside_the_others(tmp_path: Path) -> None:
    vms = [HostVm(name, 1) for name in ("light", "heavy", "copies")]
    with ExitStack() as stack:
        ours = stack.enter_context(running(tmp_path, [*vms, HostVm("faults", 1, region_mib=64)]))
        made = sized(ours[0], 1, target_ms=1)
        launches = [stack.enter_context(computing(one, made)) for one in ours[:2]]
        jobs = [*launches, copying(ours[2], MIB), faulting(ours[3])]
        assert all(one > 0 for one in rates(jobs, 0.2))
        assert null_us(ours[0], 3)() > 0


def test_all_vms_of_a_daemon_become_ready(tmp_path: Path) -> None:
    vms = [HostVm(f"vm{number}", 1) for number in range(3)]
    with daemon(tmp_path, vms):
        times = start_ms([vm.socket(tmp_path) for vm in vms])
    assert len(times) == 3
    assert times == sorted(times)
