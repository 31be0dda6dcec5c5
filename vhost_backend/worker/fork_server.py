"""Process that starts workers as copies of itself: ``python -m vhost_backend.worker.fork_server --fd N MODULE...``.

It has loaded a worker's modules, which take most of the time of a start and most of the memory of a worker that rests:
what neither writes to is shared by all. It has never seen a byte of a guest's, nor a secret, and has one thread. On socket N it
is asked as `vhost_backend.worker_protocol.copying` says.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final

from vhost_backend.sandbox.build import LIBRARY
from vhost_backend.worker.life import work
from vhost_backend.worker_protocol.copying import JOB_FD, MAX_REQUEST_BYTES, NUM_FDS, READY

_PR_SET_NAME: Final = 15  # linux/prctl.h


class Launcher:
    """The launcher as a library, called with the interpreter's lock held."""

    def __init__(self) -> None:
        """:raise OSError: it has not been built."""
        self._library = ctypes.PyDLL(str(LIBRARY), use_errno=True)
        self._library.vgc_launch_sibling.restype = ctypes.c_long

    def start(self, options: Sequence[bytes], kept: int, errors: int) -> int:
        """Starts a launcher with `options`; returns its process id, or 0 in its job.

        :raise OSError: this process cannot be copied.
        """
        words = [ctypes.create_string_buffer(option) for option in (b"vgc-launch", *options)]
        argv = (ctypes.c_char_p * (len(words) + 1))(*(ctypes.cast(word, ctypes.c_char_p) for word in words), None)
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = int(self._library.vgc_launch_sibling(len(words), argv, kept, errors))
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            return 0
        error = ctypes.get_errno()
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        if pid < 0:
            raise OSError(error, f"cannot start a worker: {os.strerror(error)}")
        return pid


def serve(daemon: socket.socket, launcher: Launcher) -> bool:
    """Answers requests until the daemon hangs up. True: this is a worker now, whose socket is `JOB_FD`."""
    daemon.send(READY)
    while True:
        request, fds, _, _ = socket.recv_fds(daemon, MAX_REQUEST_BYTES, NUM_FDS)
        if not request:
            return False
        kept, errors = fds
        try:
            pid = launcher.start(request.split(b"\0"), kept, errors)
        except OSError as error:
            answer = str(error)
        else:
            if pid == 0:
                return True
            answer = str(pid)
        os.close(kept)
        os.close(errors)
        daemon.send(answer.encode())


def main() -> int:
    """Serves until the daemon hangs up; in each worker, returns its exit status."""
    parser = argparse.ArgumentParser(prog="vhost_backend.worker.fork_server", description=main.__doc__)
    parser.add_argument("--fd", type=int, required=True, help="the socket to the daemon")
    parser.add_argument("modules", nargs="*", help="modules to load, beside those of every worker")
    arguments = parser.parse_args()
    for module in arguments.modules:
        importlib.import_module(module)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, b"vgc-forkserver")
    daemon = socket.socket(fileno=arguments.fd)
    gc.collect()
    gc.freeze()  # the collector writes to what it looks at
    try:
        is_worker = serve(daemon, Launcher())
    except ConnectionError:  # the daemon was killed, and had not read all that it was told
        is_worker = False
    if not is_worker:
        return 0
    daemon.detach()  # closed before the walls
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as in any Python; the launcher has reset all signals
        signal.signal(number, signal.SIG_IGN)
    return work(socket.socket(fileno=JOB_FD))


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # skips waiting for threads: one may be in a kernel that never ends
