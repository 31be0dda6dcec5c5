"""OpenAPI document of the REST API, made from its routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypedDict

from control_center import __version__
from control_center.errors import HTTP_STATUS
from control_center.rest.route import Form, Parameter, Route
from virtio_proto.control.api import Error
from virtio_proto.control.shapes import schema
from virtio_proto.control.verbs.base import HOST

PREFIX: Final = "/api/v1"
_DOC: Final = (
    "Watches and steers the processing elements of GPUs of many hosts while they run. Times are ns of CLOCK_REALTIME."
)
_REASONS: Final = {
    400: "The request is malformed",
    401: "The token is missing or not valid",
    403: "The role or the token does not allow the request",
    404: "The thing does not exist, or the caller may not see it",
    409: "The request cannot be carried out now",
    429: "A quota is used up",
    502: "A host failed or does not answer",
}
_KINDS: Final = {"text": "string", "selector": "string", "integer": "integer", "number": "number", "flag": "boolean"}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Makes an OpenAPI 3.1 document."""
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
        "operationId": route.name,
        "summary": route.summary,
        "description": f"{route.description} Role: {route.role}.",
        "tags": list(route.tags),
        "parameters": [_path_parameter(name) for name in route.in_path] + [*map(_parameter, route.query)],
        "responses": {"200": _answer(route, components), **_refusals(components)},
        "x-role": route.role,
    }
    if route.form is not None and route.form.has_body:
        content = {"application/json": {"schema": body_schema(route.form, components)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def body_schema(form: Form, components: dict[str, Any]) -> dict[str, Any]:
    """Schema of a verb's body: the request's fields without those in the path, and the host if the body names it."""
    name = f"{form.verb.__name__}Request"
    parts: dict[str, Any] = {}
    reference = schema(form.shape, parts)["$ref"]
    whole = parts.pop(reference.rpartition("/")[2])
    components.update(parts)
    properties = {HOST: {"type": "string"}, **whole["properties"]}
    required = [] if form.host_is_optional or not form.names_host else [HOST]
    components[name] = {
        **whole,
        "title": name,
        "properties": {field: properties[field] for field in form.fields},
        "required": required + [field for field in whole["required"] if field in form.fields],
    }
    return {"$ref": f"#/components/schemas/{name}"}


class ErrorAnswer(TypedDict):
    """Body of every refusal."""

    error: Error


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": _KINDS[parameter.kind]}
    if parameter.kind in ("integer", "number"):
        kind |= {"minimum": parameter.low, "maximum": parameter.high}
    return {"name": parameter.name, "in": "query", "description": parameter.doc, "schema": kind}


def _answer(route: Route, components: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": "The request was carried out",
        "content": {route.media: {"schema": schema(route.answer, components)}},
    }


def _refusals(components: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema(ErrorAnswer, components)}}
    return {
        str(status): {"description": _REASONS[status], "content": content}
        for status in sorted({401, *HTTP_STATUS.values()})
    }
