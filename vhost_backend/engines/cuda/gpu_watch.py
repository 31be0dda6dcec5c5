"""``python -m vhost_backend.engines.cuda.gpu_watch``: versions of this host's GPUs, and every Xid error from then on.

The daemon runs it as a process of its own and reads lines of JSON from it (`vhost_backend.control.host.gpu_events`):

=============  =============================================================================================
``driver``     first line: the driver's version, and ``gpus``, each with uuid, pci_bus_id, vbios_version
``problem``    text of a problem; if this is the first line, it is also the last
``xid``        Xid error of the GPU ``uuid``
=============  =============================================================================================

It ends at the end of its standard input, so with the daemon, however that ends.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
from dataclasses import asdict
from typing import Any, Final

from vhost_backend.engines.cuda.nvml import DEFAULT_LIBRARY, Nvml
from vhost_backend.errors import EngineError

_LOOK_MS: Final = 500
"""Time between two checks that the daemon is still alive."""


def watch(library: str) -> int:
    """Watches until standard input ends; returns the exit status."""
    try:
        with Nvml(library) as nvml:
            gpus = nvml.gpus()
            _tell(driver=nvml.driver_version(), gpus=[asdict(gpu) for gpu in gpus])
            for problem in nvml.watch():
                _tell(problem=problem)
            while not _is_over():
                event = nvml.wait(_LOOK_MS)
                if event is not None:
                    _tell(xid=event[1], uuid=event[0])
    except EngineError as error:
        _tell(problem=str(error))
        return 1
    return 0


def _is_over() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


def _tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(prog="vhost_backend.engines.cuda.gpu_watch", description=__doc__)
    parser.add_argument("--library", default=DEFAULT_LIBRARY, metavar="PATH", help="the libnvidia-ml.so.1 to ask")
    sys.exit(watch(parser.parse_args().library))


if __name__ == "__main__":
    main()
