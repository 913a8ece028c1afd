"""OpenCode exports: ``{"info", "messages": [{"info", "parts"}]}``.

A message of the assistant holds its tool parts with their results, so it becomes an assistant entry and a user entry
with the results; one with several steps becomes several such pairs, each a response of its own. What OpenCode did to
its context is kept as folds: pruned results (``state.time.compacted``), and compactions, where a user message with a
``compaction`` part is answered by an assistant message marked ``summary``, shown with the kept tail behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.entries import CLEARED, Entry, Fold, Head, HideEntries, HideSpan, Record, ReplaceBlocks, Target
from ..core.log import Log
from ..core.messages import Object, Text
from ..core.transcript import Conversation, ConversationKind, OtherRecord, Transcript
from .common import Ids, transcript
from .opencode_parts import Message, assistant_entries, user_entries
from .parts import documents, items_at, numbered_objects, object_at, objects_at, rest_of, text_at
from .source import Source

NAME = "opencode"
_ONE_PRUNE_SECONDS = 5.0
"""Results marked within this time of one another were pruned together: OpenCode writes one mark after the other."""


def recognises(source: Source) -> bool:
    """Whether the content is an OpenCode export."""
    return source.shape in ("document", "lines") and bool(source.first_objects) and _is_export(source.first_objects[0])


def _is_export(data: Object) -> bool:
    messages = items_at(data, "messages")
    return isinstance(data.get("info"), dict) and bool(messages) and all(_is_message(message) for message in messages[:2])


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and isinstance(message.get("info"), dict) and isinstance(message.get("parts"), list)


def read(source: Source) -> Transcript:
    """Read exports. Raises InputError where there is no message in them."""
    other: list[OtherRecord] = []
    logs: list[Log] = []
    for number, data in documents(source):
        if _is_export(data):
            logs.append(_log(source, data, other))
        else:
            source.bad(number, "not an OpenCode export: no info and messages with parts")
    kind: ConversationKind = "sample" if len(logs) > 1 else "main"
    return transcript(NAME, source, (Conversation(log, kind) for log in logs), other)


def _log(source: Source, data: Object, other: list[OtherRecord]) -> Log:
    info = object_at(data, "info")
    ids = Ids("msg-")
    messages = list(_messages(source, data, ids, other))
    model = next((entry.model for message in reversed(messages) for entry in message.entries if entry.model), None)
    head = Head(
        id=text_at(info, "id"),
        model=model or text_at(info, "model", "id") or None,
        cwd=text_at(info, "directory") or None,
        name=text_at(info, "title"),
        extra={**rest_of(info, "id", "directory", "title"), **rest_of(data, "info", "messages")},
    )
    return Log(head, _with_folds(messages, ids))


def _messages(source: Source, data: Object, ids: Ids, other: list[OtherRecord]) -> Iterator[Message]:
    for number, record in numbered_objects(source, items_at(data, "messages"), "message"):
        info, parts = object_at(record, "info"), objects_at(record, "parts")
        role = info.get("role")
        if role == "user":
            yield user_entries(info, parts, number, ids, other)
        elif role == "assistant":
            yield assistant_entries(info, parts, number, ids, other)
        else:
            source.bad(number, f"message {number} has the role {role!r}")


# --- folds


def _with_folds(messages: list[Message], ids: Ids) -> Iterator[Record]:
    """The entries, each fold behind the last entry that was there when it was made."""
    prunes = _prunes(messages)
    known: set[str] = set()
    for place, message in enumerate(messages):
        while prunes and prunes[0][0] < message.created and all(target.entry in known for target in prunes[0][1]):
            yield _prune_fold(ids("prune"), *prunes.pop(0))
        yield from message.entries
        known.update(entry.id for entry in message.entries)
        if message.is_summary:
            yield from _compaction(messages[: place + 1], ids)
    for prune in prunes:
        yield _prune_fold(ids("prune"), *prune)


def _prunes(messages: list[Message]) -> list[tuple[float, list[Target]]]:
    """Each prune with its time and the results it cleared, in order of time."""
    marks = sorted((mark for message in messages for mark in message.pruned), key=lambda mark: mark[0])
    prunes: list[tuple[float, list[Target]]] = []
    for time, target in marks:
        if prunes and time - prunes[-1][0] <= _ONE_PRUNE_SECONDS:
            prunes[-1] = (time, [*prunes[-1][1], target])
        else:
            prunes.append((time, [target]))
    return prunes


def _prune_fold(id: str, time: float, targets: list[Target]) -> Fold:
    change = ReplaceBlocks(tuple(targets), (CLEARED,))
    return Fold(id=id, level="imported", changes=(change,), why="OpenCode pruned old tool results", time=time)


def _compaction(seen: list[Message], ids: Ids) -> Iterator[Fold]:
    """The fold of a finished summary, the last message of ``seen``: all before it is hidden, but for the tail that was kept."""
    asked = _request(seen)
    stand_ins = _stand_ins(seen[-1], seen[asked] if asked is not None else None, ids)
    if not stand_ins:
        return
    place = len(seen) - 1 if asked is None else asked
    tail = place if asked is None else _tail(seen, asked)
    exchange = tuple(entry.id for message in seen[place:] for entry in message.entries)
    if tail == place:
        changes: tuple[HideSpan | HideEntries, ...] = (HideSpan(last=exchange[-1], stand_ins=stand_ins),)
    else:
        before_tail = [entry.id for message in seen[:tail] for entry in message.entries]
        changes = (HideSpan(last=before_tail[-1], stand_ins=stand_ins), HideEntries(exchange))
    last = seen[-1].entries[-1]
    usage = next((entry.usage for entry in reversed(seen[-1].entries) if entry.usage), None)
    yield Fold(
        id=ids("compaction"),
        level="imported",
        changes=changes,
        why="OpenCode compaction",
        time=last.time,
        tokens_before=usage.size - usage.output if usage else None,
        usage=usage,
        line=last.line,
    )


def _stand_ins(summary: Message, request: Message | None, ids: Ids) -> tuple[Entry, ...]:
    """What is shown for a compacted stretch: the question for the summary, and the summary. Nothing where it has no text."""
    text = tuple(
        Text(block.text) for entry in summary.entries for block in entry.blocks if isinstance(block, Text) and entry.kind == "assistant"
    )
    if not text:
        return ()
    asked = request.entries if request is not None else []
    question = (
        Entry(id=ids(f"{e.id}-shown"), kind="user", blocks=e.blocks, time=e.time, meta=True, bare=e.bare, line=e.line) for e in asked
    )
    last = summary.entries[-1]
    return (
        *question,
        Entry(id=ids(f"{last.id}-summary"), kind="assistant", blocks=text, time=last.time, model=last.model, summary=True, line=last.line),
    )


def _request(seen: list[Message]) -> int | None:
    """Place of the user message that asked for the summary: its parent, else the one just before it."""
    parent = seen[-1].parent
    places = [place for place, message in enumerate(seen[:-1]) if message.asks_compaction]
    by_id = [place for place in places if seen[place].name == parent]
    return by_id[-1] if by_id else places[-1] if places and places[-1] == len(seen) - 2 else None


def _tail(seen: list[Message], place: int) -> int:
    """Place of the first message of the kept tail; ``place`` where none was kept."""
    wanted = seen[place].tail_start
    return next((i for i in range(1, place) if wanted and seen[i].name == wanted and seen[i].entries), place)
