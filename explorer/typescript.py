"""Write src/types.ts: what the server answers and expects, for the compiler of the page, from its OpenAPI description.

`python -m explorer.typescript`; a test fails when the file is not what this would write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selfsort.explore.app import create_app
from selfsort.explore.desk import Desk

TYPES = Path(__file__).parent / "src" / "types.ts"

_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}

Schema = dict[str, Any]


def types_of(description: Schema) -> str:
    """Return the whole file for an OpenAPI description."""
    lines = [
        "// Written by explorer/typescript.py from the description of the server: change app.py or editor.py instead."
    ]
    for name, schema in description["components"]["schemas"].items():
        lines += ["", f"/** {schema['description']} */", f"export interface {name} {{"]
        lines += [f"  {field};" for field in _fields(schema)]
        lines += ["}"]
    for method in ("get", "post"):
        lines += [
            "",
            f"/** What can be asked by {method.upper()}, by address. */",
            f"export interface {method.title()} {{",
        ]
        for address, operations in description["paths"].items():
            if method in operations:
                lines += [f"  {json.dumps(address.removeprefix('/'))}: {_operation(operations[method])};"]
        lines += ["}"]
    return "\n".join(lines) + "\n"


def _operation(operation: Schema) -> str:
    parameters = "; ".join(
        _field(one["name"], one["schema"], is_required=one["required"]) for one in operation.get("parameters", [])
    )
    body = _json(operation["requestBody"]) if "requestBody" in operation else "undefined"
    answer = _json(operation["responses"]["200"])
    return f"{{ parameters: {f'{{ {parameters} }}' if parameters else '{}'}; body: {body}; answer: {answer} }}"


def _json(message: Schema) -> str:
    """Return the type of a body; pictures and files are fetched as they are."""
    content = message.get("content", {})
    return _type(content["application/json"]["schema"]) if "application/json" in content else "Blob"


def _fields(schema: Schema) -> Iterator[str]:
    required = schema.get("required", [])
    for name, inner in schema["properties"].items():
        yield _field(name, inner, is_required=name in required)


def _field(name: str, schema: Schema, *, is_required: bool) -> str:
    return f"{name}{'' if is_required else '?'}: {_type(schema)}"


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": str(place)}:
            return place.rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": choices} | {"oneOf": choices}:
            return " | ".join(map(_type, choices))
        case {"type": "array", "items": items}:
            return f"({inner})[]" if " " in (inner := _type(items)) else f"{inner}[]"
        case {"type": str(plain)} if plain in _PLAIN:
            return _PLAIN[plain]
    raise ValueError(
        f"No TypeScript is known for {schema}. Expected a form listed here. Teach this module to write it."
    )


def current() -> str:
    """Return the file for the application as it is; describing it needs no run."""
    return types_of(create_app(Desk(None, None)).openapi())


if __name__ == "__main__":
    TYPES.write_text(current(), encoding="utf-8")
