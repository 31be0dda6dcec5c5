"""Errors that end ``vgc-libvirt`` with a message."""

from __future__ import annotations

from typing import ClassVar

from vhost_backend.errors import VgcError


class DomainError(VgcError):
    """A domain's definition cannot be read or changed; the text says why and what is allowed."""

    exit_code: ClassVar[int] = 2


class LibvirtError(VgcError):
    """libvirt does not answer, or refuses something."""

    exit_code: ClassVar[int] = 1


class RegionError(VgcError):
    """A region file cannot be removed."""
