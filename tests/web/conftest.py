"""Fixtures of the page's tests: one browser and one control centre for all, a page for each.

They end with this folder's last test: Playwright keeps a loop running in the thread of the tests, in which nothing else
can run one meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[dev]'")
pytest.importorskip("aiohttp", reason="no aiohttp: pip install '.[control]'")

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright  # noqa: E402  after the check that it is there

from tests.limits import ANSWERS_WITHIN_S  # noqa: E402
from tests.web.journal import Journal  # noqa: E402
from tests.web.rig import Rig  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 1000 * ANSWERS_WITHIN_S


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there (apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(tmp_path_factory.mktemp("centre")) as rig:
        yield rig


@pytest.fixture(scope="package")
def context(browser: Browser) -> BrowserContext:
    """A shared browser context, so that the page's files are loaded once; stored state belongs to each tab."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="dark", accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    sync_api.expect.set_options(timeout=PATIENCE_MS)
    return context


@pytest.fixture
def opened(context: BrowserContext, rig: Rig) -> Iterator[Callable[[str], tuple[Page, Journal]]]:
    """Opens a page at an address of the rig; at the end of the test it must have nothing in its journal."""
    journals = []

    def open_page(url: str) -> tuple[Page, Journal]:
        page = context.new_page()
        journal = Journal(page, url)
        journals.append(journal)
        page.goto(url)
        return page, journal

    yield open_page
    for page in context.pages:
        page.close()
    rig.mend()
    assert [problem for journal in journals for problem in journal.problems()] == []


@pytest.fixture
def page(opened: Callable[[str], tuple[Page, Journal]], rig: Rig) -> Page:
    """The page with the rights of an administrator."""
    return opened(rig.url)[0]


@pytest.fixture
def go(page: Page, rig: Rig) -> Callable[[str], Page]:
    """Goes to a view of the page by its address."""

    def go_to(view: str) -> Page:
        page.goto(f"{rig.url}#/{view}")
        return page

    return go_to
