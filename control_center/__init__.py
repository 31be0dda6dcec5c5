"""The control centre: one place that watches and steers the GPUs of many hosts, records and replays it."""

from __future__ import annotations

__version__ = "0.1.0"
