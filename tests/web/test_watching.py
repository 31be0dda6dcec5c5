"""Views that show: cluster, GPUs, counters, log, self-cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.small_disk import small_disk
from tests.web.journal import Journal
from tests.web.rig import Rig

VIEWS = (
    *("Cluster", "GPUs", "VMs", "Counters", "Log", "Faults", "Snapshots", "Time line"),
    *("Console", "Channels", "Load & migrations", "Firmware", "Self-cost"),
)
ANY_NUMBER = re.compile(r"\d+")
Go = Callable[[str], Page]
Opened = Callable[[str], tuple[Page, Journal]]
MORE_RECORDS = """async () => {
  const { store } = await import(new URL('js/store.js', document.baseURI));
  for (let at = 0; at < 3; at += 1) await new Promise((come) => store.addEventListener('record', come, { once: true }));
}"""
COLOURS = """canvas => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let sum = 0;
  for (let at = 0; at < data.length; at += 4) sum += data[at] + data[at + 1] + data[at + 2];
  return sum;
}"""


def card(page: Page, host: str) -> Locator:
    return page.locator(f"article[data-host='{host}']")


def test_every_view_is_reached_from_the_rail(page: Page) -> None:
    for title in VIEWS:
        page.get_by_role("navigation").get_by_role("link", name=title).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.get_by_role("navigation").locator("[aria-current=page]")).to_contain_text(title)
        expect(page.locator("#view > .error:visible")).to_have_count(0)


def test_the_keyboard_alone_reaches_a_view(page: Page) -> None:
    expect(card(page, "h1")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("GPUs")


def test_hosts_are_cards_with_their_gpus_and_labels(page: Page) -> None:
    expect(page.locator("article.host")).to_have_count(3)
    expect(card(page, "h1").locator(".gpu")).to_have_count(2)
    expect(card(page, "h1")).to_contain_text("zone=a")
    expect(card(page, "h1").get_by_role("meter").first).to_have_attribute("aria-valuenow", ANY_NUMBER)


def test_the_selector_above_filters_the_cluster(page: Page) -> None:
    expect(page.locator("article.host")).to_have_count(3)
    page.get_by_label("Selector for all views").fill("host=h2")
    expect(page.locator("article.host")).to_have_count(1)
    expect(card(page, "h2")).to_be_visible()


def test_a_malformed_selector_says_what_is_allowed(page: Page) -> None:
    page.get_by_label("Selector for all views").fill("rack=7")
    expect(page.locator(".scope-error")).to_contain_text("rack=7: key=value with host, gpu, vm, pe, fn")


def test_a_host_that_dies_is_stale_then_down_and_comes_back(page: Page, rig: Rig) -> None:
    expect(card(page, "h3")).to_have_attribute("data-state", "up")
    rig.kill("h3")
    expect(card(page, "h3")).to_have_attribute("data-state", "stale")
    expect(card(page, "h3")).to_have_attribute("data-state", "down")
    expect(card(page, "h3").locator("header")).to_contain_text("down")
    rig.mend()
    expect(card(page, "h3")).to_have_attribute("data-state", "up")


@pytest.mark.parametrize("colours", ["vm", "heat"])
def test_the_heat_grid_moves_with_the_load(opened: Opened, rig: Rig, colours: str) -> None:
    rig.shift_load("h1", "h1-vm0", 0.0)
    page, journal = opened(f"{rig.url}#/gpus")
    journal.allow("willReadFrequently")  # the browser's advice about reading pixels, as this test does
    page.get_by_label("Colours").select_option(colours)
    canvas = page.locator("[data-gpu='h1/0'] canvas[data-vm='h1-vm0']")
    expect(canvas).to_be_visible()
    before = canvas.evaluate(COLOURS)
    rig.shift_load("h1", "h1-vm0", 1.0)
    page.wait_for_function(
        f"before => Math.abs(({COLOURS})(document.querySelector(\"canvas[data-vm='h1-vm0']\")) - before) > 2000",
        arg=before,
    )


def test_a_cell_tells_its_element_and_opens_it(go: Go) -> None:
    page = go("gpus")
    canvas = page.locator("canvas[data-vm='h1-vm1']")
    canvas.hover(position={"x": 50, "y": 6})
    expect(page.get_by_role("tooltip")).to_contain_text("PE ")
    expect(page.get_by_role("tooltip")).to_contain_text("VM h1-vm1")
    canvas.click(position={"x": 50, "y": 6})
    expect(page.get_by_role("heading", level=1)).to_have_text("Console")
    expect(page.locator(".terminal h2")).to_contain_text("h1 / h1-vm1 / PE ")


def test_arrow_keys_walk_the_heat_grid(go: Go) -> None:
    page = go("gpus")
    canvas = page.locator("canvas[data-vm='h1-vm1']")
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".terminal h2")).to_have_text("h1 / h1-vm1 / PE 2")


def test_counters_of_perf_channels_and_a_threshold(go: Go, rig: Rig) -> None:
    rig.open_channels("h1", "vm=h1-vm0,pe=0-3,fn=perf")
    page = go("counters")
    expect(page.get_by_role("table", name="PEs").locator("tbody tr")).to_have_count(4)
    values = page.get_by_role("table", name="Counters and gauges")
    expect(values).to_contain_text("items")
    values.get_by_role("row", name="residual").first.get_by_role("button", name="Threshold").click()
    page.get_by_label("High").fill("0.5")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("Threshold of residual is set")
    assert rig.daemons["h1"].world.vms["h1-vm0"].thresholds["residual"][1] == 0.5


def test_the_log_filters_by_level_and_text(go: Go, rig: Rig) -> None:
    rig.open_channels("h1", "vm=h1-vm0,pe=0,fn=log", level=5)
    page = go("log")
    lines = page.get_by_role("log")
    expect(lines).to_contain_text("debug")
    expect(lines).to_contain_text("block")
    page.get_by_label("Level").select_option("2")
    expect(lines.locator(".line:not([hidden])", has_text="info")).to_have_count(0)
    expect(lines.locator(".what", has_text="error").first).to_be_visible()
    page.get_by_label("Text").fill("no kernel says this")
    expect(lines.locator(".line:not([hidden])")).to_have_count(0)


def test_a_paused_log_stands_still_and_goes_on(go: Go, rig: Rig) -> None:
    rig.open_channels("h1", "vm=h1-vm0,pe=0,fn=log", level=5)
    page = go("log")
    expect(page.get_by_role("log")).to_contain_text("block")
    page.get_by_role("button", name="Pause").click()
    before = page.locator(".lines .line").count()
    page.evaluate(MORE_RECORDS)
    assert page.locator(".lines .line").count() == before
    page.get_by_role("button", name="Resume").click()
    page.wait_for_function("before => document.querySelectorAll('.lines .line').length > before", arg=before)


def test_what_watching_costs_is_shown(go: Go, rig: Rig) -> None:
    rig.open_channels("h1", "vm=h1-vm0,fn=log")
    page = go("self")
    expect(page.get_by_role("table", name="Daemons")).to_contain_text("48 MiB")
    expect(page.get_by_role("table", name="Cost by VM")).to_contain_text("h1/h1-vm0")
    expect(page.locator(".facts")).to_contain_text("sqlite:")
    expect(page.locator(".facts")).to_contain_text("writes")


def test_recorder_that_has_ended_is_shown(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a bug")

    with Rig(tmp_path) as rig:
        page = context.new_page()
        page.goto(f"{rig.url}#/self")
        expect(page.locator(".facts")).to_contain_text("writes")
        monkeypatch.setattr("control_center.recorder.writer.Writer._prepare", fail)
        expect(page.locator(".facts")).to_contain_text("ended")
        expect(page.locator(".facts")).to_contain_text("KeyError: 'a bug'")
        expect(page.locator("section", has_text="Health").first).to_contain_text("nothing is recorded any more")
        page.close()


def test_full_disk_of_the_recorder_is_shown_until_it_is_over(context: BrowserContext, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, Rig(tmp_path, recordings=disk.folder) as rig:
        page = context.new_page()
        page.goto(f"{rig.url}#/self")
        health = page.locator("#health")
        facts = page.locator(".facts")
        expect(facts).to_contain_text("writes")
        expect(health).to_have_text("")
        disk.fill()
        expect(health).to_have_text("1 problem")
        expect(facts).to_contain_text("cannot write since")
        expect(page.locator("section", has_text="Health")).to_contain_text("make room there")
        disk.free()
        expect(health).to_have_text("")
        expect(facts).to_contain_text("writes again since")
        expect(page.locator("section", has_text="Health").first).to_contain_text("all is well")
        page.close()
