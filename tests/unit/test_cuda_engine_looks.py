"""While nothing ends, the engine asks the driver whether the context is lost."""

from __future__ import annotations

import time
from typing import Final

from tests.unit.cuda_rig import gpu

STREAMS: Final = 3
PATIENCE_S: Final = 30


def test_every_stream_is_asked_in_turn() -> None:
    """On a GPU it may be that only the stream of the kernel at fault knows of the error."""
    with gpu() as made:
        hanging = [made.launch("hang", stream=stream) for stream in range(1, STREAMS + 1)]
        made.driver.await_hanging(STREAMS)
        give_up = time.monotonic() + PATIENCE_S
        while len(set(made.driver.calls("cuStreamQuery"))) < STREAMS:
            assert time.monotonic() < give_up, made.driver.calls("cuStreamQuery")
            time.sleep(0.001)
        made.driver.release()
        for pending in hanging:
            made.wait(pending)
