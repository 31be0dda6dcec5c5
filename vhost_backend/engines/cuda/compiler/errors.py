"""Errors of a compilation."""

from __future__ import annotations


class CompileError(Exception):
    """The guest's program or options are wrong; the text goes into the log."""


class ToolError(CompileError):
    """A tool has found errors. The text is the tool's log, empty if the tool has written that itself."""
