"""Writes ``control_center/web/js/messages.d.ts``, types of what the page and the control centre say to each other, and
``figures.js`` beside it, definitions of the figures that the page shows.

The types are made from the routes of the REST API and the messages of the stream, as its OpenAPI document is, the figures from
`virtio_proto.control.figures`.

``python -m tools.web.messages``, or with ``--check`` to say whether the committed files are current.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from control_center.messages import StreamMessage
from control_center.openapi import ErrorAnswer, body_schema
from control_center.replay import Steering
from control_center.rest import routes
from control_center.rest.route import Kind, Parameter, Route
from control_center.stream import Subscribe
from control_center.websocket import PARAMETERS
from tools.common import REPOSITORY
from virtio_proto.control.figures import FIGURES
from virtio_proto.control.shapes import schema

PATH: Final = REPOSITORY / "control_center" / "web" / "js" / "messages.d.ts"
FIGURES_PATH: Final = PATH.with_name("figures.js")
WIDTH: Final = 120
_SCALARS: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_QUERY_KINDS: Final[dict[Kind, str]] = {
    "text": "string | null",
    "selector": "string | null",
    "integer": "number | null",
    "number": "number | null",
    "flag": "0 | 1 | null",
}
"""Types of query parameters. The page leaves out those that are null."""
_HEAD: Final = """\
/** Types of the messages between the page and the control centre. Made by `python -m tools.web.messages`; do not edit. */

type Empty = Record<string, never>;
type Routes = { GET: Get; POST: Post; PUT: Put; PATCH: Patch; DELETE: Delete };
type Find<List, Given> = List extends [infer First extends { path: string }, ...infer Rest]
  ? Given extends First["path"]
    ? First
    : Find<Rest, Given>
  : never;

export type Method = keyof Routes;
/** Paths under /api/v1 that a method has. */
export type Path<M extends Method> = Routes[M][number]["path"];
/** Query parameters of a path. */
export type Query<M extends Method, P extends string> = Find<Routes[M], P>["query"];
/** Request body of a path. */
export type Body<M extends Method, P extends string> = Find<Routes[M], P>["body"];
/** Answer of a path. */
export type Answer<M extends Method, P extends string> = Find<Routes[M], P>["answer"];
"""


def text() -> str:
    """The whole file."""
    components: dict[str, Any] = {}
    schema(ErrorAnswer, components)  # that any route may answer
    routes = [_routes(method, components) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]
    stream = [
        f"/** Query parameters of the stream. */\nexport type StreamQuery = {_query(PARAMETERS, 0)};\n",
        f"/** Messages from the stream. */\nexport type StreamMessage ={_union(get_args(StreamMessage), components)};\n",
        f"/** Messages to a live stream. */\nexport type Wanted = {{ subscribe: {_of(Subscribe, components)} }};\n",
        f"/** Messages to a replay. */\nexport type Steered = {{ replay: {_of(Steering, components)} }};\n",
    ]
    tables = [table(name, described) for name, described in sorted(components.items())]
    return "\n".join([_HEAD, *stream, *routes, *tables])


def _of(shape: Any, components: dict[str, Any]) -> str:
    return type_of(schema(shape, components))


def _union(shapes: Iterable[Any], components: dict[str, Any]) -> str:
    return "".join(f"\n  | {_of(shape, components)}" for shape in shapes)


def type_of(described: dict[str, Any]) -> str:
    """The TypeScript type of a JSON schema, of those that `virtio_proto.control.shapes` makes."""
    match described:
        case {"$ref": str(name)}:
            return name.rpartition("/")[2]
        case {"enum": list(values)}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": list(alternatives)}:
            return " | ".join(map(type_of, alternatives))
        case {"type": "array", "items": items}:
            found = type_of(items)
            return f"({found})[]" if "|" in found else f"{found}[]"
        case {"type": "object", "additionalProperties": values}:
            return f"{{ [key: string]: {type_of(values)} }}"
        case {"type": "object"}:
            return "{ [key: string]: unknown }"
        case {"type": str(name)}:
            return _SCALARS[name]
    return "unknown"


def table(name: str, described: dict[str, Any]) -> str:
    required = described.get("required", [])
    properties = described.get("properties", {})
    fields = [f"{key}{'' if key in required else '?'}: {type_of(one)}" for key, one in properties.items()]
    doc = _comment(described["description"]) if "description" in described else ""
    return f"{doc}export type {name} = {_object(fields, 0)};\n"


def _object(fields: list[str], indent: int | None = None) -> str:
    """An object's type: with a line for each field, indented so much, or all on one line."""
    if not fields:
        return "Empty"
    if indent is None:
        return f"{{ {'; '.join(fields)} }}"
    before = "\n" + " " * indent
    return "{" + "".join(f"{before}  {field};" for field in fields) + before + "}"


def _comment(doc: str) -> str:
    """A docstring's first paragraph as a comment."""
    first = " ".join(doc.partition("\n\n")[0].split()).replace("*/", "* /")
    if len(first) <= WIDTH - len("/**  */"):
        return f"/** {first} */\n"
    lines = textwrap.wrap(first, WIDTH, initial_indent=" * ", subsequent_indent=" * ")
    return "\n".join(["/**", *lines, " */\n"])


# ---- routes --------------------------------------------------------------------------------------


def _routes(method: str, components: dict[str, Any]) -> str:
    """The method's paths in the order in which they are to be tried."""
    found = sorted((route for route in routes() if route.method == method), key=_precedence)
    lines = "".join(f"  {_route(route, components)},\n" for route in found)
    return f"type {method.capitalize()} = [\n{lines}];\n"


def _precedence(route: Route) -> tuple[int, int]:
    """Longer paths first, and those with fewer names: `${string}` of a shorter one is also of slashes."""
    return -route.path.count("/"), route.path.count("{")


def _route(route: Route, components: dict[str, Any]) -> str:
    fields = [
        f"path: {_path(route.path)}",
        f"query: {_query(route.query)}",
        f"body: {_body(route, components)}",
        f"answer: {_of(route.answer, components)}",
    ]
    line = _object(fields)
    return line if len(line) < WIDTH - 3 else _object(fields, 2)


def _body(route: Route, components: dict[str, Any]) -> str:
    if route.form is None or not route.form.has_body:
        return _object([])
    return type_of(body_schema(route.form, components))


def _path(path: str) -> str:
    """The type of a path's text, as the page has it: without a slash before it."""
    place = re.sub(r"\{\w+\}", "${string}", path.removeprefix("/"))
    return f"`{place}`" if "$" in place else json.dumps(place)


def _query(parameters: Iterable[Parameter], indent: int | None = None) -> str:
    return _object([f"{one.name}?: {_QUERY_KINDS[one.kind]}" for one in parameters], indent)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.web.messages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether the committed files are current")
    args = parser.parse_args(argv)
    return write(text(), PATH, check=args.check) | write(figures(), FIGURES_PATH, check=args.check)


def figures() -> str:
    """The whole file of figures."""
    head = (
        "/** Definitions of the figures that the page shows. Made by `python -m tools.web.messages`; do not edit. */\n"
    )
    rows = [
        f"  {name}: {{\n    title: {json.dumps(one.title)},\n    unit: {json.dumps(one.unit)},\n    text: {json.dumps(one.text)},\n  }},\n"
        for name, one in FIGURES.items()
    ]
    return f"{head}export const FIGURES = {{\n{''.join(rows)}}};\n"


def write(wanted: str, path: Path, *, check: bool) -> int:
    """Brings the file at `path` up to date; with `check` only says whether it is, by the exit status."""
    if path.exists() and path.read_text() == wanted:
        return 0
    if check:
        sys.stderr.write(f"{path} is stale: run `python -m tools.web.messages`\n")
        return 1
    path.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
