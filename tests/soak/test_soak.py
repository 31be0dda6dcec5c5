"""A short soak in the tests of every change: all parts of it run, and nothing is found."""

from __future__ import annotations

import threading

import pytest

from tests.protocol.worker_rig import needs_walls
from tests.soak.run import Soak

SHARE_H = 12 / 3600


@needs_walls
@pytest.mark.slow
def test_short_soak_finds_nothing() -> None:
    said: list[str] = []
    soak = Soak(SHARE_H, said.append, takeover_s=2.0)
    assert soak.run(threading.Event()), "\n".join(said)
    figures = soak.account.figures
    assert figures["requests done"] > 0
    assert soak.account.happened("daemons killed") + soak.account.happened("daemons upgraded") > 0
    assert {"keeper MiB", "daemon MiB", "workers MiB", "centre MiB"} <= soak.samples[0].values.keys()


@needs_walls
@pytest.mark.slow
def test_interrupted_soak_settles_its_accounts_and_reports() -> None:
    said: list[str] = []
    interrupted = threading.Event()
    soak = Soak(1.0, said.append)
    interrupted.set()
    assert soak.run(interrupted), "\n".join(said)
    assert said[-1].endswith("0 findings")
    assert soak.length_s < 3600
