"""Placeholder"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from control_center.centre import Centre


def handler(centre: Centre) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        centre.access.caller(request)
        return web.Response(text="")

    return handle
