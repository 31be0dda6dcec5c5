"""Errors of a compilation."""

from __future__ import annotations

from ...containers.errors import CompileError

__all__ = ["CompileError", "ToolError"]


class ToolError(CompileError):
    """A tool has found errors. The text is the tool's log, empty if the tool has written that itself."""
