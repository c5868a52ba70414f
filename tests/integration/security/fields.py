"""Every field through which a remote client sends text, read from the schemas that the servers publish."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mcp_server.server import TOOLSETS, build_server
from personalab.services import Services
from web.joining import whole_app

Schema = Mapping[str, Any]
PROJECT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a route, a tool or a graph."""

    place: str
    where: str
    """path, query, header or body; for a tool ``tool``."""
    name: str


def takes_text(schema: Schema, known: Mapping[str, Schema]) -> bool:
    """Return whether any text, or an object whose fields are not fixed, may be sent here."""
    if "$ref" in schema:
        return takes_text(known[schema["$ref"].rpartition("/")[2]], known)
    choices = [cast("Schema", one) for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ())]
    if choices:
        return any(takes_text(one, known) for one in choices)
    if "enum" in schema or "const" in schema:
        return False
    match schema.get("type"):
        case "array":
            return takes_text(schema.get("items", {}), known)
        case "object":
            return "properties" not in schema
        case "string" | None:
            return True
        case _:
            return False


def text_fields(schema: Schema, known: Mapping[str, Schema]) -> Iterator[str]:
    """Name the fields of an object, and of the objects in it, that take text."""
    if "$ref" in schema:
        yield from text_fields(known[schema["$ref"].rpartition("/")[2]], known)
    for key in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(key, ()):
            yield from text_fields(one, known)
    if "items" in schema:
        yield from text_fields(schema["items"], known)
    for name, value in schema.get("properties", {}).items():
        if takes_text(value, known):
            yield name
        yield from text_fields(value, known)


def sample(
    schema: Schema, known: Mapping[str, Schema], name: str, good: Mapping[str, Any], field: str = ""
) -> Any:
    """Make a value that fits a schema: what is required, and one field with its good value wherever it may be."""
    if "$ref" in schema:
        return sample(known[schema["$ref"].rpartition("/")[2]], known, name, good, field)
    choices = [cast("Schema", one) for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ())]
    if choices:
        return sample(
            next((one for one in choices if field in text_fields(one, known)), choices[0]),
            known,
            name,
            good,
            field,
        )
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    match schema.get("type"):
        case "array" if not (name in good and isinstance(good[name], list)):
            return [sample(schema.get("items", {}), known, name, good, field)]
        case "object" if "properties" in schema:
            wanted = {
                inner
                for inner, rule in schema["properties"].items()
                if inner in schema.get("required", ()) or inner == field or field in text_fields(rule, known)
            }
            rules = {inner: schema["properties"][inner] for inner in wanted}
            return {inner: sample(rule, known, inner, good, field) for inner, rule in rules.items()}
        case "object":
            return {"model": good[field]} if field == name else {}
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return good.get(name, "x")


def http_fields(services: Services) -> list[Field]:
    """List the text fields of every route."""
    api = whole_app(lambda: services).openapi()
    known: Mapping[str, Schema] = api["components"]["schemas"]
    found: list[Field] = []
    for path, operations in api["paths"].items():
        for method, operation in operations.items():
            place = f"{method.upper()} {path}"
            for one in operation.get("parameters", ()):
                if takes_text(one["schema"], known):
                    found.append(Field(place, one["in"], one["name"]))
            for body in operation.get("requestBody", {}).get("content", {}).values():
                found += [Field(place, "body", name) for name in text_fields(body["schema"], known)]
    return found


async def mcp_fields(services: Services) -> list[Field]:
    """List the text arguments of every tool and prompt, and the parts of every resource's address."""
    server = build_server(services, TOOLSETS)
    found: list[Field] = []
    for tool in await server.list_tools():
        known: Mapping[str, Schema] = tool.input_schema.get("$defs", {})
        schema: Schema = tool.input_schema
        found += [Field(tool.name, "tool", name) for name in text_fields(schema, known)]
    for prompt in await server.list_prompts():
        found += [Field(prompt.name, "prompt", one.name) for one in prompt.arguments or ()]
    for template in await server.list_resource_templates():
        parts = template.uri_template.replace("}", "{").split("{")[1::2]
        found += [Field(template.uri_template, "resource", part) for part in parts]
    return found


def graph_fields(services: Services) -> list[Field]:
    """List the text fields that a client of a LangGraph server may send to any of its graphs."""
    graphs: Mapping[str, Any] = json.loads((PROJECT / "langgraph.json").read_text("utf-8"))["graphs"]
    found: list[Field] = []
    for name, served in graphs.items():
        module = importlib.import_module(served["path"].partition(":")[0])
        graph = getattr(module, f"build_{name}")(services).compile()
        schemas: dict[str, dict[str, Any]] = {
            "input": graph.get_input_jsonschema(),
            "context": graph.get_context_jsonschema() or {},
        }
        for where, schema in schemas.items():
            found += [Field(name, where, one) for one in text_fields(schema, schema.get("$defs", {}))]
    return found
