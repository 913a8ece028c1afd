"""Cline's and Roo Code's histories: Anthropic messages with marks of the client (time, model, metrics).

Cline's session document holds them under ``messages``; the extensions' ``api_conversation_history.json`` is the bare
list. Every key of a message goes back out with it: ``encode(decode(messages)) == messages``. Roo marks what a
summary or a truncation hides by its id; that is a fold here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ..core.entries import SHOWN_AS, Entry, Fold, Head, HideEntries, HideSpan, Record, Usage
from ..core.log import Log
from ..core.messages import JSON, Message, Object, Text, decode_content, encode_message
from ..core.transcript import Conversation, Transcript
from ..errors import InputError
from .common import Ids, transcript
from .fields import count_at, is_single_document, list_at, object_at, text_at, time_at, without
from .source import Source

NAME = "cline"

_ROLES = ("user", "assistant", "system")
_MARKS = ("ts", "modelInfo", "metrics", "isSummary", "condenseParent", "condenseId", "truncationParent", "isTruncationMarker")


def recognises(source: Source) -> bool:
    """A message list, bare or under ``messages``, in which a message bears a mark of Cline or Roo."""
    if source.shape not in ("lines", "document") or not source.first_objects:
        return False
    items = source.first_objects
    if "messages" in items[0]:
        items = tuple(item for item in list_at(items[0], "messages")[:20] if isinstance(item, dict))
    return any(_is_marked(item) for item in items) and all("role" in item for item in items) and is_single_document(source)


def _is_marked(item: Mapping[str, JSON]) -> bool:
    """Whether an object is a message with a mark; a time alone must be one in milliseconds."""
    if item.get("role") not in _ROLES or not isinstance(item.get("content"), str | list):
        return False
    stamp = item.get("ts")
    timed = isinstance(stamp, int | float) and stamp > 1e11
    return timed or isinstance(item.get("modelInfo"), dict) or any(key in item for key in _MARKS[3:])


def read(source: Source) -> Transcript:
    """The history as one conversation. Raises InputError where no message can be read."""
    document = source.document
    wrapper: Object = document if isinstance(document, dict) else {}
    messages = wrapper.get("messages") if wrapper else document
    if not isinstance(messages, list):
        raise InputError("not a Cline history: no list of messages in it", path=source.path)
    entries = list(decode(messages, source.bad))
    system = text_at(wrapper, "system_prompt")
    head = Head(
        id=text_at(wrapper, "sessionId"),
        model=next((entry.model for entry in reversed(entries) if entry.model), None),
        system=(Text(system),) if system else (),
        name=text_at(wrapper, "agent"),
    )
    meta = without(wrapper, "messages", "sessionId", "system_prompt", "agent")
    return transcript(NAME, source, [Conversation(Log(head, _with_folds(entries)))], meta=meta)


def decode(messages: Iterable[JSON], bad: Callable[[int, str], None]) -> Iterator[Entry]:
    """The entries of a message list; ``bad`` is told the number and the fault of what is no message."""
    ids = Ids()
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            bad(number, f"message {number} is no object")
        elif message.get("role") not in _ROLES or not isinstance(message.get("content"), str | list):
            bad(number, f"message {number} has no role or no content that can be read")
        else:
            yield _entry(message, number, ids)


def _entry(message: Object, number: int, ids: Ids) -> Entry:
    blocks, bare = decode_content(message["content"])
    extra = without(message, "role", "content")
    time = time_at(message, "ts")
    id = ids(message.get("id"))
    summary = message.get("isSummary") is True
    marker = message.get("isTruncationMarker") is True
    match message["role"]:
        case "assistant":
            return Entry(
                id=id,
                kind="assistant",
                blocks=blocks,
                time=time,
                api_id=text_at(message, "id") or None,
                usage=_usage(message.get("metrics")),
                model=text_at(object_at(message, "modelInfo"), "id") or None,
                summary=summary,
                bare=bare,
                extra=extra,
                line=number,
            )
        case "user":
            meta = summary or marker
            return Entry(id=id, kind="user", blocks=blocks, time=time, meta=meta, summary=summary, bare=bare, extra=extra, line=number)
        case _:
            return Entry(id=id, kind="system", blocks=blocks, time=time, bare=bare, extra=extra, line=number)


def _usage(metrics: JSON) -> Usage | None:
    """Cline's counts: its input holds the cached parts, as each next request's cache read shows."""
    if not isinstance(metrics, dict):
        return None
    read, written = count_at(metrics, "cacheReadTokens"), count_at(metrics, "cacheWriteTokens")
    fresh = max(0, count_at(metrics, "inputTokens") - read - written)
    return Usage(input=fresh, cache_write=written, cache_read=read, output=count_at(metrics, "outputTokens"))


def encode(entries: Iterable[Entry]) -> list[Object]:
    """The message list of entries, as ``decode`` found it."""
    found = []
    for entry in entries:
        if (role := SHOWN_AS.get(entry.kind)) is not None:
            found.append(encode_message(Message(role, entry.blocks, entry.bare, entry.extra)))
    return found


def _with_folds(entries: list[Entry]) -> Iterator[Record]:
    """The entries, each summary or truncation marker followed by the fold of what it hides."""
    hidden: dict[str, list[str]] = {}
    for entry in entries:
        for key in ("condenseParent", "truncationParent"):
            if parent := text_at(entry.extra, key):
                hidden.setdefault(parent, []).append(entry.id)
    tagged = bool(hidden)
    places = {entry.id: place for place, entry in enumerate(entries)}
    for place, entry in enumerate(entries):
        yield entry
        own = text_at(entry.extra, "condenseId") if entry.summary else text_at(entry.extra, "truncationId")
        targets = tuple(id for id in hidden.get(own, ()) if places[id] < place)
        if targets:
            yield _fold(entry, HideEntries(targets))
        elif entry.summary and not tagged and place > 1:
            # Before Roo tagged messages, the view was the first message and all from the last summary on.
            yield _fold(entry, HideSpan(last=entries[place - 1].id, first=entries[1].id))


def _fold(entry: Entry, change: HideEntries | HideSpan) -> Fold:
    why = "a recorded summary" if entry.summary else "a recorded truncation"
    return Fold(id=f"{entry.id}/fold", level="imported", changes=(change,), why=why, time=entry.time, line=entry.line)
