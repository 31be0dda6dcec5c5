"""Survey of the host's GPUs, by a separate process: the daemon itself never loads a driver.

``python -m vhost_backend.engines.cuda.probe`` prints one JSON object. It runs the host's driver, which may hang or
crash; so its time is bounded, and its output is checked like any input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vhost_backend.daemon.process import describe_exit
from vhost_backend.sandbox.launch import python_path

PROBE_S: Final = 60.0
"""Timeout of the probe: without a persistence daemon, drivers take some seconds for each GPU."""

MAX_GPUS: Final = 64
PROBE: Final = (sys.executable, "-m", "vhost_backend.engines.cuda.probe")
_MAX_BYTES: Final = 256 << 10
_VERSION: Final = re.compile(r"\d{1,3}\.\d{1,3}")
_ARCH: Final = re.compile(r"sm_\d{2,3}[a-z]?")
_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f-]{1,60}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPU, or MIG instance of a GPU."""

    index: int
    uuid: str
    name: str
    arch: str
    """Architecture, such as ``sm_90``."""
    num_pes: int
    """Number of multiprocessors."""
    memory_bytes: int
    min_pes: int
    pe_granularity: int
    """Granularity of partitions: one has at least `min_pes` multiprocessors and a multiple of this, or has all."""
    max_shared_bytes: int


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of a probe; without GPUs, `problem` says why."""

    gpus: tuple[Gpu, ...] = ()
    driver_version: str = ""
    """Newest CUDA version that the driver supports, such as ``13.0``."""
    problem: str = ""
    driver_path: str = ""
    """Path of the driver's library, which a worker would not find by its name; "" if the probe could not tell."""


class SurveyError(Exception):
    """The probe failed, or its output is malformed."""


async def survey(
    driver: str | None = None, visible: str | None = None, probe: Sequence[str] = PROBE, timeout_s: float = PROBE_S
) -> Survey:
    """Surveys the GPUs of `driver`, None: the host's own; only the device `visible`, if it is given.

    Raises no errors: they become the survey's `problem`.
    """
    argv = (*probe, *(() if driver is None else ("--driver", driver)))
    environment = {**os.environ, "PYTHONPATH": python_path()}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    try:
        return parse_survey(await _output(argv, environment, timeout_s))
    except (OSError, SurveyError) as error:
        return Survey(problem=f"the GPUs could not be examined: {error}")


async def _output(argv: tuple[str, ...], environment: Mapping[str, str], timeout_s: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output = await _read(process)
            code = await process.wait()
    except TimeoutError:
        raise SurveyError(f"the driver did not answer within {timeout_s:g} s") from None
    finally:
        await _end(process)
    if code != 0:
        raise SurveyError(f"the probe {describe_exit(code)}")
    return output


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    output = b""
    while part := await process.stdout.read(_MAX_BYTES):
        output += part
        if len(output) > _MAX_BYTES:
            raise SurveyError(f"the probe printed more than {_MAX_BYTES} bytes")
    return output


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills the probe with its children. A process that hangs inside the kernel's driver is not waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await process.wait()


def parse_survey(output: bytes) -> Survey:
    """Parses the output of a probe.

    :raise SurveyError: the output is malformed.
    """
    try:
        found = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise SurveyError(f"the probe printed no JSON: {error!s:.80}") from None
    if not isinstance(found, dict) or not isinstance(found.get("devices"), list):
        raise SurveyError("the probe printed no list of devices")
    if len(found["devices"]) > MAX_GPUS:
        raise SurveyError(f"the probe found {len(found['devices'])} devices; allowed: {MAX_GPUS}")
    gpus = tuple(_gpu(device) for device in found["devices"])
    version = found.get("driver_version")
    driver_version = _matching(version, "driver_version", _VERSION) if version is not None else ""
    problem = _plain(found.get("problem") or "", "problem", 1000)
    if gpus and not driver_version:
        raise SurveyError("the probe found devices without a driver")
    if not gpus and not problem:
        problem = "the NVIDIA driver sees no GPU"
    return Survey(gpus, driver_version, problem, _plain(found.get("driver_path") or "", "driver_path", 4096))


def _gpu(found: Any) -> Gpu:
    if not isinstance(found, dict):
        raise SurveyError("a device is no object")
    return Gpu(
        index=_integer(found, "index", 0, MAX_GPUS - 1),
        uuid=_matching(found.get("uuid"), "uuid", _UUID),
        name=_plain(found.get("name"), "name", 256),
        arch=_matching(found.get("arch"), "arch", _ARCH),
        num_pes=_integer(found, "num_pes", 1, 1 << 16),
        memory_bytes=_integer(found, "memory_bytes", 0, 1 << 62),
        min_pes=_integer(found, "min_pes", 1, 1 << 16),
        pe_granularity=_integer(found, "pe_granularity", 1, 1 << 16),
        max_shared_bytes=_integer(found, "max_shared_bytes", 0, 1 << 31),
    )


def _integer(found: dict[str, Any], name: str, low: int, high: int) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise SurveyError(f"{name} is {value!r:.80}; allowed: an integer of {low} to {high}")
    return value


def _matching(value: Any, name: str, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise SurveyError(f"{name} is {value!r:.80}; allowed: {pattern.pattern}")
    return value


def _plain(value: Any, name: str, max_chars: int) -> str:
    if not isinstance(value, str):
        raise SurveyError(f"{name} is {value!r:.80}; allowed: text")
    return "".join(char if char.isprintable() else " " for char in value[:max_chars]).strip()
