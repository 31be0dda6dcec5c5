"""HTTP application: serves routes and the page's files, and turns refusals into HTTP statuses."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
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
from control_center.rest import routes
from control_center.rest.route import Call, JsonText, Route, parameters
from control_center.scope import Caller
from virtio_proto.control.shapes import ShapeError

log = structlog.get_logger()
WEB_FILES: Final = Path(__file__).parent / "web"
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
REVALIDATE: Final = "no-cache"
"""Cache-Control of the page's files: browsers check for changes, so that an old page never shows a newer centre."""
_COMPRESSED_FROM: Final = 4096
"""Characters of JSON from which an answer is compressed."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(centre: Centre) -> web.Application:
    """Makes the web application of a control centre. The caller runs the centre's cluster."""
    app = web.Application(middlewares=[_errors])
    there = routes()
    for route in there:
        app.router.add_route(route.method, PREFIX + route.path, _handler(centre, route))
    app.router.add_get(PREFIX + "/openapi.json", _openapi(there))
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


def _openapi(there: Sequence[Route]) -> _Handler:
    text = dumps(document(there))

    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, content_type="application/json")

    return handle


# ---- errors --------------------------------------------------------------------------------------


def refusal(error: RefusedError) -> web.Response:
    """Response to a request that is refused."""
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
        answer = await route.handler(await _call(centre, caller, route, query, request))
        if isinstance(answer, web.StreamResponse):
            return answer
        return _json(request, answer.text if isinstance(answer, JsonText) else dumps(answer))

    return handle


async def _read(request: web.Request, limit: int) -> bytes:
    """:raise RefusedError: "malformed": the body exceeds `limit`, or ends early."""
    body = bytearray()
    try:
        async for piece in request.content.iter_chunked(1 << 16):
            body += piece
            if len(body) > limit:
                raise RefusedError("malformed", f"the body is too long; allowed: {limit} bytes")
    except (web.RequestPayloadError, ConnectionError) as error:
        raise RefusedError("malformed", f"the body ends early: {error!s:.80}") from None
    return bytes(body)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _json(request: web.Request, text: str) -> web.Response:
    response = web.Response(text=text, content_type="application/json", headers={"Cache-Control": "no-store"})
    if len(text) >= _COMPRESSED_FROM and not is_local(request.remote or ""):
        response.enable_compression()
    return response


async def _call(centre: Centre, caller: Caller, route: Route, query: Any, request: web.Request) -> Call:
    """:raise RefusedError: "malformed": a field of the verb is wrong."""
    form, path = route.form, request.match_info
    if form is None:
        return Call(centre, caller, path, query, request)
    body = await _body(form.rest.max_body, request) if form.has_body else None
    try:
        host, given = form.parse(path, query, body)
    except ShapeError as error:
        raise RefusedError("malformed", str(error)) from None
    return Call(centre, caller, path, query, request, form, host, given)


async def _body(max_bytes: int, request: web.Request) -> Any:
    """:raise RefusedError: "malformed": the body is too long, or is not JSON."""
    if request.content_type != "application/json":
        raise RefusedError("malformed", f"a body of {request.content_type!r:.80}; allowed: application/json")
    try:
        return json.loads(await _read(request, max_bytes), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RefusedError("malformed", f"the body is not JSON: {error}") from None
