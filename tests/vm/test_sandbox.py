"""The example of docs/sandboxes.md: a hostile job in a VM with a part of the host, beside a neighbour that computes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.api_caller import ApiCaller
from tests.limits import HANGS_AFTER_S
from tests.protocol.test_reload import is_reached
from tests.vm.vgcd import Vgcd, VmSettings
from tests.vm.workbench import needs_toolkit
from tests.waiting import until
from tools.architecture import X86_64, wanted
from tools.common import REPOSITORY

pytestmark = [
    pytest.mark.vm,
    needs_toolkit,
    pytest.mark.skipif(wanted() != X86_64, reason="the job's frameworks are installed for x86-64 alone"),
]

JOB: Final = REPOSITORY / "examples" / "sandbox" / "job.py"

SAYS: Final = r"""GPU 0: CPU, 1 PEs: .*
the loss fell from (?P<first>\S+) to (?P<last>\S+)
memory ended after (?P<taken>\d+) MiB
the loss fell from (?P=first) to (?P=last)
an endless kernel: vgc: .* ran longer than 10000 ms.*
the job ended with 0
"""


def files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def run_job(daemon: str) -> str:
    words: list[str | Path] = [sys.executable, "-m", "examples.sandbox.run", f"--daemon={daemon}", JOB]
    done = subprocess.run(words, check=True, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, timeout=HANGS_AFTER_S)
    return done.stdout


def test_a_job_gets_its_part_and_leaves_nothing() -> None:
    with Vgcd(VmSettings("neighbour")) as vgcd:
        until(lambda: is_reached(vgcd.control_socket))
        kept, launchers = files(vgcd.folder / "state"), vgcd.worker_pids()
        found = re.match(SAYS, run_job(f"unix:{vgcd.control_socket}"))
        assert found is not None
        assert 32 <= int(found["taken"]) <= 64
        with ApiCaller(vgcd.control_socket) as caller:
            until(lambda: [vm["vm"] for vm in caller.ask("topology")["vms"]] == ["neighbour"])
        until(lambda: vgcd.worker_pids() == launchers)
        assert files(vgcd.folder / "state") == kept
        groups = re.findall(r"group='(\S+/vm-job-\d+) ", (vgcd.folder / "vgcd.log").read_text())
        assert not any(Path(group).exists() for group in groups)  # there is one where the host has control groups
