"""The messages of an OpenCode export: their parts as entries (see ``opencode``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core.entries import Entry, Target, Usage
from ..core.messages import Block, Document, Image, Object, Opaque, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from ..core.transcript import OtherRecord
from .common import Ids, count, parse_time
from .parts import arguments, dig, media_block, object_at, objects_at, other_record, text_at, usage_of

_ASKED = {"compaction": "What did we do so far?", "subtask": "The following tool was executed by the user"}
"""What OpenCode sends to the model for a user part that has no text of its own."""
_AS_TEXT = ("text/plain", "application/x-directory")
"""Files of these types are sent as the synthetic text beside them, not as files."""


@dataclass(slots=True)
class Message:
    """One message: its entries, and what the folds need to know of it. Times are in seconds since the epoch."""

    name: str
    created: float
    entries: list[Entry] = field(default_factory=list)
    parent: str = ""
    is_summary: bool = False
    asks_compaction: bool = False
    tail_start: str = ""
    pruned: list[tuple[float, Target]] = field(default_factory=list)


def _new(info: Object) -> Message:
    return Message(text_at(info, "id"), parse_time(dig(info, "time", "created")) or 0.0, parent=text_at(info, "parentID"))


def user_entries(info: Object, parts: list[Object], number: int, ids: Ids, other: list[OtherRecord]) -> Message:
    """A person's message. Text that OpenCode wrote into it (``synthetic``) becomes an entry of its own, marked meta."""
    message = _new(info)
    runs: list[tuple[bool, list[Block]]] = []
    for part in parts:
        blocks, meta = _user_part(part)
        if not blocks:
            other.append(other_record(number, part))
            continue
        if part.get("type") in _ASKED:
            other.append(other_record(number, part))
        if not runs or runs[-1][0] != meta:
            runs.append((meta, []))
        runs[-1][1].extend(blocks)
    for meta, run in runs or [(False, [])]:
        entry = Entry(id=ids(message.name), kind="user", blocks=tuple(run), time=message.created or None, meta=meta, line=number)
        message.entries.append(entry)
    request = next((part for part in parts if part.get("type") == "compaction"), None)
    message.asks_compaction, message.tail_start = request is not None, text_at(request, "tail_start_id")
    return message


def _user_part(part: Object) -> tuple[tuple[Block, ...], bool]:
    """The blocks of a part of a user message (none: the model was not shown it), and whether the harness wrote it."""
    match part:
        case {"type": "text", "text": str(text)} if text and part.get("ignored") is not True:
            return (Text(text),), part.get("synthetic") is True
        case {"type": "file", "mime": str(mime), "url": str(url)} if mime not in _AS_TEXT:
            return (_file(url, mime, part),), part.get("synthetic") is True
        case {"type": "compaction" | "subtask" as kind}:
            return (Text(_ASKED[kind]),), True
        case _:
            return (), True


def _file(url: str, mime: str, part: Object) -> Block:
    return media_block(url, mime) if mime.startswith("image/") or mime == "application/pdf" else Opaque(part)


# --- the assistant


@dataclass(slots=True)
class _Step:
    """What one API response gave: blocks, answers, and the usage of its step-finish part."""

    blocks: list[Block] = field(default_factory=list)
    results: list[Block] = field(default_factory=list)
    pruned: list[tuple[float, int]] = field(default_factory=list)
    usage: Usage | None = None
    answered: float | None = None


def assistant_entries(info: Object, parts: list[Object], number: int, ids: Ids, other: list[OtherRecord]) -> Message:
    """An answer: for each step an entry, and one with the results of its calls; an error becomes a note."""
    message = _new(info)
    steps = [step for step in _steps(parts, number, other) if step.blocks or step.results]
    if steps and steps[-1].usage is None:
        steps[-1].usage = _usage(object_at(info, "tokens")) if len(steps) == 1 else None
    unsent = _unsent(info, parts)
    message.is_summary = info.get("summary") is True and bool(info.get("finish") or not info.get("error")) and not unsent
    for step in steps:
        _add_step(message, info, step, number, ids, unsent)
    error = object_at(info, "error")
    if error:
        why = ": ".join(text for text in (text_at(error, "name"), text_at(error, "data", "message")) if text)
        note = Entry(
            id=ids(f"{message.name}-error"),
            kind="note",
            blocks=(Text(why),) if why else (),
            time=message.created or None,
            meta=True,
            line=number,
        )
        message.entries.append(note)
    elif not steps:
        message.entries.append(Entry(id=ids(message.name), kind="assistant", time=message.created or None, line=number))
    return message


def _unsent(info: Object, parts: list[Object]) -> bool:
    """Whether OpenCode leaves the message out of later requests: one that failed, or was aborted before it said anything."""
    if not info.get("error"):
        return False
    aborted = text_at(info, "error", "name") == "MessageAbortedError"
    return not (aborted and any(part.get("type") not in ("step-start", "reasoning") for part in parts))


def _add_step(message: Message, info: Object, step: _Step, number: int, ids: Ids, unsent: bool) -> None:
    id = ids(message.name)
    compaction = info.get("summary") is True
    entry = Entry(
        id=id,
        kind="note" if unsent else "assistant",
        blocks=tuple(step.blocks),
        time=message.created or None,
        api_id=None if unsent else id,
        usage=None if unsent else step.usage,
        model=text_at(info, "modelID") or None,
        source="compact" if compaction else "main",
        line=number,
    )
    message.entries.append(entry)
    if not step.results:
        return
    answer = Entry(id=ids(f"{id}-results"), kind="note" if unsent else "user", blocks=tuple(step.results), time=step.answered, line=number)
    message.entries.append(answer)
    message.pruned.extend((time, Target(answer.id, place)) for time, place in step.pruned)


def _steps(parts: list[Object], number: int, other: list[OtherRecord]) -> Iterator[_Step]:
    step = _Step()
    for part in parts:
        kind = part.get("type")
        if kind == "step-start":
            yield step
            step = _Step()
        elif kind == "step-finish":
            step.usage = _usage(object_at(part, "tokens"))
        elif kind == "tool":
            _add_call(step, part)
        else:
            block = _assistant_part(part)
            if block is None:
                other.append(other_record(number, part))
            else:
                step.blocks.append(block)
    yield step


def _assistant_part(part: Object) -> Block | None:
    match part:
        case {"type": "text", "text": str(text)} if text:
            return Text(text)
        case {"type": "reasoning", "text": str(text)}:
            return _reasoning(text, object_at(part, "metadata"))
        case {"type": "file", "mime": str(mime), "url": str(url)}:
            return _file(url, mime, part)
        case _:
            return None


def _reasoning(text: str, metadata: Object) -> Block | None:
    """Thinking, with the signature that a provider gave it; where there is neither, nothing."""
    own = [value for value in metadata.values() if isinstance(value, dict)]
    signature = next((text_at(value, "signature") for value in own if text_at(value, "signature")), "")
    redacted = next((text_at(value, "redactedData") for value in own if text_at(value, "redactedData")), "")
    if redacted and not text:
        return RedactedThinking(redacted)
    return Thinking(text, signature) if text or signature else None


def _add_call(step: _Step, part: Object) -> None:
    """A call and, where it has come, its answer: a call that is pending or running stays open."""
    state = object_at(part, "state")
    id = text_at(part, "callID")
    step.blocks.append(ToolUse(id, text_at(part, "tool"), arguments(state.get("input"))))
    status = state.get("status")
    if status not in ("completed", "error"):
        return
    pruned = parse_time(dig(state, "time", "compacted"))
    if status == "completed" and pruned is not None:
        step.pruned.append((pruned, len(step.results)))
    ended = parse_time(dig(state, "time", "end"))
    if ended is not None:
        step.answered = max(ended, step.answered or 0.0)
    failed = status == "error"
    step.results.append(ToolResult(id, text_at(state, "error") if failed else _output(state), failed))


def _output(state: Object) -> str | tuple[Block, ...]:
    text = text_at(state, "output")
    media = tuple(_file(text_at(item, "url"), text_at(item, "mime"), item) for item in objects_at(state, "attachments"))
    if not any(isinstance(block, Image | Document | Opaque) for block in media):
        return text
    return (*((Text(text),) if text else ()), *media)


def _usage(tokens: Object) -> Usage | None:
    return usage_of(
        count(tokens, "input"),
        count(tokens, "output"),
        thinking=count(tokens, "reasoning"),
        read=count(tokens, "cache", "read"),
        written=count(tokens, "cache", "write"),
        total=count(tokens, "total"),
    )
