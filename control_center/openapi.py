"""The OpenAPI document of the REST API, made from its routes: what is not a route is not in it, and the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from control_center import __version__
from control_center.errors import HTTP_STATUS
from control_center.rest.model import ErrorAnswer
from control_center.rest.route import Parameter, Route
from control_center.shapes import schema

PREFIX: Final = "/api/v1"
_NAMES: Final = re.compile(r"\{(\w+)\}")
_DOC: Final = (
    "Watches and steers the processing elements of GPUs of many hosts while they run. Times are ns of CLOCK_REALTIME."
)
_REASONS: Final = {
    400: "The request is malformed",
    401: "No token, or one that is not valid",
    403: "The role or the token does not allow it",
    404: "There is no such thing for who asks",
    409: "It cannot be done now",
    429: "A quota is used up",
    502: "A host did not do it, or does not answer",
}
_KINDS: Final = {"text": "string", "selector": "string", "integer": "integer", "number": "number", "flag": "boolean"}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    components: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "virtio-gpu-compute control centre", "version": __version__, "description": _DOC},
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route, components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "description": f"{route.description} Role: {route.role}.",
        "tags": list(route.tags),
        "parameters": [_path_parameter(name) for name in _NAMES.findall(route.path)] + [*map(_parameter, route.query)],
        "responses": {"200": _answer(route, components), **_refusals(components)},
        "x-role": route.role,
    }
    if route.body is not None:
        content = {"application/json": {"schema": schema(route.body, components)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": _KINDS[parameter.kind]}
    if parameter.kind in ("integer", "number"):
        kind |= {"minimum": parameter.low, "maximum": parameter.high}
    return {"name": parameter.name, "in": "query", "description": parameter.doc, "schema": kind}


def _answer(route: Route, components: dict[str, Any]) -> dict[str, Any]:
    return {"description": "It was done", "content": {route.media: {"schema": schema(route.answer, components)}}}


def _refusals(components: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema(ErrorAnswer, components)}}
    return {
        str(status): {"description": _REASONS[status], "content": content}
        for status in sorted({401, *HTTP_STATUS.values()})
    }
