"""Refusal of a command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from vhost_backend.errors import VgcError

Kind: TypeAlias = Literal["malformed", "unknown", "denied", "quota", "busy", "failed"]
MAX_NAMED: Final = 16
"""Most existing things that a refusal names; it gives the number of the others."""


class RefusedError(VgcError):
    """A command is refused. `kind` is one of `virtio_proto.control.api.ERROR_KINDS`; the text says what is wrong and
    what is allowed.
    """

    def __init__(self, kind: Kind, text: str) -> None:
        self.kind: Kind = kind
        super().__init__(text)


def named(there: Iterable[object]) -> str:
    """Lists existing things in a text of bounded length."""
    names = [str(name) for name in there]
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "") or "none"


def unknown(what: str, there: Iterable[object]) -> RefusedError:
    """Makes the error for something that does not exist; `there` lists what does."""
    return RefusedError("unknown", f"{what}; there is: {named(there)}")
