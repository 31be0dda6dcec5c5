"""CPU clock of a worker, and alarms on such clocks.

The kernel keeps the clock, and guest code in the worker can neither stop nor set it. An alarm is a timer of the kernel on
that clock: it costs nothing until the worker has used the CPU time.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vhost_backend.daemon.process import worker_of
from vhost_backend.sandbox.syscalls import X86_64

_CPUCLOCK_SCHED: Final = 2  # of include/linux/posix-timers.h: a process's CPU clock is ~pid << 3 | 2
_SIGEV_THREAD_ID: Final = 4
_TIMER_ABSTIME: Final = 1
_SIGNAL: Final = signal.SIGRTMAX
_SLACK_NS: Final = 1_000_000
"""Time by which a timer may be ahead of its clock."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _SigEvent(ctypes.Structure):
    """``struct sigevent`` of the kernel."""

    _fields_ = (
        ("value", ctypes.c_uint64),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread_id", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


class _TimerSpec(ctypes.Structure):
    """``struct itimerspec`` of the kernel."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class CpuAlarm:
    """Alarm that rings once, or never if it is cancelled before."""

    def __init__(self, thread_id: int, clock_id: int, at_ns: int, on_ring: Callable[[], None]) -> None:
        """:raise OSError: the process is gone, or the host lacks timers."""
        self._clock_id = clock_id
        self._at_ns = at_ns
        self._on_ring = on_ring
        self._timer = ctypes.c_int()
        event = _SigEvent(signo=_SIGNAL, notify=_SIGEV_THREAD_ID, thread_id=thread_id)
        _call("timer_create", ctypes.c_long(clock_id), ctypes.byref(event), ctypes.byref(self._timer))
        self.is_set = True
        spec = _TimerSpec(value_s=at_ns // 10**9, value_ns=at_ns % 10**9)
        _call("timer_settime", self._timer, _TIMER_ABSTIME, ctypes.byref(spec), None)

    def cancel(self) -> None:
        """Has the alarm never ring; a second call does nothing."""
        if self.is_set:
            self.is_set = False
            _call("timer_delete", self._timer)

    def ring_if_due(self) -> None:
        """Rings if the process has used the time, or is gone."""
        if self.is_set and self._is_due():
            self.cancel()
            self._on_ring()

    def _is_due(self) -> bool:
        try:
            return time.clock_gettime_ns(self._clock_id) >= self._at_ns - _SLACK_NS
        except OSError:
            return True


class CpuAlarms:
    """Alarms of one event loop. A thread, which starts with the first alarm, waits for the timers' signals."""

    def __init__(self) -> None:
        self._alarms: set[CpuAlarm] = set()
        self._thread: threading.Thread | None = None
        self._is_ready = threading.Event()
        self._is_over = False

    def set(self, clock_id: int, at_ns: int, on_ring: Callable[[], None]) -> CpuAlarm:
        """Has `on_ring` called from the running loop when the clock shows `at_ns`.

        :raise OSError: the process is gone, or the host lacks timers.
        :raise RuntimeError: the host lacks threads.
        """
        if self._thread is None:
            loop = asyncio.get_running_loop()
            thread = threading.Thread(target=self._wait, args=(loop,), name="cpu-alarms", daemon=True)
            thread.start()
            self._thread = thread
            self._is_ready.wait()
        assert self._thread.native_id is not None
        alarm = CpuAlarm(self._thread.native_id, clock_id, at_ns, on_ring)
        self._alarms = {other for other in self._alarms if other.is_set} | {alarm}
        return alarm

    def close(self) -> None:
        """Cancels all alarms and ends the thread. No alarm may be set afterwards."""
        for alarm in self._alarms:
            alarm.cancel()
        if self._thread is not None and self._thread.is_alive():
            assert self._thread.ident is not None
            self._is_over = True
            signal.pthread_kill(self._thread.ident, _SIGNAL)
            self._thread.join()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Body of the thread, to which the timers' signals are directed; it leaves all others to the main thread."""
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        self._is_ready.set()
        while True:
            signal.sigwait({_SIGNAL})
            if self._is_over:
                return
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        for alarm in list(self._alarms):
            alarm.ring_if_due()


class WorkerClock:
    """CPU time of a worker, which the daemon started as `pid`: a launcher with the worker as its child, or the worker."""

    def __init__(self, pid: int, alarms: CpuAlarms) -> None:
        self._pid = worker_of(pid)
        self._id = ~self._pid << 3 | _CPUCLOCK_SCHED
        self._alarms = alarms
        self._stat = Path(f"/proc/{self._pid}/stat")

    def cpu_ns(self) -> int | None:
        """CPU time of all threads, also of those that have ended; None: the worker is gone."""
        try:
            return time.clock_gettime_ns(self._id)
        except OSError:
            return None

    def alarm(self, at_ns: int, on_ring: Callable[[], None]) -> CpuAlarm:
        """Sets an alarm, as `CpuAlarms.set`."""
        return self._alarms.set(self._id, at_ns, on_ring)

    def is_stopped(self) -> bool:
        """True if a signal has stopped the worker."""
        try:
            return self._stat.read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False


def _call(name: str, *arguments: object) -> None:
    """:raise OSError: the system call failed."""
    if _LIBC.syscall(X86_64[name], *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
