"""The HTTP side: routes become handlers, refusals become statuses, the page's files are served beside them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from control_center import metrics, websocket
from control_center.address import is_local
from control_center.centre import Centre
from control_center.encoding import dumps
from control_center.errors import HTTP_STATUS, RefusedError, UnauthenticatedError
from control_center.openapi import PREFIX, document
from control_center.rest import ROUTES
from control_center.rest.route import Call, JsonText, Route, parameters
from control_center.shapes import ShapeError, check

log = structlog.get_logger()
WEB_FILES: Final = Path(__file__).parent / "web"
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
REVALIDATE: Final = "no-cache"
"""Files of the page: a browser asks whether they have changed, so that a newer centre is never shown by an older page."""
_COMPRESSED_FROM: Final = 4096
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(centre: Centre) -> web.Application:
    """The application of a control centre whose cluster somebody else keeps running."""
    app = web.Application(middlewares=[_errors])
    for route in ROUTES:
        app.router.add_route(route.method, PREFIX + route.path, _handler(centre, route))
    app.router.add_get(PREFIX + "/openapi.json", _openapi)
    app.router.add_get(PREFIX + "/stream", websocket.handler(centre))
    app.router.add_route("*", "/api/{anything:.*}", _nothing)
    app.router.add_get("/metrics", metrics.handler(centre))
    app.router.add_get("/", _page)
    app.router.add_static("/", WEB_FILES, append_version=False)
    app.on_response_prepare.append(_add_headers)
    return app


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    if isinstance(response, web.FileResponse):
        response.headers.setdefault("Cache-Control", REVALIDATE)
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


async def _page(_request: web.Request) -> web.StreamResponse:
    return web.FileResponse(WEB_FILES / "index.html")


async def _nothing(request: web.Request) -> web.StreamResponse:
    raise RefusedError("unknown", f"no {request.method} {request.path:.200}; there is: {PREFIX}/openapi.json")


_DOCUMENT: Final = dumps(document(ROUTES))


async def _openapi(_request: web.Request) -> web.Response:
    return web.Response(text=_DOCUMENT, content_type="application/json")


# ---- errors --------------------------------------------------------------------------------------


def refusal(error: RefusedError) -> web.Response:
    """The answer to a request that is not done."""
    unknown = isinstance(error, UnauthenticatedError)
    headers = {"WWW-Authenticate": "Bearer"} if unknown else {}
    body = dumps({"error": {"kind": error.kind, "text": error.text}})
    status = 401 if unknown else HTTP_STATUS[error.kind]
    return web.Response(text=body, status=status, content_type="application/json", headers=headers)


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusedError as error:
        return refusal(error)
    except web.HTTPException:
        raise
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return refusal(RefusedError("failed", "an error in the control centre, see its log"))


# ---- requests ------------------------------------------------------------------------------------


def _handler(centre: Centre, route: Route) -> _Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        caller = centre.access.caller(request)
        caller.must_be(route.role)
        query = parameters(route.query, request.query)
        body = await _body(route, request)
        answer = await route.handler(Call(centre, caller, request.match_info, query, body, request))
        if isinstance(answer, web.StreamResponse):
            return answer
        return _json(request, answer.text if isinstance(answer, JsonText) else dumps(answer))

    return handle


async def _read(request: web.Request, limit: int) -> bytes:
    """:raise RefusedError: "malformed": the body is longer, or does not come to its end."""
    body = bytearray()
    try:
        async for piece in request.content.iter_chunked(1 << 16):
            body += piece
            if len(body) > limit:
                raise RefusedError("malformed", f"the body is too long; allowed: {limit} bytes")
    except (web.RequestPayloadError, ConnectionError) as error:
        raise RefusedError("malformed", f"the body does not come to its end: {error!s:.80}") from None
    return bytes(body)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _json(request: web.Request, text: str) -> web.Response:
    response = web.Response(text=text, content_type="application/json", headers={"Cache-Control": "no-store"})
    if len(text) >= _COMPRESSED_FROM and not is_local(request.remote or ""):
        response.enable_compression()
    return response


async def _body(route: Route, request: web.Request) -> Any:
    """:raise RefusedError: "malformed": it is not JSON of the route's shape."""
    if route.body is None:
        return None
    if request.content_type != "application/json":
        raise RefusedError("malformed", f"a body of {request.content_type!r:.80}; allowed: application/json")
    try:
        body = json.loads(await _read(request, route.max_body), parse_constant=_no_number)
        check(body, route.body, "body", strict=True)
    except (ValueError, RecursionError) as error:
        text = str(error) if isinstance(error, ShapeError) else f"the body is not JSON: {error}"
        raise RefusedError("malformed", text) from None
    return body
