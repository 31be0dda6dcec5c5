"""Exports memory and an event for its child, which opens them with another version of libcudart.

Run by test_cudart_sharing.py in a guest: arguments are the libraries of the parent and of the child.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Final

INTERPROCESS: Final = 2 | 4
"""``cudaEventDisableTiming | cudaEventInterprocess``"""
TO_DEVICE, TO_HOST = 1, 2


class Handle(ctypes.Structure):
    """``cudaIpcMemHandle_t`` and ``cudaIpcEventHandle_t``, which are passed by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


library = ctypes.CDLL(sys.argv[1])


def checked(error: int) -> None:
    assert error == 0, error


def copy(to: ctypes.c_void_p, source: ctypes.c_void_p, direction: int) -> None:
    checked(library.cudaMemcpy(to, source, ctypes.c_size_t(4), direction))


def child() -> None:
    """Opens what the parent has exported, adds one to the number there, and records the event."""
    memory, event, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    at = ctypes.c_void_p(ctypes.addressof(number))
    handles = [Handle.from_buffer_copy(bytes.fromhex(text)) for text in sys.argv[2:]]
    checked(library.cudaIpcOpenMemHandle(ctypes.byref(memory), handles[0], 1))
    checked(library.cudaIpcOpenEventHandle(ctypes.byref(event), handles[1]))
    checked(library.cudaStreamWaitEvent(None, event, 0))
    copy(at, memory, TO_HOST)
    number.value += 1
    copy(memory, at, TO_DEVICE)
    checked(library.cudaEventRecord(event, None))
    checked(library.cudaEventSynchronize(event))
    checked(library.cudaIpcCloseMemHandle(memory))


def parent() -> None:
    memory, event, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(41)
    at = ctypes.c_void_p(ctypes.addressof(number))
    handles = [Handle(), Handle()]
    checked(library.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4)))
    copy(memory, at, TO_DEVICE)
    checked(library.cudaEventCreateWithFlags(ctypes.byref(event), INTERPROCESS))
    checked(library.cudaEventRecord(event, None))
    checked(library.cudaIpcGetMemHandle(ctypes.byref(handles[0]), memory))
    checked(library.cudaIpcGetEventHandle(ctypes.byref(handles[1]), event))
    texts = [bytes(handle).hex() for handle in handles]
    subprocess.run([sys.executable, __file__, sys.argv[2], *texts], check=True, close_fds=False, env=os.environ)
    checked(library.cudaEventQuery(event))
    copy(at, memory, TO_HOST)
    sys.stdout.write(f"{number.value}\n")


if len(sys.argv) > 3:
    child()
else:
    parent()
