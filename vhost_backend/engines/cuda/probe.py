"""``python -m vhost_backend.engines.cuda.probe``: which GPUs this host has, as one line of JSON.

The daemon runs it as a process of its own: whoever has called the driver once keeps memory of every GPU, and must
not fork. It ends with 0 whatever it finds.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any, Final

from vhost_backend.engines.cuda import device
from vhost_backend.engines.cuda.device import Device
from vhost_backend.engines.cuda.driver import DEFAULT_LIBRARY, start

__all__ = ["Probe", "parse", "probe"]

_MAX_LINE: Final = 1 << 16
_MAX_DEVICES: Final = 64
_MAX_PROBLEM: Final = 4096


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found."""

    driver_version: str | None
    """The CUDA version that the driver knows; None: there is no driver that works."""
    devices: tuple[Device, ...]
    """That can be used."""
    problem: str | None
    """Why there are no devices, or not more."""

    def to_json(self) -> str:
        """One line."""
        found = [device.to_json() for device in self.devices]
        return json.dumps({"driver_version": self.driver_version, "devices": found, "problem": self.problem})


def probe(library: str = DEFAULT_LIBRARY, visible: str | None = None) -> Probe:
    """Asks the driver. Never raises."""
    version = None
    try:
        driver = start(library, visible)
        version = ".".join(map(str, driver.version()))
        usable, problems = device.devices(driver)
    except Exception as error:  # noqa: BLE001  whatever is wrong with a host's driver: the CPU engine works without
        return Probe(version, (), str(error) or type(error).__name__)
    if not usable and not problems:
        problems.append("the driver has found no GPU: see nvidia-smi -L")
    return Probe(version, tuple(usable), "; ".join(problems) or None)


def parse(text: str) -> Probe:
    """What a probe printed, on its last line; a Probe with a problem if that is not one's answer."""
    lines = text.strip().splitlines()
    try:
        return _checked(json.loads(lines[-1][:_MAX_LINE] if lines else ""))
    except (ValueError, RecursionError) as error:
        return Probe(None, (), f"the probe's answer cannot be read: {error}")


def _checked(answer: Any) -> Probe:
    """:raise ValueError: it has a member of another kind than it should."""
    members = answer if isinstance(answer, dict) else {}
    version, found, problem = (members.get(name) for name in ("driver_version", "devices", "problem"))
    if version is not None and not (isinstance(version, str) and _is_version(version)):
        raise ValueError(f"driver_version is {version!r:.40}; allowed: MAJOR.MINOR, null")
    if problem is not None and not isinstance(problem, str):
        raise ValueError(f"problem is {problem!r:.40}; allowed: a text, null")
    if not isinstance(found, list) or len(found) > _MAX_DEVICES:
        raise ValueError(f"devices is {found!r:.40}; allowed: a list of at most {_MAX_DEVICES}")
    return Probe(version, tuple(map(Device.from_json, found)), problem and problem[:_MAX_PROBLEM])


def _is_version(text: str) -> bool:
    major, dot, minor = text.partition(".")
    return bool(dot) and all(len(part) < 4 and part.isascii() and part.isdigit() for part in (major, minor))


def main() -> None:
    """Prints the one line."""
    parser = argparse.ArgumentParser(prog="vhost_backend.engines.cuda.probe", description=__doc__)
    parser.add_argument("--driver", default=DEFAULT_LIBRARY, metavar="PATH", help="the libcuda.so.1 to ask")
    parser.add_argument("--device", metavar="UUID", help="look at this MIG instance only")
    arguments = parser.parse_args()
    sys.stdout.write(probe(arguments.driver, device.visible_name(arguments.device)).to_json() + "\n")


if __name__ == "__main__":
    main()
