"""Rows of the control centre at scale: time of a page's data, and memory for serving 52,800 processing elements."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.lab import Lab
from bench.processes import resident
from bench.registry import Outcome, row
from bench.results import Goal, SkipRow, outcome

HOSTS: Final = 50
GPUS: Final = 8
PES: Final = 132
PAGE: Final = ("hosts", "load", "channels?totals=1", "faults?cleared=1")
"""Requests of the page when it is opened, sent at once, as a browser does."""
STREAMS: Final = 4
CHANNELS: Final = 4096
"""Channels in the answer that is decoded and checked."""
_START_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Measured:
    page_ms: tuple[float, ...]
    full_channels_ms: tuple[float, ...]
    rss_mib: float


@contextlib.contextmanager
def _started(argv: list[str], ready: str) -> Iterator[tuple[int, str]]:
    """Runs one of our programs; yields its pid and the first line that contains `ready`."""
    with subprocess.Popen([sys.executable, "-m", *argv], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if ready in line), "")
            if not line:
                raise SkipRow(f"{argv[0]} ended with {process.wait()}")
            yield process.pid, line
        finally:
            process.terminate()
            process.communicate()  # reads its last message


def p95(values: tuple[float, ...]) -> float:
    """Value that 95 % of `values` do not exceed."""
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


@contextlib.asynccontextmanager
async def _streaming(url: str, count: int) -> AsyncIterator[None]:
    """Opens `count` streams of the load and of all log records, and reads them."""
    from aiohttp import ClientSession

    async def read(session: ClientSession) -> None:
        async with session.ws_connect(f"{url}stream?selector=fn%3Dlog&events=1&load=1", max_msg_size=0) as socket:
            async for _message in socket:
                pass

    async with ClientSession() as session:
        tasks = [asyncio.create_task(read(session)) for _ in range(count)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _measure(url: str, pid: int, hosts: int, rounds: int) -> _Measured:
    from aiohttp import ClientSession

    async with ClientSession() as session:

        async def fetch(path: str) -> bytes:
            async with session.get(url + path) as response:
                response.raise_for_status()
                return await response.read()

        async def timed(*paths: str) -> float:
            start = time.perf_counter()
            await asyncio.gather(*map(fetch, paths))
            return (time.perf_counter() - start) * 1e3

        await _until_up(fetch, hosts)
        for selector in ("fn=load", "fn=log,pe=0-3"):
            async with session.post(url + "channels", json={"selector": selector}) as response:
                response.raise_for_status()
        async with _streaming(url, STREAMS):
            await timed(*PAGE)
            pages = [await timed(*PAGE) for _ in range(rounds)]
            full = [await timed("channels") for _ in range(3)]
        return _Measured(tuple(pages), tuple(full), resident([pid]).total)


async def _until_up(fetch: object, hosts: int) -> None:
    import json

    assert callable(fetch)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        listed = json.loads(await fetch("hosts"))
        if sum(host["state"] == "up" for host in listed) == hosts:
            return
        await asyncio.sleep(0.2)
    raise SkipRow(f"not all of {hosts} simulated hosts were up after {_START_S:g} s")


def measure(folder: Path, hosts: int, gpus: int, pes: int, rounds: int) -> _Measured:
    """Measures a control centre over simulated hosts, which run in a separate process."""
    shape = ["--hosts", str(hosts), "--gpus", str(gpus), "--pes", str(pes), "--vms-per-gpu", "1", "--faults"]
    with _started(["tests.fakes.control_daemon", "--socket-dir", str(folder), *shape], "ready"):
        named = [f"--host=h{number}=unix:{folder}/h{number}.sock" for number in range(1, hosts + 1)]
        with _started(["control_center.server", "--listen", "127.0.0.1:0", *named], "open http") as (pid, line):
            url = line.rpartition(" ")[2].strip() + "api/v1/"
            return asyncio.run(_measure(url, pid, hosts, rounds))


@row("centre_page_p95_ms", "centre_all_channels_ms", "centre_rss_mib")
def centre(lab: Lab) -> Iterator[Outcome]:
    """Measures 50 simulated hosts of 8 GPUs of 132 elements, all with open channels, and four streams of load and logs:
    the page's requests at once, the list of all single channels, and the server's memory.
    """
    try:
        large = measure(lab.own_folder("centre"), HOSTS, GPUS, PES, lab.samples(60, 10))
        small = measure(lab.own_folder("centre-one"), 1, 1, PES, lab.samples(60, 10))
    except SkipRow as reason:
        for name in ("centre_page_p95_ms", "centre_all_channels_ms", "centre_rss_mib"):
            yield outcome(name, reason, "", "lower")
        return
    one = "one host with one GPU"
    page = p95(large.page_ms), p95(small.page_ms)
    yield outcome("centre_page_p95_ms", page[0], "ms", "lower", page[1], against=one, goal=Goal("value", "<", 200))
    full = p95(large.full_channels_ms), p95(small.full_channels_ms)
    yield outcome("centre_all_channels_ms", full[0], "ms", "lower", full[1], against=one)
    rss = large.rss_mib, small.rss_mib
    yield outcome("centre_rss_mib", rss[0], "MiB", "lower", rss[1], against=one, goal=Goal("value", "<", 1024))


@row("centre_answer_check_ms")
def answer_check(lab: Lab) -> Iterator[Outcome]:
    """A daemon's list of an instance with 4096 channels, decoded to the type of its verb, which checks it."""
    from virtio_proto.control import frames
    from virtio_proto.control.shapes import decoded
    from virtio_proto.control.verbs.channels import Ls

    counts = dict.fromkeys(("records", "lost", "skipped", "forged", "cost_ns", "sample"), 123_456)
    about = {"function": "log", "selector": "fn=log", "owner": "bench", "level": 4, "policy": "drop-new"}
    channels = [{"channel": number, "gpu": "0", "vm": "web1", "pe": number, **counts} for number in range(CHANNELS)]
    instance = {"instance": 1, **about, "opened_ns": time.time_ns(), "expires_ns": None, "channels": channels}
    body = frames.encode({"instances": [instance]})[4:]

    def timed_ms(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e3

    rounds = lab.samples(50, 5)
    check = min(timed_ms(lambda: decoded(body, Ls.Answer, "ls")) for _ in range(rounds))
    decode = min(timed_ms(lambda: frames.decode(body)) for _ in range(rounds))
    yield outcome("centre_answer_check_ms", check, "ms", "lower", decode, against="decoding it without its type")
