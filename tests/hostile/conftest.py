"""The daemon of the protocol tests: real, with worker doubles that a test drives as hostile code would."""

from __future__ import annotations

from tests.protocol.conftest import logs, make_stage, memory, ring, stage

__all__ = ["logs", "make_stage", "memory", "ring", "stage"]
