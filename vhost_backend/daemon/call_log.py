"""Logs the system calls of a VM's workers that their filter would deny (``sandbox: permissive``).

Guest code may make these calls, and waits in each until it is answered. So a separate thread answers them, and only a
bounded number of different calls is logged. The thread, and not the event loop, because taking a call can block: a
hostile worker that kept a copy of its listener can take a call that the thread was just woken for.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from typing import Final

from vhost_backend.fds import Fd, pipe
from vhost_backend.log import Logger
from vhost_backend.sandbox.listener import Call, CallListener

MAX_AT_ONCE: Final = 16
PAUSE_S: Final = 0.001
"""Pause after `MAX_AT_ONCE` calls: a worker that makes nothing but calls must not take the daemon's processors."""

MAX_KNOWN: Final = 128
"""Most different calls of one VM that are logged by name; the others count as one."""
_OTHERS: Final = "others"


class CallLog:
    """Logs the calls of one worker: each different call when it is first made, and all counts at the end."""

    def __init__(self, fd: int, log: Logger, known: set[str]) -> None:
        """Takes over `fd`. `known`: calls that were logged for the VM's earlier workers; new ones are added.

        :raise ValueError: `fd` is not the listener of a system call filter.
        :raise OSError: the host has no descriptors left.
        :raise RuntimeError: the host has no threads left.
        """
        listener = CallListener(Fd(fd))
        ended, self._end = pipe()
        self._log = log
        self._known = known
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._answer, args=(listener, ended), name="call-log", daemon=True).start()

    def close(self) -> None:
        """Stops answering, without waiting for the thread; does nothing the second time. The worker must have ended."""
        if self._end.closed:
            return
        self._end.close()
        with self._lock:
            counts = dict(self._counts)
        if counts:
            self._log.warning("calls_not_allowed", calls=counts, guest=True)
        else:
            self._log.info("all_calls_allowed", guest=True)

    # ---- in the thread ---------------------------------------------------------------------------

    def _answer(self, listener: CallListener, ended: Fd) -> None:
        """Answers calls until `close` or the worker's end. Each call is counted before the worker continues."""
        with listener, ended:
            taken = 0
            while listener.wait(ended):
                call = listener.take()
                if call is not None:
                    self._count(call)
                    listener.answer(call)
                taken += 1
                if taken % MAX_AT_ONCE == 0:
                    time.sleep(PAUSE_S)

    def _count(self, call: Call) -> None:
        name = str(call)
        with self._lock:
            if name not in self._counts and len(self._counts) >= MAX_KNOWN:
                name = _OTHERS
            is_new = name not in self._counts
            self._counts[name] += 1
        if is_new and name != _OTHERS:
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._tell, name, call)

    # ----------------------------------------------------------------------------------------------

    def _tell(self, name: str, call: Call) -> None:
        if name not in self._known and len(self._known) < MAX_KNOWN:
            self._known.add(name)
            about = {"call": name, "arguments": " ".join(map(hex, call.arguments))}
            self._log.warning("call_not_allowed", **about, let_through=not call.is_hostile)
