"""What the writers share: JSON that can always be written, the system prompt, and tools from one provider's shape to another's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ..core.entries import Entry, Head
from ..core.messages import JSON, Object
from ..core.turns import scrubbed
from ..core.view import View
from ..errors import InputError
from .fields import object_at, text_at

ANTHROPIC_WIRES = ("", "anthropic")
"""``Head.wire`` of conversations whose blocks are Anthropic's own; a session that fivefold began names none."""


class Tool(NamedTuple):
    """A client-side tool, whatever the shape of its definition. ``parameters`` is the JSON schema of its input."""

    name: str
    description: str
    parameters: Object


def to_json(value: JSON) -> bytes:
    """A value as JSON text. Half surrogate pairs become U+FFFD. Raises InputError where it is nested too deep to write."""
    try:
        try:
            return msgspec.json.encode(value)
        except UnicodeEncodeError:
            return msgspec.json.encode(scrubbed(value))
    except (OverflowError, RecursionError):  # whole numbers over 64 bits, and what is deep
        try:
            return json.dumps(scrubbed(value), ensure_ascii=False, separators=(",", ":")).encode()
        except RecursionError:
            raise InputError("a value in it is nested too deep to write") from None


def with_system(head: Head, view: View) -> list[Entry]:
    """The entries of a view, with the head's system prompt in front as an entry of its own."""
    lead = [Entry(id="system", kind="system", blocks=head.system)] if head.system else []
    return [*lead, *view.sent()]


def tools_of(tools: Iterable[Object]) -> Iterator[Tool]:
    """The client-side tools among these definitions, each name once. Tools that a provider itself performs (web search …)
    have no counterpart elsewhere and are left out."""
    seen: set[str] = set()
    for definition in tools:
        tool = _tool(definition)
        if tool is not None and tool.name not in seen:
            seen.add(tool.name)
            yield tool


def _tool(data: Object) -> Tool | None:
    """One definition: OpenAI's Chat (``function``, ``custom``) or Responses shape, Anthropic's, or a bare name with a schema."""
    kind = data.get("type")
    if kind not in (None, "function", "custom"):
        return None
    inner = object_at(data, "function") or object_at(data, "custom") or data
    name = text_at(inner, "name")
    if not name:
        return None
    schema = object_at(inner, "input_schema") or object_at(inner, "parameters")
    if kind == "custom" and "input_schema" not in inner:
        schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    return Tool(name, text_at(inner, "description"), schema if schema.get("type") == "object" else {"type": "object", **_rest(schema)})


def _rest(schema: Object) -> Object:
    """A schema that says of itself no type, or another one than an input has."""
    return {"properties": {}, **{key: value for key, value in schema.items() if key != "type"}}
