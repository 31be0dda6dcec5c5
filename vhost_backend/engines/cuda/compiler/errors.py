"""The ways in which a compilation ends without an image."""

from __future__ import annotations


class CompileError(Exception):
    """What is wrong with the guest's program or options; goes into the log."""


class ToolError(CompileError):
    """A tool has found the errors. The text is its own log, empty if it has written that already."""
