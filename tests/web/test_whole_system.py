"""The page over the real system: a control centre, a daemon, a worker, and a guest's program with channels."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from playwright.sync_api import BrowserContext, expect

from control_center import address
from control_center.config import CentreConfig
from control_center.host import HostConfig
from control_center.service import running
from tests.fakes.attached import AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.guest import REPOSITORY
from tests.limits import ANSWERS_WITHIN_S
from tests.web.journal import Journal
from vhost_backend.config.daemon import MIB, ControlConfig, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker

PICTURE = "canvas => canvas.toDataURL()"


@contextmanager
def a_daemon(folder: Path) -> Iterator[tuple[DaemonThread, AttachedLink]]:
    """A daemon with a control socket, and the link of its one VM."""
    quota = QuotaConfig(pes=2, memory_bytes=64 * MIB)
    vm = VmConfig(
        "demo", vm_uuid("demo"), folder / "demo", engine=EngineConfig("cpu"), quota=quota, num_queues=2, sandbox=SANDBOX
    )
    config = DaemonConfig((vm,), cache=folder / "cache", control=ControlConfig(socket=folder / "control", host="h1"))
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon:
        link = AttachedLink(folder / "demo", num_queues=2)
        link.wait_ready()
        try:
            yield daemon, link
        finally:
            link.close()


@contextmanager
def a_centre(folder: Path) -> Iterator[str]:
    """Runs a control centre of the daemon on a loop in a thread of its own; yields its URL."""
    told: SimpleQueue[Any] = SimpleQueue()

    async def serve() -> None:
        hosts = (HostConfig("h1", address.parse(f"unix:{folder}/control")),)
        ended = asyncio.Event()
        async with running(CentreConfig(hosts, ("127.0.0.1", 0))) as (url, _):
            told.put((url.rstrip("/"), asyncio.get_running_loop(), ended))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="centre")
    thread.start()
    url, loop, ended = told.get(timeout=ANSWERS_WITHIN_S)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


@contextmanager
def the_example(link: AttachedLink, folder: Path) -> Iterator[None]:
    """Runs ``examples/watched.py`` again and again until the block ends."""
    environment = os.environ | {
        "VGC_MEMFD": link.description,
        "VGC_STATE_DIR": str(folder / "state"),
        "PYTHONPATH": str(REPOSITORY),
    }
    argv = [sys.executable, "examples/watched.py", "--keep-going"]
    guest = subprocess.Popen(argv, cwd=REPOSITORY, env=environment, pass_fds=link.fds, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        guest.kill()
        guest.wait()


def test_the_page_shows_what_a_guests_program_does(context: BrowserContext, tmp_path: Path) -> None:
    with a_daemon(tmp_path) as (_, link), a_centre(tmp_path) as url, the_example(link, tmp_path):
        page = context.new_page()
        journal = Journal(page, url)
        page.goto(f"{url}/#/gpus")
        canvas = page.locator("canvas").first
        expect(canvas).to_be_visible()
        seen = canvas.evaluate(PICTURE)
        page.wait_for_function(
            f"({{canvas, seen}}) => ({PICTURE})(canvas) !== seen", arg={"canvas": canvas.element_handle(), "seen": seen}
        )
        opened = page.request.post(f"{url}/api/v1/channels", data={"selector": "fn=log", "ttl_s": 60, "keep": True})
        assert opened.ok, opened.text()
        page.request.post(
            f"{url}/api/v1/channels", data={"selector": "fn=perf", "ttl_s": 60, "keep": True, "period_ms": 50}
        )
        page.goto(f"{url}/#/log")
        expect(page.get_by_role("log").first).to_contain_text("the corner changes by")
        page.goto(f"{url}/#/counters")
        expect(page.get_by_text("cells").first).to_be_visible()
        page.close()
        assert journal.problems() == []


def test_death_of_a_worker_shows_on_the_page_in_vgcctl_and_in_the_metrics(
    context: BrowserContext, tmp_path: Path
) -> None:
    with a_daemon(tmp_path) as (daemon, link), a_centre(tmp_path) as url:
        page = context.new_page()
        journal = Journal(page, url)
        page.goto(f"{url}/#/gpus")
        badge = page.locator("a[data-view=faults] .badge")
        expect(page.get_by_text("live")).to_be_visible()
        expect(badge).to_be_hidden()
        pid = daemon.ask(lambda running: running.vms["demo"].worker_pid)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        link.wait_ready(2)
        expect(badge).to_have_text("1")
        page.goto(f"{url}/#/faults")
        expect(page.locator("article.fault")).to_contain_text("the worker was killed by SIGKILL")
        metrics = page.request.get(f"{url}/metrics").text()
        assert re.search(r'^vgc_faults_total\{[^}]*vm="demo"[^}]*kind="death"[^}]*\} 1$', metrics, re.MULTILINE)
        page.close()
        assert journal.problems() == []
        argv = [sys.executable, "-m", "control_center.cli", "fault", "ls", "vm=demo", "--centre", url]
        shown = subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True, text=True)
        assert "h1/demo  death" in shown.stdout
        assert "the worker was killed by SIGKILL" in shown.stdout
