"""Inspect logs: ``.json`` (one document) and ``.eval`` (a zip), every sample a conversation.

A sample's messages are read, and from its events only what gives each response its usage, time and tools. Long texts
stand beside the messages (``attachments``) and are put back. In a zip one sample at a time is decoded; very large samples
come in chunks under a folder of their own. Sizes are bounded by what is really unpacked, not by what the zip declares (H4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..core.entries import Entry, Head, Usage
from ..core.log import Log
from ..core.messages import (
    JSON,
    Block,
    Image,
    Object,
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from ..core.transcript import Conversation, ConversationKind, Transcript
from .common import Ids, count, parse_time, transcript
from .inspect_zip import Archive
from .parts import arguments, dig, documents, items_at, media_block, numbered_objects, object_at, objects_at, rest_of, text_at, usage_of
from .source import Source

NAME = "inspect"
_MARKS = ("attachment://", "tc://")
_HEAVY = ("messages", "events", "events_data", "attachments", "transcript", "input", "output", "timelines")
"""Keys of a sample that are read as the conversation, or repeat it."""


def recognises(source: Source) -> bool:
    """Whether the content is an Inspect log."""
    if source.shape == "zip":
        return Archive.is_log(source)
    if source.shape not in ("document", "lines") or not source.first_objects:
        return False
    return _is_log(source.first_objects[0])


def _is_log(data: Object) -> bool:
    return isinstance(data.get("eval"), dict) and "plan" in data and ("samples" in data or "status" in data)


def read(source: Source) -> Transcript:
    """Read a log. Raises InputError where there is no message in it, or where it unpacks to more than the limits."""
    if source.shape == "zip":
        with Archive(source) as archive:
            header = archive.header()
            logs = [_conversation(source, number, sample, header) for number, sample in archive.samples()]
        return _transcript(source, logs, header)
    logs = []
    headers: list[Object] = []
    for number, data in documents(source):
        if not _is_log(data):
            source.bad(number, "not an Inspect log: no eval, plan and samples")
            continue
        headers.append(rest_of(data, "samples"))
        for place, sample in numbered_objects(source, items_at(data, "samples"), "sample"):
            logs.append(_conversation(source, place, sample, data))
    return _transcript(source, logs, headers[0] if len(headers) == 1 else {"logs": [*headers]})


def _transcript(source: Source, logs: list[Log], meta: Object) -> Transcript:
    kind: ConversationKind = "sample"
    return transcript(NAME, source, (Conversation(log, kind) for log in logs if len(log)), meta=meta)


def _conversation(source: Source, number: int, sample: Object, header: Object) -> Log:
    texts = _attachments(sample)
    calls = _calls_of(sample, texts)
    id, epoch = sample.get("id"), sample.get("epoch")
    head = Head(
        id=f"{id}_epoch_{epoch}",
        model=text_at(header, "eval", "model") or None,
        tools=calls.tools,
        name=f"sample {id}, epoch {epoch}",
        extra=rest_of(sample, *_HEAVY),
    )
    return Log(head, _entries(source, number, sample, texts, calls))


# --- attachments


@dataclass(slots=True)
class _Attachments:
    """The texts that stand beside the messages, by their hash or number, and those that were asked for in vain."""

    texts: Mapping[str, JSON]
    missing: set[str] = field(default_factory=set)

    def put_back(self, value: JSON) -> JSON:
        """The value with every reference in it replaced by its text."""
        if isinstance(value, str):
            return self._text(value) if value.startswith(_MARKS) else value
        if isinstance(value, list):
            return [self.put_back(item) for item in value]
        if isinstance(value, dict):
            return {key: self.put_back(item) for key, item in value.items()}
        return value

    def _text(self, reference: str) -> str:
        text = self.texts.get(reference.split("://", 1)[1])
        if isinstance(text, str):
            return text
        self.missing.add(reference)
        return reference


def _attachments(sample: Object) -> _Attachments:
    return _Attachments(object_at(sample, "attachments") or object_at(sample, "transcript", "content"))


# --- what the events tell of the responses


@dataclass(slots=True)
class _Calls:
    """Usage and time of the model calls by the id of the message that each gave, and the tools offered."""

    usage: dict[str, Usage] = field(default_factory=dict)
    time: dict[str, float] = field(default_factory=dict)
    tools: tuple[Object, ...] = ()


def _calls_of(sample: Object, texts: _Attachments) -> _Calls:
    calls = _Calls()
    for event in objects_at(sample, "events") or objects_at(sample, "transcript", "events"):
        if event.get("event") != "model":
            continue
        output = object_at(event, "output")
        for choice in objects_at(output, "choices"):
            id = text_at(choice, "message", "id")
            usage, time = _usage(output.get("usage")), parse_time(event.get("completed") or event.get("timestamp"))
            if id and usage:
                calls.usage[id] = usage
            if id and time is not None:
                calls.time[id] = time
        if not calls.tools:
            calls.tools = tuple(tool for tool in (texts.put_back(tool) for tool in objects_at(event, "tools")) if isinstance(tool, dict))
    return calls


def _usage(data: JSON) -> Usage | None:
    if not isinstance(data, dict):
        return None
    return usage_of(
        count(data, "input_tokens"),
        count(data, "output_tokens"),
        thinking=count(data, "reasoning_tokens"),
        read=count(data, "input_tokens_cache_read"),
        written=count(data, "input_tokens_cache_write"),
        total=count(data, "total_tokens"),
    )


# --- messages


def _entries(source: Source, sample_number: int, sample: Object, texts: _Attachments, calls: _Calls) -> Iterator[Entry]:
    ids = Ids("m")
    messages = items_at(sample, "messages")
    last = max((n for n, m in enumerate(messages, 1) if isinstance(m, dict) and m.get("role") == "assistant"), default=0)
    sourced = any(isinstance(m, dict) and m.get("source") for m in messages)
    for number, record in numbered_objects(source, messages, f"sample {sample_number}: message"):
        message = object_at({"message": texts.put_back(record)}, "message")
        role = message.get("role")
        blocks, bare = _content(message.get("content"))
        if role == "assistant":
            yield _assistant(
                message, number, ids(message.get("id")), calls, _usage(dig(sample, "output", "usage")) if number == last else None
            )
        elif role == "tool":
            yield Entry(id=ids(message.get("id")), kind="user", blocks=(_result(message, blocks, bare),), line=number)
        elif role in ("user", "system", "developer"):
            meta = role == "user" and _by_harness(message, sourced)
            yield Entry(
                id=ids(message.get("id")), kind="user" if role == "user" else "system", blocks=blocks, meta=meta, bare=bare, line=number
            )
        else:
            source.bad(number, f"sample {sample_number}: message {number} has the role {role!r}")
    if texts.missing:
        source.bad(
            1, f"sample {sample_number}: {len(texts.missing)} attachments are not in the log, the first is {min(texts.missing)[:60]}"
        )


def _by_harness(message: Object, sourced: bool) -> bool:
    """Whether a user message is a solver's: in logs that tell sources, what is neither input nor an operator's."""
    return bool(message.get("tool_call_id")) or (sourced and message.get("source") not in ("input", "operator"))


def _assistant(message: Object, number: int, id: str, calls: _Calls, of_sample: Usage | None) -> Entry:
    content, bare = _content(message.get("content"))
    key = text_at(message, "id")
    uses = tuple(
        ToolUse(text_at(c, "id"), text_at(c, "function"), arguments(c.get("arguments"))) for c in objects_at(message, "tool_calls")
    )
    return Entry(
        id=id,
        kind="assistant",
        blocks=(*content, *uses),
        time=calls.time.get(key),
        api_id=id,
        usage=calls.usage.get(key, of_sample),
        model=text_at(message, "model") or None,
        bare=bare and not uses,
        line=number,
    )


def _result(message: Object, blocks: tuple[Block, ...], bare: bool) -> ToolResult:
    error = message.get("error")
    why = text_at(error, "message") if isinstance(error, dict) else error if isinstance(error, str) else ""
    whole: str | tuple[Block, ...] = text_at(message, "content") if bare else blocks
    return ToolResult(text_at(message, "tool_call_id"), whole or why, bool(error))


def _content(content: JSON) -> tuple[tuple[Block, ...], bool]:
    if isinstance(content, str):
        return ((Text(content),) if content else ()), True
    parts = content if isinstance(content, list) else []
    return tuple(block for part in parts for block in _part(part)), False


def _part(part: JSON) -> tuple[Block, ...]:
    match part:
        case {"type": "text", "text": str(text)}:
            return (Text(text),) if text else ()
        case {"type": "reasoning", "reasoning": str(data), "redacted": True}:
            return (RedactedThinking(data),)
        case {"type": "reasoning", "reasoning": str(text)}:
            return (Thinking(text or text_at(part, "summary"), text_at(part, "signature")),)
        case {"type": "image", "image": str(url)}:
            block = media_block(url)
            return (block if isinstance(block, Image) else Opaque(part),)
        case {"type": "document", "document": str(url)}:
            return (media_block(url, text_at(part, "mime_type") or "application/octet-stream"),)
        case {"type": "tool_use", "id": str(id), "name": str(name)}:
            result = dig(part, "error") or dig(part, "result")
            return (ServerToolUse(id, name, arguments(dig(part, "arguments"))), ServerToolResult(id, result, "mcp_tool_result"))
        case str(text):
            return (Text(text),) if text else ()
        case _:
            return (Opaque(part),)
