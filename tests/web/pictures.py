"""``python -m tests.web.pictures [FOLDER]``: pictures of every view, for the documentation (docs/images/control)."""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from tests.fakes.control_world import Shape
from tests.limits import ANSWERS_WITHIN_S
from tests.web.conftest import CHROMIUM
from tests.web.rig import Rig

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "control"
SIZE: Final[ViewportSize] = {"width": 1280, "height": 800}
MAX_BYTES: Final = 150_000
PATIENCE_MS: Final = 1000 * ANSWERS_WITHIN_S
HOSTS: Final = {
    "gpu-a1": {"zone": "a", "rack": "1"},
    "gpu-a2": {"zone": "a", "rack": "2"},
    "gpu-b1": {"zone": "b", "rack": "1"},
    "edge-7": {"zone": "edge"},
}
HISTORY: Final = """async count => {
  const { store } = await import(new URL('js/store.js', document.baseURI));
  for (let at = 0; at < count; at += 1) await new Promise((come) => store.addEventListener('load', come, { once: true }));
}"""
RECORDED: Final = """async () => {
  while ((await (await fetch('api/v1/self')).json()).recorder.records < 2000);
}"""


def prepare(rig: Rig) -> None:
    """Prepares a scene: channels, faults, a policy, a hung VM, a dead host."""
    rig.open_channels("gpu-a1", "vm=gpu-a1-vm0,pe=0-31,fn=log", level=5, owner="ann")
    rig.open_channels("gpu-a1", "vm=gpu-a1-vm1,pe=0-7,fn=perf", owner="dashboard")
    rig.open_channels(
        "gpu-a2", "vm=gpu-a2-vm0,pe=0-3,fn=log", level=3, sample=2, owner="on-call", policy="overwrite-oldest"
    )
    rig.lose("gpu-a2", "log", 12)
    for _ in range(3):
        rig.fault("gpu-a1", "gpu-a1-vm1", 17, text="kernel gemm_tiled: a read of 4 bytes at 0x7f30 is in no allocation")
    rig.fault("gpu-b1", "gpu-b1-vm2", 4, kind="device", text="MMU fault: engine GRAPHICS, access READ")
    rig.freeze("gpu-a1", "gpu-a1-vm3")
    rig.confine("gpu-a2", "gpu-a2-vm1", list(range(64)))
    rig.kill("edge-7")


def _console(page: Page) -> None:
    line = page.get_by_label("Line to send")
    expect(line).to_be_enabled()
    for text in ("status", "set tolerance 1e-6", "go on"):
        line.fill(text)
        line.press("Enter")
        expect(page.get_by_role("log", name="output")).to_contain_text(f"you said: {text}")
    page.evaluate(HISTORY, 6)


def _history(page: Page) -> None:
    page.evaluate(HISTORY, 30)


def _channels(page: Page) -> None:
    page.get_by_role("table", name="Instances").get_by_text("gpu-a1/1").click()
    expect(page.get_by_role("table", name="Channels of the instance")).to_be_visible()


def _snapshots(page: Page) -> None:
    for _ in range(2):
        taken = page.locator(".snapshot-item").count()
        page.get_by_role("button", name="Take snapshot").click()
        expect(page.locator(".snapshot-item")).to_have_count(taken + 1)
        expect(page.get_by_role("button", name="Take snapshot")).to_be_enabled()


def _diff(page: Page) -> None:
    _snapshots(page)
    page.locator(".snapshot-item button:text('Compare'):enabled").first.click()
    expect(page.get_by_role("table", name="Changes")).to_be_visible()


def _timeline(page: Page) -> None:
    page.evaluate(RECORDED)
    page.reload()
    expect(page.locator(".legend-row")).to_contain_text("log")
    box = page.locator("canvas.timeline").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 60, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Zoom in").click()
    expect(page.get_by_role("button", name="Zoom in")).to_be_hidden()
    page.get_by_label("Speed").select_option("10")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("log").locator(".line").nth(12)).to_be_visible()
    page.get_by_role("button", name="Pause").click()


def _moves(page: Page) -> None:
    row = page.get_by_role("table", name="VMs").get_by_role("row", name="gpu-a2-vm2")
    row.get_by_role("button", name="Migrate").click()
    page.get_by_role("dialog").get_by_role("button", name="Migrate").click()
    expect(page.get_by_role("table", name="Migrations").locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Propose migrations").click()
    expect(page.get_by_role("table", name="Proposed migrations")).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)


def _firmware(page: Page) -> None:
    page.get_by_role("button", name="Stage image").click()
    page.get_by_label("PEs (selector)").fill("host=gpu-a1,vm=gpu-a1-vm0,pe=0-63")
    page.get_by_label("Signed image").set_input_files(
        {"name": "control.vgcf", "mimeType": "application/octet-stream", "buffer": b"VGCF of the pictures"}
    )
    page.get_by_role("button", name="Stage", exact=True).click()
    expect(page.get_by_role("table", name="Versions on PEs")).to_contain_text("staged")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".toast")).to_have_count(0)


def _faults(page: Page) -> None:
    page.get_by_role("button", name="Add policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("hung elements")
    dialog.get_by_label("kernel", exact=True).uncheck()
    dialog.get_by_label("hung", exact=True).check()
    dialog.get_by_label("Acts").select_option("sustained")
    dialog.get_by_label("Action").select_option("reset")
    dialog.get_by_role("button", name="Put in force").click()
    expect(page.get_by_role("table", name="Policies")).to_contain_text("hung elements")
    expect(page.locator(".toast")).to_have_count(0)


def _nothing(page: Page) -> None:
    page.evaluate(HISTORY, 2)


PICTURES: Final[dict[str, tuple[str, str, Callable[[Page], None]]]] = {
    "console": ("console?host=gpu-a1&vm=gpu-a1-vm0&pe=3", "", _console),
    "cluster": ("cluster", "", _history),
    "gpus": ("gpus", "", _nothing),
    "counters": ("counters", "", _history),
    "log": ("log", "", _history),
    "faults": ("faults", "", _faults),
    "snapshots": ("snapshots", "host=gpu-a1,vm=gpu-a1-vm1|gpu-a1-vm3,pe=0-15", _snapshots),
    "snapshot-diff": ("snapshots?", "host=gpu-a1,vm=gpu-a1-vm1|gpu-a1-vm3,pe=0-15", _diff),
    "channels": ("channels", "", _channels),
    "migrations": ("migrations", "", _moves),
    "firmware": ("firmware", "", _firmware),
    "self": ("self", "", _history),
    "timeline": ("timeline", "", _timeline),
}
"""Pictures by file: the view, its selector, and the actions before the picture is taken."""


def _save(picture: bytes, path: Path) -> None:
    """Saves a small PNG; one that is still too large gets a palette."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.save(path, optimize=True)
    if path.stat().st_size > MAX_BYTES:
        image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)


def take(page: Page, rig: Rig, folder: Path) -> None:
    """Takes the pictures. :raise SystemExit: a picture is larger than the limit."""
    for name, (view, scope, act) in PICTURES.items():
        page.goto(f"{rig.url}#/{view}")
        page.get_by_label("Selector for all views").fill(scope)
        page.get_by_label("Selector for all views").blur()
        act(page)
        path = folder / f"{name}.png"
        _save(page.screenshot(animations="disabled"), path)
        if path.stat().st_size > MAX_BYTES:
            raise SystemExit(f"{path}: {path.stat().st_size} bytes; allowed: {MAX_BYTES}")
        print(path.name, path.stat().st_size)  # noqa: T201  for whoever runs it


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.web.pictures", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=PATIENCE_MS)
    with (
        tempfile.TemporaryDirectory() as sockets,
        Rig(Path(sockets), hosts=HOSTS, shape=Shape(gpus=4, pes=132, vms_per_gpu=1), tick_s=0.4) as rig,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="dark")
        page.goto(rig.url)
        expect(page.locator("article.host[data-state=up]")).to_have_count(len(HOSTS))
        prepare(rig)
        take(page, rig, folder)
        browser.close()


if __name__ == "__main__":
    main()
