"""Faults of the drill: each does one thing to the host, and says what of it guests may notice."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.drill.clock import last, within
from tests.drill.guest import Guest
from tests.drill.host import VMS, Host, send

APPEARS_WITHIN_S: Final = 90.0
"""Longest time until a process is there that a fault is for: a fork server that was lost comes again after ten seconds."""
_STOPPED_S: Final = 0.03
_RUNS_S: Final = 0.01
"""Times for which a process that is slowed down is stopped, and runs, in turn."""


class NoTargetError(Exception):
    """The process that a fault is for is not there."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Consequences of a fault that guests may notice; of all others they notice nothing."""

    loses: str = ""
    """VM whose worker dies; "": none does."""
    kills_compiler: bool = False
    takes_over: bool = False
    """The daemon is a different one afterwards."""
    records: bool = False
    """The recorder was kept from writing, and must write again."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The host, its guests, and the drill's dice."""

    host: Host
    guests: Sequence[Guest]
    dice: random.Random


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `inflict` returns when it is over."""

    name: str
    inflict: Callable[[Scene], Effect]


def _there(find: Callable[[], int], what: str) -> int:
    pid = within(APPEARS_WITHIN_S, find)
    if not pid:
        raise NoTargetError(f"there is no {what}")
    return pid


# ---- one process ------------------------------------------------------------------------------------


def _compiler(scene: Scene) -> int:
    guest = scene.dice.choice(scene.guests)

    def find() -> int:
        guest.compile_anew.set()
        return scene.host.compiler

    return _there(find, "compiler")


def _target(scene: Scene, role: str) -> tuple[int, str]:
    """Process of a role, and the VM whose worker dies with it; "": none does."""
    host = scene.host
    vm = scene.dice.choice(VMS)
    match role:
        case "daemon":
            return host.vgcd.daemon, ""
        case "spare":
            return _there(lambda: host.spare, role), ""
        case "worker":
            return _there(lambda: host.worker(vm), role), vm
        case "launcher":
            return _there(lambda: host.launcher(vm), role), vm
        case "compiler":
            return _compiler(scene), ""
        case "fork server":
            return _there(lambda: host.fork_server, role), ""
        case _:
            assert host.centre is not None
            return host.centre.pid, ""


def _kill(scene: Scene, role: str) -> Effect:
    pid, vm = _target(scene, role)
    send(pid, signal.SIGKILL)
    if role == "control centre":
        scene.host.start_centre()
    return Effect(vm, role == "compiler", role == "daemon", role == "control centre")


def _stop(scene: Scene, role: str) -> Effect:
    pid, _vm = _target(scene, role)
    send(pid, signal.SIGSTOP)
    last(scene.dice.uniform(0.2, 1.0))
    send(pid, signal.SIGCONT)
    return Effect()


def _slow(scene: Scene, role: str) -> Effect:
    pid, _vm = _target(scene, role)
    for _ in range(scene.dice.randint(10, 25)):
        send(pid, signal.SIGSTOP)
        last(_STOPPED_S)
        send(pid, signal.SIGCONT)
        last(_RUNS_S)
    return Effect()


def _of_each_role(act: str, how: Callable[[Scene, str], Effect]) -> list[Fault]:
    roles = ("daemon", "spare", "worker", "launcher", "compiler", "fork server", "control centre")

    def inflict(role: str) -> Callable[[Scene], Effect]:
        return lambda scene: how(scene, role)

    return [Fault(f"{act} {role}", inflict(role)) for role in roles]


# ---- several ----------------------------------------------------------------------------------------


def _kill_daemon_and_spare(scene: Scene) -> Effect:
    daemon, spare = scene.host.vgcd.daemon, _there(lambda: scene.host.spare, "spare")
    for pid in scene.dice.sample((daemon, spare), 2):
        send(pid, signal.SIGKILL)
    return Effect(takes_over=True)


def _kill_daemon_and_worker(scene: Scene) -> Effect:
    vm = scene.dice.choice(VMS)
    worker, daemon = _there(lambda: scene.host.worker(vm), "worker"), scene.host.vgcd.daemon
    for pid in scene.dice.sample((daemon, worker), 2):
        send(pid, signal.SIGKILL)
        last(scene.dice.choice((0.0, 0.05)))
    return Effect(vm, takes_over=True)


def _kill_daemon_while_spare_is_stopped(scene: Scene) -> Effect:
    spare = _there(lambda: scene.host.spare, "spare")
    send(spare, signal.SIGSTOP)
    send(scene.host.vgcd.daemon, signal.SIGKILL)
    last(scene.dice.uniform(0.1, 0.6))
    send(spare, signal.SIGCONT)
    return Effect(takes_over=True)


def _kill_daemon_as_it_is_replaced(scene: Scene) -> Effect:
    scene.host.vgcd.keeper.send_signal(signal.SIGUSR2)
    last(scene.dice.uniform(0.0, 1.0))
    send(scene.host.vgcd.daemon, signal.SIGKILL)
    return Effect(takes_over=True)


def _replace_daemon(scene: Scene) -> Effect:
    scene.host.vgcd.keeper.send_signal(signal.SIGUSR2)
    return Effect(takes_over=True)


def _fill_disk(scene: Scene) -> Effect:
    with scene.host.full_disk():
        last(scene.dice.uniform(1.0, 2.5))
    return Effect(records=True)


FAULTS: Final = (
    *_of_each_role("kill", _kill),
    *_of_each_role("stop", _stop),
    *_of_each_role("slow down", _slow),
    Fault("kill daemon and spare", _kill_daemon_and_spare),
    Fault("kill daemon and worker", _kill_daemon_and_worker),
    Fault("kill daemon, spare stopped", _kill_daemon_while_spare_is_stopped),
    Fault("kill daemon as it is replaced", _kill_daemon_as_it_is_replaced),
    Fault("replace daemon", _replace_daemon),
    Fault("fill recorder's disk", _fill_disk),
)


def schedule(seed: int, count: int) -> list[Fault]:
    """Faults in a random order, in which each kind comes once before any comes again."""
    dice = random.Random(seed)
    found: list[Fault] = []
    while len(found) < count:
        found += dice.sample(FAULTS, len(FAULTS))
    return found[:count]
