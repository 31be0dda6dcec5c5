"""Views of the past: snapshots and the time line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.rig import Rig

Go = Callable[[str], Page]
RECORDED = """async () => {
  const now = 1e6 * Date.now();
  for (;;) {
    const bins = await (await fetch(`api/v1/timeline?selector=fn=log&bins=1&from_ns=${now}`)).json();
    if (bins.some((bin) => bin.records.log > 20)) return;
  }
}"""


def test_a_snapshot_names_hung_and_silent_elements(go: Go, rig: Rig) -> None:
    rig.freeze("h1", "h1-vm0")
    rig.confine("h1", "h1-vm1", [0, 1])
    page = go("snapshots")
    page.get_by_label("Selector for all views").fill("host=h1,vm=h1-vm0|h1-vm1,pe=0-3")
    page.get_by_role("button", name="Take snapshot").click()
    table = page.get_by_role("table", name="PEs")
    expect(table.locator("tbody tr")).to_have_count(8)
    expect(table.locator("tbody tr").first).to_contain_text("hung")
    expect(table.get_by_text("silent")).to_have_count(2)
    expect(page.locator(".figure", has_text="answered")).to_contain_text("75.0 %")


def test_two_snapshots_are_compared(go: Go, rig: Rig) -> None:
    page = go("snapshots")
    page.get_by_label("Selector for all views").fill("host=h1,vm=h1-vm0|h1-vm1,pe=0-3")
    page.get_by_role("button", name="Take snapshot").click()
    expect(page.get_by_role("table", name="PEs")).to_be_visible()
    rig.freeze("h1", "h1-vm0")
    page.get_by_role("button", name="Take snapshot").click()
    expect(page.get_by_role("table", name="PEs").get_by_text("hung")).to_have_count(4)
    page.get_by_role("button", name="Compare", disabled=False).first.click()
    changes = page.get_by_role("table", name="Changes")
    expect(changes.get_by_role("row", name="h1/h1-vm0/0")).to_contain_text("hung")
    expect(page.locator("h2", has_text="Changes from")).to_be_visible()


@pytest.fixture
def recorded(go: Go, rig: Rig) -> Page:
    """The time line, with records of the last minutes."""
    rig.open_channels("h1", "vm=h1-vm0,pe=0-3,fn=log", level=5)
    page = go("cluster")
    page.evaluate(RECORDED)
    page = go("timeline")
    expect(page.locator(".legend-row")).to_contain_text("log")
    return page


def test_the_recorded_time_is_replayed_paused_and_sought(recorded: Page) -> None:
    page = recorded
    page.get_by_label("Speed").select_option("1000")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("log", name="replayed records")).to_contain_text("block")
    canvas = page.locator("canvas.timeline")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.get_by_label("replayed load")).to_be_visible()
    page.get_by_label("Speed").select_option("0.1")
    canvas.click(position={"x": 200, "y": 60})
    head = page.locator(".player b.mono")
    sought = str(head.text_content())
    page.get_by_role("button", name="Play").click()
    expect(head).not_to_have_text(sought)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    paused = str(head.text_content())
    canvas.press("ArrowRight")
    expect(head).not_to_have_text(paused)
    expect(page.locator(".player .pill")).to_have_text("paused")
    page.get_by_label("Speed").select_option("1000")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".player .pill")).to_have_count(0)


def test_a_dragged_range_is_zoomed_into_and_let_go(recorded: Page) -> None:
    page = recorded
    box = page.locator("canvas.timeline").bounding_box()
    assert box is not None
    whole = page.locator(".panel-head .soft").first.text_content()
    page.mouse.move(box["x"] + 100, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page.locator(".panel-head .soft").first).not_to_have_text(str(whole))
    page.get_by_role("button", name="Zoom in").click()
    expect(page.get_by_role("button", name="Zoom in")).to_be_hidden()
    expect(page.locator(".panel-head .soft").first).not_to_have_text(str(whole))


def test_the_recorded_time_is_exported(recorded: Page, tmp_path: Path) -> None:
    page = recorded
    with page.expect_download() as trace:
        page.get_by_role("button", name="Export Perfetto trace").click()
    trace.value.save_as(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with page.expect_download() as table:
        page.get_by_role("button", name="Export CSV").click()
    table.value.save_as(tmp_path / "records.csv")
    with (tmp_path / "records.csv").open() as text:
        assert any(row["fn"] == "log" for row in csv.DictReader(text))
