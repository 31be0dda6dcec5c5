"""Seccomp policies and the BPF programs they become.

A `Policy` says for each system call what happens: an `Action`, or `Clauses` that look at the arguments. What
it does not name gets its default. Calls of another ABI (32-bit, x32) kill the process: their numbers mean
something else.
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
    """What becomes of a system call [linux/seccomp.h]."""

    ALLOW = 0x7FFF0000
    KILL = 0x80000000  # the whole process, by SIGSYS
    EPERM = 0x00050000 | errno.EPERM
    ENOSYS = 0x00050000 | errno.ENOSYS  # for calls that C libraries probe before they use an older one


@dataclass(frozen=True, slots=True)
class Check:
    """True if `argument` (0..5), masked, is `value`. Masks below 2^32 leave the upper half unread."""

    argument: int
    value: int
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Clauses:
    """The action of the first clause whose checks are all true, else `otherwise`."""

    clauses: tuple[tuple[tuple[Check, ...], Action], ...]
    otherwise: Action


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to each system call, by name."""

    rules: Mapping[str, Action | Clauses]
    default: Action


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


def assemble(policy: Policy) -> bytes:
    """Returns `policy` as an array of ``struct sock_filter``.

    :raise HostError: when this machine's system call numbers are not known.
    :raise KeyError: when the policy names a system call that does not exist.
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


def install(policy: Policy) -> None:
    """Puts every thread of this process under `policy`, for good. Needs no_new_privs.

    :raise OSError: when the kernel refuses.
    """
    code = assemble(policy)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(X86_64["seccomp"], _SET_MODE_FILTER, _FLAG_TSYNC, program)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    if result > 0:
        raise OSError(errno.EBUSY, f"seccomp: thread {result} is under another filter")


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
    """Goes on with the next instruction if `check` is true, else jumps over the `skip` after its own."""
    low = _OFFSET_ARGUMENTS + 8 * check.argument
    program = [*_compare(low + 4, check.mask >> 32, check.value >> 32, skip + 3)] if check.mask >> 32 else []
    return program + _compare(low, check.mask & 0xFFFFFFFF, check.value & 0xFFFFFFFF, skip)


def _compare(offset: int, mask: int, value: int, skip: int) -> list[_Instruction]:
    return [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask), (_JUMP_EQUAL, 0, skip, value)]
