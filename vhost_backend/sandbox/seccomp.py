"""Seccomp policies, and their translation to BPF programs.

A `Policy` gives each system call an `Action`, or `Clauses` that look at the arguments. Calls that it does not name get
its default action. Calls of another ABI (32-bit, x32) kill the process, because their numbers mean something else.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from vhost_backend.errors import HostError
from vhost_backend.sandbox.syscalls import X86_64


class Action(IntEnum):
    """Action on a system call [linux/seccomp.h]."""

    ALLOW = 0x7FFF0000
    KILL = 0x80000000  # the whole process, by SIGSYS
    EPERM = 0x00050000 | errno.EPERM
    NOTIFY = 0x7FC00000  # SECCOMP_RET_USER_NOTIF: the thread waits until the owner of the listener has answered
    ENOSYS = 0x00050000 | errno.ENOSYS  # for calls that C libraries probe before they use an older one


@dataclass(frozen=True, slots=True)
class Check:
    """Test that `argument` (0..5), masked, equals `value`. Masks below 2^32 ignore the upper half."""

    argument: int
    value: int
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Clauses:
    """List of clauses: the first one whose checks are all true gives the action, else `otherwise`."""

    clauses: tuple[tuple[tuple[Check, ...], Action], ...]
    otherwise: Action


@dataclass(frozen=True, slots=True)
class Policy:
    """Action or clauses for each system call, by name."""

    rules: Mapping[str, Action | Clauses]
    default: Action

    @property
    def notifies(self) -> bool:
        """True if any rule is `NOTIFY`, so that a listener must answer."""
        found = {self.default}
        for rule in self.rules.values():
            found |= {rule.otherwise, *(action for _, action in rule.clauses)} if isinstance(rule, Clauses) else {rule}
        return Action.NOTIFY in found


_Instruction: TypeAlias = tuple[int, int, int, int]  # code, jump if true, jump if false, constant

_LOAD: Final = 0x20
_AND: Final = 0x54
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06

_OFFSET_NUMBER: Final = 0
_OFFSET_ARCHITECTURE: Final = 4
_OFFSET_ARGUMENTS: Final = 16
_AUDIT_ARCH_X86_64: Final = 0xC000003E
_X32_BIT: Final = 0x40000000
_MACHINE: Final = "x86_64"

_SET_MODE_FILTER: Final = 1
_FLAG_TSYNC: Final = 1
_FLAG_NEW_LISTENER: Final = 8
_FLAG_TSYNC_ESRCH: Final = 16
_FLAG_WAIT_KILLABLE: Final = 32
"""Delays signals that do not kill until a reported call is answered: it would otherwise be reported again."""


def assemble(policy: Policy) -> bytes:
    """Translates `policy` to an array of ``struct sock_filter``.

    :raise HostError: this machine's system call numbers are not known.
    :raise KeyError: the policy names a system call that does not exist.
    """
    machine = os.uname().machine
    if machine != _MACHINE:
        raise HostError(f"no system call filter for {machine} processors", f"supported: {_MACHINE}")
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, Action.KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, Action.KILL),
    ]
    for name, rule in policy.rules.items():
        body = _clauses(rule) if isinstance(rule, Clauses) else [_return(rule)]
        program += [(_JUMP_EQUAL, 0, len(body), X86_64[name]), *body]
    program.append(_return(policy.default))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def install(policy: Policy) -> int | None:
    """Puts every thread of this process under `policy`, for good. Needs no_new_privs.

    Returns the listener, which the caller owns, if the policy has `Action.NOTIFY`: a thread that makes such a call
    waits until it is answered from elsewhere (`listener.CallListener`).

    :raise OSError: the kernel refuses.
    """
    if not policy.notifies:
        result = _install(policy, _FLAG_TSYNC)
        if result > 0:
            raise OSError(errno.EBUSY, f"seccomp: thread {result} is under another filter")
        return None
    flags = _FLAG_TSYNC | _FLAG_NEW_LISTENER | _FLAG_TSYNC_ESRCH
    try:
        return _install(policy, flags | _FLAG_WAIT_KILLABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 5.19
            raise
        return _install(policy, flags)


def _install(policy: Policy, flags: int) -> int:
    code = assemble(policy)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(X86_64["seccomp"], _SET_MODE_FILTER, flags, program))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    return result


def _return(action: Action) -> _Instruction:
    return (_RETURN, 0, 0, action)


def _clauses(rule: Clauses) -> list[_Instruction]:
    program: list[_Instruction] = []
    for checks, action in rule.clauses:
        clause = [_return(action)]
        for check in reversed(checks):
            clause = _check(check, skip=len(clause)) + clause
        program += clause
    return [*program, _return(rule.otherwise)]


def _check(check: Check, skip: int) -> list[_Instruction]:
    """Instructions that fall through if `check` is true, else jump over the `skip` instructions that follow them."""
    low = _OFFSET_ARGUMENTS + 8 * check.argument
    program = [*_compare(low + 4, check.mask >> 32, check.value >> 32, skip + 3)] if check.mask >> 32 else []
    return program + _compare(low, check.mask & 0xFFFFFFFF, check.value & 0xFFFFFFFF, skip)


def _compare(offset: int, mask: int, value: int, skip: int) -> list[_Instruction]:
    return [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask), (_JUMP_EQUAL, 0, skip, value)]
