"""Errors of a compilation."""

from __future__ import annotations


class CompileError(Exception):
    """The guest's program or options are wrong; the text goes into the log."""
