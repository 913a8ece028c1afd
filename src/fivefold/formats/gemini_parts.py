"""A Gemini CLI message record as entries: content parts, thoughts, tool calls with their results, token counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from ..core.entries import Entry, Usage
from ..core.messages import JSON, Block, Image, Object, Opaque, Text, Thinking, ToolResult, ToolUse
from .common import Ids
from .fields import as_text, count_at, list_at, object_at, text_at, time_at

SPOKEN = ("user", "gemini")
TYPES = (*SPOKEN, "info", "error", "warning")

_HARNESS = ("<session_context>", "<hook_context>")
_SUMMARY = "<state_snapshot>"
_FAILED = ("error", "cancelled")


@dataclass(eq=False)
class Message:
    """A message record as it stood last, with its line (of a document: its number) and source bytes."""

    id: str
    type: str
    record: Object
    line: int
    raw: msgspec.Raw


def message_of(record: JSON, line: int, raw: msgspec.Raw) -> Message | None:
    """A record with an id and a known type; None for anything else."""
    if not isinstance(record, dict) or not text_at(record, "id") or text_at(record, "type") not in TYPES:
        return None
    return Message(text_at(record, "id"), text_at(record, "type"), record, line, raw)


def entries_of(message: Message, ids: Ids, answered: Collection[str] = ()) -> Iterator[Entry]:
    """The entry of a message, and one with its tools' results; those in ``answered`` have a record of their own."""
    record, id = message.record, ids(message.id)
    time = time_at(record, "timestamp")
    blocks = tuple(_content(record.get("content"), model=message.type == "gemini"))
    if message.type == "gemini":
        model = text_at(record, "model") or None
        own = (*_thoughts(record), *_without_calls(blocks, record), *_calls(record))
        usage = _usage(record.get("tokens"))
        yield Entry(
            id=id, kind="assistant", blocks=own, time=time, api_id=message.id, usage=usage, model=model, line=message.line, raw=message.raw
        )
        results = tuple(_results(record, answered))
        if results:
            yield Entry(id=ids(f"{message.id}/results"), kind="user", blocks=results, time=time, line=message.line)
        return
    if message.type != "user":
        yield Entry(id=id, kind="note", blocks=blocks, time=time, line=message.line, raw=message.raw)
        return
    first = next((block.text for block in blocks if isinstance(block, Text)), "").lstrip()
    summary = first.startswith(_SUMMARY)
    meta = summary or first.startswith(_HARNESS)
    bare = bool(blocks) and isinstance(record.get("content"), str)
    yield Entry(id=id, kind="user", blocks=blocks, time=time, meta=meta, summary=summary, bare=bare, line=message.line, raw=message.raw)


def results_in(record: Object) -> Iterator[str]:
    """Ids of the calls that a record of the user answers."""
    if record.get("type") == "user":
        for part in list_at(record, "content"):
            if isinstance(part, dict) and (id := text_at(object_at(part, "functionResponse"), "id")):
                yield id


def is_answer_to(record: Object, calls: Collection[str]) -> bool:
    """Whether a record of the user holds nothing but answers to these calls."""
    parts = list_at(record, "content")
    return (
        bool(parts)
        and record.get("type") == "user"
        and all(isinstance(part, dict) and text_at(object_at(part, "functionResponse"), "id") in calls for part in parts)
    )


def calls_in(record: Object) -> Iterator[str]:
    """Ids of the calls whose results a record of the model holds."""
    for call in list_at(record, "toolCalls"):
        if isinstance(call, dict) and "result" in call:
            yield text_at(call, "id")


def _content(content: JSON, *, model: bool) -> Iterator[Block]:
    """Gemini's content: a text, a part, or a list of both."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            if part:
                yield Text(part)
        elif isinstance(part, dict):
            yield _part(part, model=model)
        elif part is not None:
            yield Opaque(part)


def _part(part: Object, *, model: bool) -> Block:
    if isinstance(text := part.get("text"), str):
        return Thinking(text, text_at(part, "thoughtSignature")) if part.get("thought") is True else Text(text)
    data = object_at(part, "inlineData")
    if text_at(data, "mimeType").startswith("image/") and text_at(data, "data"):
        return Image({"type": "base64", "media_type": text_at(data, "mimeType"), "data": text_at(data, "data")})
    if model and (call := object_at(part, "functionCall")):
        return ToolUse(text_at(call, "id"), text_at(call, "name"), call.get("args"))
    if not model and (answer := object_at(part, "functionResponse")):
        content, failed = _response(answer)
        return ToolResult(text_at(answer, "id"), content, failed)
    return Opaque(part)


def _response(answer: Object) -> tuple[str, bool]:
    """What a function answered, and whether it failed."""
    response = answer.get("response")
    if isinstance(response, dict):
        for key in ("output", "error"):
            if key in response:
                return as_text(response[key]), key == "error"
    return as_text(response), False


def _thoughts(record: Object) -> Iterator[Block]:
    for thought in list_at(record, "thoughts"):
        if isinstance(thought, dict):
            parts = (text_at(thought, "subject"), text_at(thought, "description"))
            yield Thinking("\n".join(part for part in parts if part))


def _without_calls(blocks: tuple[Block, ...], record: Object) -> Iterator[Block]:
    """The content without what the record holds in fields of its own as well: its calls, its thoughts."""
    calls = {text_at(call, "id") for call in list_at(record, "toolCalls") if isinstance(call, dict)}
    thoughts = bool(list_at(record, "thoughts"))
    for block in blocks:
        if isinstance(block, ToolUse) and block.id in calls:
            continue
        if isinstance(block, Thinking) and thoughts and not block.signature:
            continue
        yield block


def _calls(record: Object) -> Iterator[Block]:
    for call in list_at(record, "toolCalls"):
        if isinstance(call, dict):
            yield ToolUse(text_at(call, "id"), text_at(call, "name"), call.get("args"))


def _results(record: Object, answered: Collection[str]) -> Iterator[Block]:
    for call in list_at(record, "toolCalls"):
        if isinstance(call, dict) and call.get("result") is not None and text_at(call, "id") not in answered:
            yield _result(call)


def _result(call: Object) -> Block:
    failed = text_at(call, "status") in _FAILED
    blocks: list[Block] = []
    result = call.get("result")
    for part in result if isinstance(result, list) else [result]:
        if isinstance(part, dict) and (answer := object_at(part, "functionResponse")):
            text, error = _response(answer)
            failed = failed or error
            blocks.append(Text(text))
        else:
            blocks.extend(_content(part, model=False))
    match blocks:
        case [Text(text)]:
            return ToolResult(text_at(call, "id"), text, failed)
        case _:
            return ToolResult(text_at(call, "id"), tuple(blocks), failed)


def _usage(tokens: JSON) -> Usage | None:
    """Gemini's counts: its input holds the cached part, its output leaves the thinking out (T2)."""
    if not isinstance(tokens, dict):
        return None
    read, thinking = count_at(tokens, "cached"), count_at(tokens, "thoughts")
    fresh = max(0, count_at(tokens, "input") - read) + count_at(tokens, "tool")
    return Usage(input=fresh, cache_read=read, output=count_at(tokens, "output") + thinking, thinking=thinking)
