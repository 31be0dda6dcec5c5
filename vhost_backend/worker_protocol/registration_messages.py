"""Messages about programs that a guest registers for its VM; part of `protocol`.

::

    daemon                    worker
                        <-    register      once it has loaded the program, whose source file it leaves alone
    registered          ->    the guest is answered; or the program is unloaded, if it was refused
                        <-    unregister    once the guest has unloaded it
    restore             ->    (each program, in a new worker, before it serves rings) one fd if it compiles: the image
                        <-    ack, or a refusal with the reason why it has no functions any more

The daemon keeps the sources, so that a new worker gets the programs that the last one had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, TypeAlias

from msgspec import Meta

from vhost_backend.worker_protocol.codec import U32, Message
from vhost_backend.worker_protocol.program_terms import Options, SourceNumber

MAX_SIGNATURES: Final = 48
"""Most functions of a program whose signatures the daemon keeps, for people."""
MAX_SIGNATURE: Final = 240
MAX_LOG_CHARS: Final = 4000
"""Longest reason why a program is not there any more."""

Signature: TypeAlias = Annotated[str, Meta(max_length=MAX_SIGNATURE, pattern=r"\A[ -~]+\Z")]
"""Name and parameters of a function, printable."""
Signatures: TypeAlias = Annotated[tuple[Signature, ...], Meta(max_length=MAX_SIGNATURES)]


class Register(Message, frozen=True):
    """Registers the program in source file number `source`, or keeps from now on one that is registered already.

    The worker chooses `request`, and leaves the file alone until the answer has come.
    """

    TYPE: ClassVar[str] = "register"
    request: U32
    program_kind: U32
    options: Options
    source: SourceNumber
    keep: bool  # through restarts of guest and daemon
    num_functions: U32
    signatures: Signatures  # of the first of them


class Unregister(Message, frozen=True):
    """The guest has unregistered a program: it is not restored any more."""

    TYPE: ClassVar[str] = "unregister"
    MAX_BYTES: ClassVar[int] = 64
    number: U32


class Registered(Message, frozen=True):
    """Answer to `Register` number `request`."""

    TYPE: ClassVar[str] = "registered"
    seq: U32
    request: U32
    number: U32  # of the program among those of the VM; 0: it was refused
    why: Annotated[str, Meta(max_length=2048)]


class Restore(Message, frozen=True):
    """Registers a program that an earlier worker had."""

    TYPE: ClassVar[str] = "restore"
    seq: U32
    number: U32
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]
    keep: bool
    ok: bool
    log: Annotated[str, Meta(max_length=MAX_LOG_CHARS)]  # of the compiler; or why there is no image
    signatures: Signatures

    def num_fds(self) -> int:
        return int(self.ok)


def digest_of(kind: int, options: Sequence[str], source: bytes) -> bytes:
    """Digest of a program's content, by which a second registration of it is known to be the first."""
    hashed = hashlib.sha256(f"{kind} {len(options)} ".encode())
    for option in options:
        raw = option.encode()
        hashed.update(b"%d " % len(raw) + raw)
    hashed.update(source)
    return hashed.digest()


RegistrationMessage: TypeAlias = Registered | Restore
REGISTRATION_MESSAGES: Final = (Registered, Restore)
