"""Watches a page for errors and foreign requests during a test."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Error, Page, Request


class Journal:
    """Console errors and requests to other origins of one page; `allow` those that a test provokes on purpose."""

    def __init__(self, page: Page, origin: str) -> None:
        self._allowed: list[str] = []
        self._errors: list[str] = []
        self._elsewhere: list[str] = []
        self._origin = urlsplit(origin).netloc
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("request", self._request)

    def allow(self, text: str) -> None:
        """Marks errors that contain this text as expected, from the beginning of the test."""
        self._allowed.append(text)

    def problems(self) -> list[str]:
        """Unexpected errors and requests."""
        errors = [error for error in self._errors if not any(text in error for text in self._allowed)]
        return errors + [f"left the origin: {url}" for url in self._elsewhere]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._errors.append(message.text)

    def _error(self, error: Error) -> None:
        self._errors.append(str(error))

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self._origin:
            self._elsewhere.append(request.url)
