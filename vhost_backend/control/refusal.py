"""What a command is refused with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from vhost_backend.errors import VgcError

Kind: TypeAlias = Literal["malformed", "unknown", "denied", "quota", "busy", "failed"]
MAX_NAMED: Final = 16
"""So many of what there is are named in a refusal, and how many more there are."""


class RefusedError(VgcError):
    """A command is not done; `kind` is one of `virtio_proto.control.api.ERROR_KINDS`, the text says what is wrong and what is allowed."""

    def __init__(self, kind: Kind, text: str) -> None:
        self.kind: Kind = kind
        super().__init__(text)


def named(there: Iterable[object]) -> str:
    """What there is, as a list for people that is never long."""
    names = [str(name) for name in there]
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "") or "none"


def unknown(what: str, there: Iterable[object]) -> RefusedError:
    """Something that is not there; `there` is what is."""
    return RefusedError("unknown", f"{what}; there is: {named(there)}")
