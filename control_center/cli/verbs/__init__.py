"""Commands of ``vgcctl``, one module each: `add` declares the arguments, `run` executes it and returns the exit code.

They are not the verbs of the control API, which are in virtio_proto/control/verbs.
"""

from __future__ import annotations

from typing import Final

VERBS: Final = {
    "ls": "hosts, GPUs, VMs and open channels",
    "status": "one picture: hosts, what VMs are allotted of them, and what needs attention",
    "open": "open channels and leave them open",
    "tail": "open channels, print their records, close them at Ctrl-C",
    "send": "type to the kernels of processing elements",
    "stat": "counters of processing elements",
    "watch": "live view of load",
    "top": "live view of what VMs use: processing elements, memory, requests, latencies, compilations",
    "functions": "functions of VMs: registered ones, and how often each is launched",
    "level": "change the level or the sampling of open channels",
    "snap": "snapshots of what every processing element does, and their differences",
    "replay": "replay a recording, send its input again, export it",
    "fault": "faults with advice; clear them",
    "policy": "automatic actions on faults",
    "migrate": "migrate VMs to other GPUs or processing elements",
    "vm": "VMs: list, show, add and remove them, read the daemons' configuration again",
    "worker": "hold, resume or replace the worker of a VM",
    "flash": "firmware: images of the control code on processing elements",
    "close": "close channels",
    "doctor": "check what works, what is missing and how to get it",
    "token": "make a token for a daemon or a control centre",
}
"""Verbs with their lines in ``vgcctl --help``."""
