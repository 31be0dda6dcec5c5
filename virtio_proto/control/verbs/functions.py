"""Verbs about the functions of VMs: how often they are launched, and how long they take; the registered ones."""

from __future__ import annotations

from typing import Final, TypedDict

from virtio_proto.control.verbs.base import LOOK_S, Rest, Selecting, Verb, rows

OTHERS: Final = "(others)"
"""Functions without a place in the worker's table, together."""
GRAPHS: Final = "(graphs)"
"""Graphs, each as a whole: what of a graph's time is whose is not known."""


class FunctionWork(TypedDict):
    """Launches of a function of a VM, since its worker has counted them; a guest may have made them up, as its name."""

    vm: str
    gpu: str
    function: str
    """Name without parameters, printable; or `OTHERS`, or `GRAPHS`."""
    launches: int
    busy_ns: int
    """Time of those that the engine has timed."""
    times: list[int]
    """These by latency class (`virtio_proto.control.latency`); those after the last one that is not 0 are left out."""


class HostedWork(FunctionWork):
    host: str


class Works(TypedDict):
    functions: list[FunctionWork]
    silent: list[str]
    """VMs whose worker does not say."""


class Functions(Verb):
    """Shows how often VMs launch their functions, and how long these take.

    A worker counts a bounded number of functions by name, and all others together; with each look, functions that
    have none get the places, and the counts, of those that compute least.
    """

    name = "functions"
    timeout_s = LOOK_S
    rest = Rest("GET", "/functions", "figures")
    Answer = Works
    merged = rows(HostedWork, "functions")

    class Request(Selecting, kw_only=True, frozen=True):
        """VMs whose functions to show."""


class RegisteredWork(TypedDict):
    """Program that a guest has registered for its VM; the guest has made up its functions' names."""

    vm: str
    program: int
    """Number among the VM's registered programs; never that of a different program."""
    functions: list[str]
    """Printable names and parameters of the first functions."""
    num_functions: int
    kept: bool
    """It stays when the guest or the daemon is restarted."""
    size_bytes: int
    """Source and options."""
    problem: str
    """Reason why it did not compile when the present worker was given it; "" if it did."""


class HostedProgram(RegisteredWork):
    host: str


class RegisteredPrograms(TypedDict):
    programs: list[RegisteredWork]


class Programs(Verb):
    """Shows programs that guests have registered for their VMs, whether these have a worker at present or not."""

    name = "programs"
    rest = Rest("GET", "/programs", "figures")
    Answer = RegisteredPrograms
    merged = rows(HostedProgram, "programs")

    class Request(Selecting, kw_only=True, frozen=True):
        """VMs whose programs to show."""
