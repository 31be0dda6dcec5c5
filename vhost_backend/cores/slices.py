"""Time slices of threads that serve a VM with processors of its own.

Its elements have these processors to themselves, but the threads that take its requests may be woken on one where others work.
There the kernel lets whoever runs go on to the end of a time slice: milliseconds, for a request that takes microseconds. A
thread that asks for short slices gets no more time than before, and begins at once [Linux:
Documentation/scheduler/sched-eevdf.rst].
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Collection
from typing import Final

from vhost_backend.cores import threads

SHORT_NS: Final = 100_000
"""Time slice of a thread that is to begin at once: the shortest that the kernel gives."""
USUAL_NS: Final = 0
"""The kernel's own choice."""

_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""The first version of ``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period [sched_setattr(2)]."""
_SET, _GET = 0, 1
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of ``sched_setattr`` and ``sched_getattr``, by machine: glibc has them from 2.41 on."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def set_slices(pid: int, slice_ns: int, but: Collection[int] = ()) -> None:
    """Gives all threads of a process, but some, time slices of `slice_ns`; without effect before Linux 6.12.

    :raise OSError: the process is gone, or this one may not do it.
    """

    def change(thread: int) -> bool:
        return thread not in but and set_slice(pid, thread, slice_ns)

    threads.change_all(pid, change)


def slice_of(thread: int) -> int:
    """Time slice of a thread in ns; 0: this kernel does not say.

    :raise OSError: the thread is gone.
    """
    return int(_attributes(thread)[5])


def set_slice(pid: int, thread: int, slice_ns: int) -> bool:
    """Gives one thread of a process such time slices; true if it had others, or has just ended.

    :raise OSError: this process may not do it.
    """
    try:
        size, policy, flags, nice, priority, before_ns, *rest = _attributes(thread)
        if not threads.is_there(pid, thread):
            return True  # a stranger may have its number by now
        packed = _ATTRIBUTES.pack(size, policy, flags, nice, priority, slice_ns, *rest)
        _call(_SET, thread, ctypes.create_string_buffer(packed, len(packed)), 0)
        return slice_of(thread) != before_ns
    except ProcessLookupError:
        return True


def _attributes(thread: int) -> tuple[int, ...]:
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    _call(_GET, thread, found, _ATTRIBUTES.size, 0)
    return _ATTRIBUTES.unpack(found.raw)


def _call(which: int, *arguments: object) -> None:
    calls = _CALLS.get(os.uname().machine)
    number = errno.ENOSYS
    if calls is not None:
        words = [ctypes.c_ulong(argument) if isinstance(argument, int) else argument for argument in arguments]
        if _LIBC.syscall(ctypes.c_long(calls[which]), *words) >= 0:
            return
        number = ctypes.get_errno()
    raise OSError(number, f"attributes of a thread: {os.strerror(number)}")
