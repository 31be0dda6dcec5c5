"""Views that steer: console, channels, faults and policies, migrations, firmware; limits of roles."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import FilePayload, Page, expect

from tests.waiting import until
from tests.web.journal import Journal
from tests.web.rig import ADMIN_TOKEN, VIEW_TOKEN, Rig

Go = Callable[[str], Page]
Opened = Callable[[str], tuple[Page, Journal]]
CONSOLE = "console?host=h1&vm=h1-vm0&pe=3"
HTML = "<img src=x onerror=alert(1)><b>bold</b>"


# ---- console -------------------------------------------------------------------------------------


def test_a_line_goes_to_the_element_and_its_prints_come_back(go: Go) -> None:
    page = go(CONSOLE)
    output = page.get_by_role("log", name="output")
    expect(output).to_contain_text(": block ")
    page.get_by_label("Line to send").fill("hello element")
    page.keyboard.press("Enter")
    expect(output).to_contain_text("> hello element")
    expect(output).to_contain_text("you said: hello element")


def test_typed_lines_are_recalled(go: Go) -> None:
    page = go(CONSOLE)
    line = page.get_by_label("Line to send")
    expect(line).to_be_enabled()
    line.fill("first")
    line.press("Enter")
    expect(line).to_have_value("")
    line.press("ArrowUp")
    expect(line).to_have_value("first")


def test_text_of_a_guest_is_never_markup(go: Go) -> None:
    page = go(CONSOLE)
    expect(page.get_by_label("Line to send")).to_be_enabled()
    page.get_by_label("Line to send").fill(HTML)
    page.keyboard.press("Enter")
    expect(page.get_by_role("log", name="output")).to_contain_text(f"you said: {HTML}")
    assert page.locator(".lines img, .lines b").count() == 0


def test_end_of_file_is_sent(go: Go, rig: Rig) -> None:
    page = go(CONSOLE)
    page.get_by_role("button", name="EOF").click()
    expect(page.get_by_role("log", name="output")).to_contain_text("end of file")
    assert rig.daemons["h1"].host.sent[-1]["eof"] is True


def test_lost_records_are_shown_where_they_are_missing(go: Go, rig: Rig) -> None:
    page = go(CONSOLE)
    output = page.get_by_role("log", name="output")
    expect(page.get_by_label("Line to send")).to_be_enabled()
    rig.lose("h1", "stdio", 7)
    gap = output.locator(".gap")
    expect(gap).to_have_text("7 records lost")
    expect(gap.locator("xpath=following-sibling::*[1]")).to_contain_text(": block ")


def test_scrollback_is_bounded(page: Page) -> None:
    kept = page.evaluate("""async () => {
      const { Lines } = await import(new URL('js/records.js', document.baseURI));
      const { h } = await import(new URL('js/dom.js', document.baseURI));
      const lines = new Lines(100);
      for (let at = 0; at < 250; at += 1) lines.add(h('div.line', null, String(at)));
      return [lines.count, lines.element.firstChild.textContent, lines.element.lastChild.textContent];
    }""")
    assert kept == [100, "150 older lines are no longer shown", "249"]


def test_leaving_the_console_closes_what_it_opened(go: Go, rig: Rig) -> None:
    page = go(CONSOLE)
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    assert rig.functions("h1") == ["stdio"]
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    assert rig.functions("h1") == []


# ---- channels ------------------------------------------------------------------------------------


def test_channels_are_opened_looked_into_changed_and_closed(go: Go, rig: Rig) -> None:
    page = go("channels")
    page.get_by_role("button", name="Open channels").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Selector").fill("host=h2,vm=h2-vm0,pe=0-4")
    dialog.get_by_label("Function").select_option("log")
    dialog.get_by_label("Level").select_option("warning")
    dialog.get_by_label("When full").select_option("overwrite-oldest")
    dialog.get_by_role("button", name="Open", exact=True).click()
    row = page.get_by_role("table", name="Instances").get_by_role("row", name="h2-vm0")
    expect(row).to_contain_text("overwrite-oldest")
    row.get_by_text("h2/").click()
    expect(page.get_by_role("table", name="Channels of the instance").locator("tbody tr")).to_have_count(5)
    with page.expect_response(lambda response: response.request.method == "PATCH"):
        row.get_by_role("combobox").select_option("debug")
    assert rig.instances("h2")[0].level == 5
    row.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Close it").click()
    expect(row).to_have_count(0)
    assert rig.functions("h2") == []


def test_a_refusal_shows_in_the_dialog_that_asked(opened: Opened, rig: Rig) -> None:
    page, journal = opened(f"{rig.url}#/channels")
    journal.allow("status of 4")
    page.get_by_role("button", name="Open channels").first.click()
    page.get_by_role("dialog").get_by_label("Selector").fill("vm=nobody")
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("nobody")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


# ---- faults and policies -------------------------------------------------------------------------


def test_a_fault_appears_with_advice_counts_and_is_cleared(go: Go, rig: Rig) -> None:
    page = go("faults")
    expect(page.get_by_text("No fault")).to_be_visible()
    number = rig.fault("h1", "h1-vm1", 5, text=f"bad address {HTML}")
    rig.fault("h1", "h1-vm1", 5)
    fault = page.locator(f"[data-fault='h1/{number}']")
    expect(fault).to_contain_text(f"bad address {HTML}")
    expect(fault).to_contain_text("Check the kernel's indices")
    expect(fault).to_contain_text("2 times")
    expect(page.locator("#nav [data-view=faults] .badge")).to_have_text("1")
    assert fault.locator("img").count() == 0
    fault.get_by_role("button", name="Clear").click()
    expect(fault).to_have_count(0)
    page.get_by_label("Which").select_option("all")
    expect(fault).to_contain_text("cleared")


def test_policies_are_added_edited_and_removed(go: Go, rig: Rig) -> None:
    page = go("faults")
    page.get_by_role("button", name="Add policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("hung ones")
    dialog.get_by_label("kernel", exact=True).uncheck()
    dialog.get_by_label("hung", exact=True).check()
    dialog.get_by_label("Action").select_option("reset")
    dialog.get_by_role("button", name="Put in force").click()
    row = page.get_by_role("table", name="Policies").get_by_role("row", name="hung ones")
    expect(row).to_contain_text("reset")
    row.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Acts").select_option("aggregate")
    page.get_by_role("button", name="Put in force").click()
    expect(row).to_contain_text("after a number of faults")
    until(lambda: [policy["trigger"] for policy in rig.daemons["h1"].host.policies] == ["aggregate"])
    row.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No policy")).to_be_visible()
    assert rig.daemons["h1"].host.policies == []


# ---- migrations ----------------------------------------------------------------------------------


def test_proposed_moves_are_applied(go: Go) -> None:
    page = go("migrations")
    page.get_by_role("button", name="Propose migrations").click()
    proposed = page.get_by_role("table", name="Proposed migrations")
    expect(proposed).to_contain_text("most loaded")
    page.get_by_role("button", name="Apply all").click()
    expect(proposed).to_have_count(0)
    expect(page.get_by_role("table", name="Migrations").locator("tbody tr").first).to_contain_text("done")


def test_a_vm_is_migrated_and_confined(go: Go, rig: Rig) -> None:
    page = go("migrations")
    vm = rig.daemons["h2"].world.vms["h2-vm1"]
    row = page.get_by_role("table", name="VMs").get_by_role("row", name="h2-vm1")
    row.get_by_role("button", name="Migrate").click()
    page.get_by_label("To GPU").select_option("1")
    page.get_by_role("dialog").get_by_role("button", name="Migrate").click()
    history = page.get_by_role("table", name="Migrations")
    expect(history.get_by_role("row", name="h2/h2-vm1").first).to_contain_text("64 MiB")
    assert vm.gpu == 1
    row.get_by_role("button", name="Confine").click()
    page.get_by_role("dialog").get_by_label("PEs").fill("0-3")
    page.get_by_role("dialog").get_by_role("button", name="Confine").click()
    expect(row).to_contain_text("4 of 16")
    assert vm.confined_to == [0, 1, 2, 3]


def test_migrations_that_cannot_work_are_not_offered(go: Go, rig: Rig) -> None:
    world = rig.daemons["h2"].world
    world.vms["h2-vm0"].more["stays"] = "its engine cannot yet"
    world.software_gpu = True
    page = go("migrations")
    vms = page.get_by_role("table", name="VMs")
    stays = vms.get_by_role("row", name="h2-vm0").get_by_role("button", name="Migrate")
    expect(stays).to_be_disabled()
    expect(stays).to_have_attribute("title", "its engine cannot yet")
    vms.get_by_role("row", name="h2-vm1").get_by_role("button", name="Migrate").click()
    expect(page.get_by_label("To GPU").locator("option")).to_have_count(3)  # the least loaded, and two GPUs of CUDA
    expect(page.get_by_role("dialog")).to_contain_text("not to cpu: the VM goes on with its engine")


def test_a_refused_confinement_says_why(opened: Opened, rig: Rig) -> None:
    page, journal = opened(f"{rig.url}#/migrations")
    journal.allow("status of 4")
    page.get_by_role("row", name="h2-vm1").get_by_role("button", name="Confine").click()
    page.get_by_role("dialog").get_by_label("PEs").fill("four")
    page.get_by_role("dialog").get_by_role("button", name="Confine").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("four")


def test_a_worker_is_reset_after_asking(go: Go, rig: Rig) -> None:
    page = go("migrations")
    before = rig.daemons["h1"].world.vms["h1-vm0"].generation
    page.get_by_role("row", name="h1-vm0").get_by_role("button", name="Reset worker").click()
    with page.expect_response("**/workers/h1/h1-vm0/reset"):
        page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    assert rig.daemons["h1"].world.vms["h1-vm0"].generation == before + 1


# ---- firmware ------------------------------------------------------------------------------------


def image(content: bytes) -> FilePayload:
    return {"name": "control.vgcf", "mimeType": "application/octet-stream", "buffer": content}


def test_firmware_is_staged_activated_and_rolled_back(go: Go, rig: Rig) -> None:
    page = go("firmware")
    page.get_by_role("button", name="Stage image").click()
    page.get_by_label("PEs (selector)").fill("host=h1,vm=h1-vm0")
    page.get_by_label("Signed image").set_input_files(image(b"VGCF image of the tests"))
    page.get_by_role("button", name="Stage", exact=True).click()
    running = page.get_by_role("table", name="Versions on PEs")
    row = running.get_by_role("row", name="h1/h1-vm0")
    expect(row).to_contain_text("staged")
    version = rig.daemons["h1"].host.images[0]["version"]
    row.get_by_role("button", name="Activate").click()
    page.get_by_role("dialog").get_by_role("button", name="Activate").click()
    expect(row.locator("b")).to_have_text(version)
    page.get_by_role("button", name="Roll back").first.click()
    page.get_by_label("PEs (selector)").fill("host=h1,vm=h1-vm0")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(row.locator("b")).to_have_text("1.0.0")


def test_an_image_with_a_wrong_signature_is_refused(opened: Opened, rig: Rig) -> None:
    page, journal = opened(f"{rig.url}#/firmware")
    journal.allow("status of ")
    page.get_by_role("button", name="Stage image").click()
    page.get_by_label("PEs (selector)").fill("host=h1")
    page.get_by_label("Signed image").set_input_files(image(b"forged"))
    page.get_by_role("button", name="Stage", exact=True).click()
    expect(page.get_by_role("alert").or_(page.locator(".proposal"))).to_contain_text("no signature of a known key")


# ---- roles ---------------------------------------------------------------------------------------


def test_a_token_is_asked_for_and_a_wrong_one_again(opened: Opened, rig: Rig) -> None:
    page, journal = opened(rig.guarded_url)
    journal.allow("status of 401")
    journal.allow("WebSocket")
    dialog = page.get_by_role("dialog", name="Token")
    dialog.get_by_label("Token", exact=True).fill("wrong")
    dialog.get_by_role("button", name="Use it").click()
    expect(dialog).to_be_visible()
    dialog.get_by_label("Token", exact=True).fill(ADMIN_TOKEN)
    dialog.get_by_role("button", name="Use it").click()
    expect(page.locator("article.host")).to_have_count(3)
    expect(page.locator("#role")).to_have_text("admin")
    expect(page.locator("#link")).to_have_text("live")


def test_what_a_role_may_not_do_is_disabled_and_says_why(opened: Opened, rig: Rig) -> None:
    page, journal = opened(rig.guarded_url)
    journal.allow("status of 401")
    journal.allow("WebSocket")
    page.get_by_role("dialog").get_by_label("Token", exact=True).fill(VIEW_TOKEN)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#role")).to_have_text("view")
    for view, name in (
        ("Channels", "Open channels"),
        ("Load & migrations", "Propose migrations"),
        ("Firmware", "Stage image"),
    ):
        page.get_by_role("navigation").get_by_role("link", name=view).click()
        button = page.get_by_role("button", name=name).first
        expect(button).to_be_disabled()
        expect(button).to_have_attribute(
            "title", "needs the role " + ("admin" if view == "Firmware" else "operate") + "; yours is view"
        )
    page.goto(f"{rig.guarded_url}#/{CONSOLE}")
    expect(page.get_by_text("reading only")).to_be_visible()
    expect(page.get_by_label("Line to send")).to_be_disabled()
