"""A message record of a pi session as an entry."""

from __future__ import annotations

import msgspec

from ..core.entries import Entry, Usage
from ..core.messages import JSON, Block, Image, Object, Opaque, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from .fields import count_at, object_at, text_at, time_at

SAID = frozenset({"message", "custom_message", "branch_summary"})
"""Types of records that are entries."""


def entry_of(record: Object, id: str, line: int, raw: msgspec.Raw) -> Entry | None:
    """The entry of a record of a type in ``SAID``; None where its role is not known."""
    if record.get("type") == "message":
        message = object_at(record, "message")
        time = time_at(message, "timestamp") or time_at(record, "timestamp")
        return _message(message, id, time, line, raw)
    time = time_at(record, "timestamp")
    if record.get("type") == "branch_summary":
        return _summary(text_at(record, "summary"), id, time, line, raw)
    return Entry(id=id, kind="user", blocks=_content(record.get("content")), time=time, meta=True, line=line, raw=raw)


def _message(message: Object, id: str, time: float | None, line: int, raw: msgspec.Raw) -> Entry | None:
    match message.get("role"):
        case "toolResult":
            return Entry(id=id, kind="user", blocks=(_result(message),), time=time, line=line, raw=raw)
        case "assistant":
            return _assistant(message, id, time, line, raw)
        case "user":
            blocks = _content(message.get("content"))
            bare = bool(blocks) and isinstance(message.get("content"), str)
            return Entry(id=id, kind="user", blocks=blocks, time=time, bare=bare, line=line, raw=raw)
        case "bashExecution":
            unseen = message.get("excludeFromContext") is True
            blocks = (Text(_execution(message)),)
            return Entry(id=id, kind="note" if unseen else "user", blocks=blocks, time=time, meta=True, line=line, raw=raw)
        case "custom" | "hookMessage":
            return Entry(id=id, kind="user", blocks=_content(message.get("content")), time=time, meta=True, line=line, raw=raw)
        case "branchSummary" | "compactionSummary":
            return _summary(text_at(message, "summary"), id, time, line, raw)
        case _:
            return None


def _summary(text: str, id: str, time: float | None, line: int, raw: msgspec.Raw) -> Entry:
    return Entry(id=id, kind="user", blocks=(Text(text),) if text else (), time=time, meta=True, summary=True, line=line, raw=raw)


def _assistant(message: Object, id: str, time: float | None, line: int, raw: msgspec.Raw) -> Entry:
    """A response; one that failed or was stopped before anything came is a note of why."""
    blocks = _content(message.get("content"))
    model = text_at(message, "model") or None
    if not blocks and text_at(message, "stopReason") in ("aborted", "error"):
        why = text_at(message, "errorMessage") or text_at(message, "stopReason")
        return Entry(id=id, kind="note", blocks=(Text(why),), time=time, model=model, line=line, raw=raw)
    api_id = text_at(message, "responseId") or id
    usage = usage_of(message.get("usage"))
    return Entry(id=id, kind="assistant", blocks=blocks, time=time, api_id=api_id, usage=usage, model=model, line=line, raw=raw)


def _content(content: JSON) -> tuple[Block, ...]:
    if isinstance(content, list):
        return tuple([_block(part) for part in content])
    return (Text(content),) if isinstance(content, str) and content else ()


def _block(part: JSON) -> Block:
    if not isinstance(part, dict):
        return Opaque(part)
    kind = part.get("type")
    if kind == "text" and isinstance(text := part.get("text"), str):
        return Text(text)
    if kind == "toolCall" and isinstance(id := part.get("id"), str) and isinstance(name := part.get("name"), str):
        return ToolUse(id, name, part.get("arguments"))
    if kind == "thinking" and isinstance(text := part.get("thinking"), str):
        signature = text_at(part, "thinkingSignature")
        return RedactedThinking(signature) if part.get("redacted") is True else Thinking(text, signature)
    if kind == "image" and isinstance(data := part.get("data"), str) and isinstance(mime := part.get("mimeType"), str):
        return Image({"type": "base64", "media_type": mime, "data": data})
    return Opaque(part)


def _result(message: Object) -> ToolResult:
    content = message.get("content")
    parts = content if isinstance(content, str) else _content(content)
    return ToolResult(text_at(message, "toolCallId"), parts, message.get("isError") is True)


def _execution(message: Object) -> str:
    """A command that the user ran, with its output."""
    lines = [f"$ {text_at(message, 'command')}"]
    if output := text_at(message, "output"):
        lines.append(output)
    if message.get("cancelled") is True:
        lines.append("(cancelled)")
    elif message.get("exitCode") not in (0, None):
        lines.append(f"(exit code {message['exitCode']})")
    if path := text_at(message, "fullOutputPath"):
        lines.append(f"(full output: {path})")
    return "\n".join(lines)


def usage_of(data: JSON) -> Usage | None:
    """pi's counts, which are disjoint; None for a response that was never counted."""
    if not isinstance(data, dict):
        return None
    usage = Usage(
        input=count_at(data, "input"),
        cache_write=count_at(data, "cacheWrite"),
        cache_read=count_at(data, "cacheRead"),
        output=count_at(data, "output"),
    )
    return usage if usage.size else None
