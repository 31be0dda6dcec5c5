"""``python -m vhost_backend.engines.cuda.probe``: prints this host's GPUs as one line of JSON.

The daemon runs it as a process of its own (`vhost_backend.daemon.gpus`): a process that has called the driver keeps
memory of every GPU, and must not fork. Its exit status is always 0. Members of the object:

==================  ================================================================================
``driver_path``     path of the driver, for workers, whose linker cannot search for it; or null
``driver_version``  newest CUDA version that the driver supports, or null
``devices``         usable devices
``problem``         why devices cannot be used or found; or null
==================  ================================================================================
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from typing import Any

from vhost_backend.engines.cuda.device import devices
from vhost_backend.engines.cuda.driver import DEFAULT_LIBRARY, start


def probe(library: str) -> dict[str, Any]:
    """Reads the driver's devices. Never raises."""
    found: dict[str, Any] = {"driver_path": None, "driver_version": None, "devices": [], "problem": None}
    try:
        driver = start(library)
        found["driver_path"] = driver.library
        found["driver_version"] = ".".join(map(str, driver.version()))
        usable, problems = devices(driver)
    except Exception as error:  # noqa: BLE001  the CPU engine works without a driver
        return found | {"problem": str(error) or type(error).__name__}
    if not usable and not problems:
        problems = ["the driver has found no GPU: see nvidia-smi -L"]
    return found | {"devices": [asdict(device) for device in usable], "problem": "; ".join(problems) or None}


def main() -> None:
    """Prints the line. Text that the driver prints goes to stderr."""
    parser = argparse.ArgumentParser(prog="vhost_backend.engines.cuda.probe", description=__doc__)
    parser.add_argument("--driver", default=DEFAULT_LIBRARY, metavar="PATH", help="the libcuda.so.1 to ask")
    arguments = parser.parse_args()
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        output.write(json.dumps(probe(arguments.driver)) + "\n")


if __name__ == "__main__":
    main()
