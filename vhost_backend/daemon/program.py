"""The daemon as a program: it runs until SIGTERM or SIGINT. Other signals do not end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Mapping
from typing import Any, Final

from vhost_backend.daemon.runstate import StateError
from vhost_backend.daemon.server import NO_FILE, Daemon
from vhost_backend.log import get_logger

_IGNORED: Final[Mapping[signal.Signals, str]] = {
    signal.SIGUSR1: "signal_ignored",
    signal.SIGUSR2: "signal_ignored",
    signal.SIGALRM: "signal_ignored",
}
"""Events of signals that end other programs by default. If the daemon ends, so does every QEMU that it serves."""
_ADVICE: Final = "SIGHUP reads the configuration again; SIGTERM ends the daemon, and QEMU with it if there is no keeper"


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an unhandled error of a callback or a task; the daemon goes on."""
    match context.get("exception"):
        case StateError() as error:
            get_logger(vm=error.vm).error("wrong_transition", old=error.old.name, new=error.new.name, error=str(error))
        case error:
            get_logger().error("loop_error", problem=context["message"], exc_info=error)


def _ignore(number: signal.Signals, event: str) -> None:
    get_logger().warning(event, signal=number.name, advice=_ADVICE)


def _reload(daemon: Daemon) -> None:
    """Handles SIGHUP."""
    if not daemon.can_reload:
        get_logger().warning("sighup_ignored", signal="SIGHUP", advice=NO_FILE)
        return
    daemon.reload_soon()


def _leave() -> None:
    """Ends this process alone: all that counts is with the keeper, and its spare takes over."""
    get_logger().info("leaves", pid=os.getpid(), means="the next vgcd takes over; a signal to the keeper ends VMs, too")
    os._exit(0)


async def _run_until_signal(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _leave if daemon.is_kept else task.cancel)
    for number, event in _IGNORED.items():
        loop.add_signal_handler(number, _ignore, number, event)
    loop.add_signal_handler(signal.SIGHUP, _reload, daemon)
    with contextlib.suppress(asyncio.CancelledError):
        await daemon.run()


def _raise_file_limit() -> None:
    """Raises the limit of open files: a VM takes up to three descriptors per queue, and the default is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(daemon: Daemon) -> None:
    """Runs `daemon` until SIGTERM or SIGINT. SIGHUP has it read its configuration again.

    :raise VgcError: the daemon cannot start.
    """
    _raise_file_limit()
    try:
        asyncio.run(_run_until_signal(daemon))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
