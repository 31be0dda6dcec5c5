"""The verbs of ``vgcctl``, a module each: `add` says what may be given, `run` does it and returns the exit code."""

from __future__ import annotations

from typing import Final

VERBS: Final = {
    "ls": "hosts, GPUs, VMs and open channels",
    "open": "open channels and leave them open",
    "tail": "open channels, print what they bring, close them at Ctrl-C",
    "send": "type to the kernels of processing elements",
    "stat": "counters of processing elements",
    "watch": "a live view of load",
    "level": "change the level or the sampling of open channels",
    "snap": "what every processing element does at this moment; differences",
    "replay": "what was recorded: played, sent again, exported",
    "fault": "what has gone wrong, with advice; clear it",
    "policy": "what is done about faults by itself",
    "migrate": "move VMs' work to other GPUs or processing elements",
    "worker": "have a VM's worker take no new requests, go on, or start anew",
    "flash": "images of the device-resident control code",
    "close": "close channels",
    "doctor": "what works, what is missing and how to get it",
    "token": "make a token for a daemon or a control centre",
}
"""By name, with the line that ``vgcctl --help`` has of each."""
