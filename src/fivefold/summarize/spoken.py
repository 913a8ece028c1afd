"""What the blocks of an entry say, who says it, and the record that is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from ..core.entries import Entry
from ..core.messages import JSON, Block, ServerToolResult, ServerToolUse, Text, ToolResult, ToolUse, result_text

Voice: TypeAlias = Literal["assistant", "call", "result", "person", "harness", "system"]
Row: TypeAlias = tuple[str, ...]
"""The references of one piece of a text, each once, in order."""

TOOL_MARK = "<tool-use "
"""What the tool calls of one Markdown format begin with; they stand there in the assistant's text, results included."""


class Unit(NamedTuple):
    """One text. ``entry`` and ``block`` count from 0; a call's text is the strings of its input, one a line."""

    entry: int
    block: int
    round: int
    voice: Voice
    text: str
    refs: frozenset[str]
    tool: str = ""
    rows: tuple[Row, ...] = ()
    """The references of each of its pieces (``shapes.pieces_of``)."""


def is_person(entry: Entry) -> bool:
    """Whether an entry holds what a person said (and not only what tools answered)."""
    return entry.kind == "user" and not entry.meta and not entry.summary and any(isinstance(block, Text) for block in entry.blocks)


def is_told_result(entry: Entry) -> bool:
    """Whether an assistant's entry holds nothing but results, as one Markdown format writes them."""
    return entry.kind == "assistant" and all(isinstance(block, Text) and block.text.startswith(TOOL_MARK) for block in entry.blocks)


def spoken(entry: Entry) -> Iterator[tuple[int, Voice, str, str]]:
    """Block number, voice, text and tool name of each block of an entry that says something."""
    if entry.summary or entry.kind in ("note", "boundary"):
        return
    for i, block in enumerate(entry.blocks):
        match block:
            case Text(text) if text and not text.isspace():
                yield i, _voice(entry, text), text, ""
            case ToolUse(_, name, input) | ServerToolUse(_, name, input):
                yield i, "call", "\n".join(strings(input)), name
            case ToolResult() if text := result_text(block):
                yield i, "result", text, ""
            case ServerToolResult(_, content):
                yield i, "result", "\n".join(strings(content)), ""
            case _:
                continue


def _voice(entry: Entry, text: str) -> Voice:
    if entry.kind == "system":
        return "system"
    if entry.kind == "assistant":
        return "result" if text.startswith(TOOL_MARK) else "assistant"
    return "person" if is_person(entry) else "harness"


def strings(value: JSON) -> Iterator[str]:
    """The strings and numbers of a JSON value in order, keys left out."""
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def is_unread(block: Block) -> bool:
    """Whether a block holds something that no unit shows (media, thinking, unknown kinds)."""
    return not isinstance(block, Text | ToolUse | ToolResult | ServerToolUse | ServerToolResult)
