"""Time limits after which a test says that something hangs: far beyond what an overloaded machine needs."""

from __future__ import annotations

from typing import Final

HANGS_AFTER_S: Final = 500
"""Limit for a process from start to end. A compiler under a sanitizer, beside others, takes 100 times as long."""

ANSWERS_WITHIN_S: Final = 100.0
"""Limit for an answer of a running process."""

TIME_TO_ANSWER_S: Final = 2.0
"""Time to wait for something that must not be answered; a thread of this process answers everything else within it."""

NO_DEADLINE_NS: Final = HANGS_AFTER_S * 10**9
"""Deadline of launches that no launch reaches, for tests that are not about deadlines."""
