"""The view of a VM: its limits and their use, its functions, its guest; changing limits, removing it."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.web.journal import Journal
from tests.web.rig import VIEW_TOKEN, Rig

Go = Callable[[str], Page]
Opened = Callable[[str], tuple[Page, Journal]]


def test_limits_are_shown_with_what_is_used_of_them(go: Go) -> None:
    page = go("vms?host=h1&vm=h1-vm1")
    expect(page.get_by_label("VM", exact=True)).to_have_value("h1/h1-vm1")
    memory = page.get_by_role("table", name="Limits").get_by_role("row").filter(has_text="Memory")
    expect(memory).to_contain_text("64 MiB of 256 MiB")
    expect(memory.get_by_role("meter")).to_have_attribute("aria-valuenow", "25")
    expect(memory).to_contain_text("141 GiB")
    expect(page.locator(".facts")).to_contain_text("taken")


def test_functions_appear_with_their_names_as_text(go: Go, rig: Rig) -> None:
    rig.daemons["h1"].world.vms["h1-vm0"].extra = ["<b>bold</b>"]
    page = go("vms?host=h1&vm=h1-vm0")
    table = page.get_by_role("table", name="Functions", exact=True)
    expect(table).to_contain_text(rig.daemons["h1"].world.kernel(rig.daemons["h1"].world.vms["h1-vm0"]))
    expect(table).to_contain_text("<b>bold</b>")
    rig.daemons["h1"].world.vms["h1-vm0"].extra = []


def test_registered_functions_are_shown_with_parameters_and_state(go: Go, rig: Rig) -> None:
    world = rig.daemons["h1"].world
    world.vms["h1-vm0"].extra = ["later"]
    page = go("vms?host=h1&vm=h1-vm0")
    table = page.get_by_role("table", name="Registered functions")
    kept = table.get_by_role("row").filter(has_text=f"{world.kernel(world.vms['h1-vm0'])}(pointer, int32)")
    expect(kept).to_contain_text("kept")
    broken = table.get_by_role("row").filter(has_text="later(pointer, int32)")
    expect(broken).to_contain_text("broken")
    expect(broken).to_contain_text("line 1: error")
    world.vms["h1-vm0"].extra = []


def test_another_vm_is_chosen_by_keyboard(go: Go) -> None:
    page = go("vms?host=h1&vm=h1-vm0")
    choice = page.get_by_label("VM", exact=True)
    expect(choice).to_have_value("h1/h1-vm0")
    choice.focus()
    page.keyboard.press("ArrowDown")
    expect(choice).to_have_value("h1/h1-vm1")
    expect(page).to_have_url(re.compile("vm=h1-vm1"))


def test_limits_are_changed_and_refusals_stay_in_the_dialog(opened: Opened, rig: Rig) -> None:
    host = rig.daemons["h2"].host
    page, journal = opened(f"{rig.url}#/vms?host=h2&vm=h2-vm0")
    journal.allow("status of 502")
    page.get_by_role("button", name="Change limits").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Memory, MiB").fill("32")
    host.reload_problem = "the VMs together may use 9 GiB, and this host has 8 GiB"
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_contain_text(host.reload_problem)
    host.reload_problem = ""
    dialog.get_by_role("button", name="Change").click()
    expect(dialog).to_have_count(0)
    assert host.limits == {"memory_bytes": 32 << 20}
    memory = page.get_by_role("table", name="Limits").get_by_role("row").filter(has_text="Memory")
    expect(memory).to_contain_text("exceeded: gets no more")
    expect(page.locator(".facts")).to_contain_text("pending")
    host.limits = {}


def test_removal_asks_first(go: Go, rig: Rig) -> None:
    page = go("vms?host=h3&vm=h3-vm0")
    page.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("once its QEMU has ended")
    dialog.get_by_role("button", name="Remove").click()
    expect(dialog).to_have_count(0)
    assert rig.daemons["h3"].host.removals == [{"vm": "h3-vm0"}]


def test_who_only_looks_may_change_nothing(opened: Opened, rig: Rig) -> None:
    page, journal = opened(f"{rig.guarded_url}#/vms")
    journal.allow("status of 401")
    journal.allow("WebSocket")
    page.get_by_role("dialog").get_by_label("Token", exact=True).fill(VIEW_TOKEN)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#role")).to_have_text("view")
    expect(page.get_by_role("table", name="Limits")).to_be_visible()
    for name in ("Change limits", "Remove"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
