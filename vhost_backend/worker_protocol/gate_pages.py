"""Pages through which the daemon and the worker of a VM on a GPU agree on turns at launching.

The *grant* is written by the daemon alone: its seals keep the worker from mapping it writable. The *account* is the
worker's, so the daemon takes it for what it is, a claim. Both are 64-bit numbers at fixed places, as in
`vhost_backend/engines/cuda/cdef.h`; the worker rings an eventfd, the *bell*, when the daemon should look at its account.

Of the grant's seals, one keeps anybody from mapping it writable again. So a daemon that takes a worker over makes a new one,
which the worker maps in place of the one before; account and bell stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from dataclasses import dataclass
from typing import Final

from vhost_backend.fds import Fd

PAGE_BYTES: Final = 4096
OPEN: Final = 2**64 - 1
"""Value of `until_ns` with which launches need no turn."""
GRANT_FIELDS: Final = ("until_ns", "armed", "beat")
ACCOUNT_FIELDS: Final = ("ran_ns", "since_ns", "held")
NUM_FDS: Final = 3
"""Descriptors of a worker's gate: grant, account, bell."""

_F_SEAL_FUTURE_WRITE: Final = 0x0010  # of include/uapi/linux/fcntl.h; Linux 5.1
_FIXED_SIZE: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Account:
    """Claims of a worker about its launches; any numbers, if it lies."""

    ran_ns: int
    """Time for which launches ran, up to the last time that none did."""
    since_ns: int
    """Time since which launches run without a break, by CLOCK_MONOTONIC; 0: none runs."""
    is_held: bool
    """A launch could run, and waits for the gate alone."""


class GatePages:
    """The daemon's side of one worker's gate, which is open. Close it."""

    def __init__(self, account: Fd | None = None, bell: Fd | None = None) -> None:
        """`account`, `bell`: of a worker that is taken over, which this owns from now on; None: they are made.

        :raise OSError: the host lacks descriptors, memory or seals.
        """
        with contextlib.ExitStack() as undo:
            self._grant_fd, self._grant = _page("vgc-gate-grant", _F_SEAL_FUTURE_WRITE | _FIXED_SIZE)
            undo.callback(self._grant.close)
            if account is None:
                self._account_fd, self._account = _page("vgc-gate-account", _FIXED_SIZE)
            else:
                self._account_fd, self._account = account, mmap.mmap(account.fileno(), PAGE_BYTES)
            undo.callback(self._account.close)
            self.bell: Final = bell or Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            undo.pop_all()
        self._granted = memoryview(self._grant).cast("Q")
        self._told = memoryview(self._account).cast("Q")
        self.grant(OPEN, 0, 0)

    @property
    def fds(self) -> tuple[int, int, int]:
        """Descriptors for the worker, which stay ours."""
        return self._grant_fd.fileno(), self._account_fd.fileno(), self.bell.fileno()

    @property
    def lasting(self) -> dict[str, Fd]:
        """Descriptors that another daemon needs to take the worker over, by name; they stay ours."""
        return {"account": self._account_fd, "bell": self.bell}

    def grant(self, until_ns: int, armed: int, beat: int) -> None:
        """Writes the grant; each number is seen whole."""
        self._granted[0], self._granted[1], self._granted[2] = until_ns, armed, beat

    def account(self) -> Account:
        """Reads the account."""
        return Account(self._told[0], self._told[1], self._told[2] == 1)

    def close(self) -> None:
        """Unmaps the pages; a second call does nothing."""
        for view in (self._granted, self._told):
            view.release()
        for page in (self._grant, self._account):
            page.close()
        for fd in (self._grant_fd, self._account_fd, self.bell):
            fd.close()


class WorkerGate:
    """The worker's side of its gate, mapped until the process ends."""

    def __init__(self, grant_fd: int, account_fd: int, bell: int) -> None:
        """Owns the descriptors, of which it keeps `bell` alone.

        :raise OSError: they are not those of a gate.
        """
        with Fd(grant_fd) as grant, Fd(account_fd) as account:
            self.grant: Final = memoryview(mmap.mmap(grant.fileno(), PAGE_BYTES, prot=mmap.PROT_READ))
            self.account: Final = memoryview(mmap.mmap(account.fileno(), PAGE_BYTES))
        self.bell: Final = bell


def _page(name: str, seals: int) -> tuple[Fd, mmap.mmap]:
    """:raise OSError: see `GatePages`."""
    fd = Fd(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(fd.fileno(), PAGE_BYTES)
    page = mmap.mmap(fd.fileno(), PAGE_BYTES)
    try:
        fcntl.fcntl(fd.fileno(), fcntl.F_ADD_SEALS, seals)
    except OSError:
        page.close()
        raise
    return fd, page
