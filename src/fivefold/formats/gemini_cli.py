"""Gemini CLI sessions: the older JSON document, and the newer JSON lines, which are a journal (``gemini_journal``).

What was rewound is a branch here. Where the client gave the model another list of messages (its own compression,
a cancelled turn) that is a fold; the messages themselves stay in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..core.entries import Boundary, Entry, Fold, Head, HideSpan, Record
from ..core.log import Log
from ..core.messages import Object
from ..core.transcript import Conversation, OtherRecord, Transcript
from ..errors import InputError
from .common import Ids, transcript
from .fields import is_single_document, list_at, raw_of, text_at, without
from .gemini_journal import Item, Journal, Shown, spoken
from .gemini_parts import Message, entries_of, message_of, results_in
from .source import Line, Source

NAME = "gemini-cli"


def recognises(source: Source) -> bool:
    """A session header (``sessionId`` and ``projectHash``), or a message record of type ``gemini``."""
    if source.shape not in ("lines", "document"):
        return False
    return any(
        (isinstance(item.get("sessionId"), str) and isinstance(item.get("projectHash"), str))
        or (item.get("type") == "gemini" and isinstance(item.get("id"), str) and "content" in item)
        for item in source.first_objects
    )


def read(source: Source) -> Transcript:
    """The session, with what was rewound as branches. Raises InputError where no message can be read."""
    journal = Journal(source)
    if is_single_document(source):
        _read_document(source, journal)
    else:
        for line, record in source.objects():
            _apply(journal, line, record)
    ids = Ids()
    head = _head(journal)
    found = [Conversation(Log(head, _records(journal.items, ids)))]
    for number, (after, items) in enumerate(journal.branches, 1):
        left = Head(name=f"branch {number}", model=head.model, cwd=head.cwd, extra={"after": after})
        found.append(Conversation(Log(left, _records(items, ids)), "branch"))
    return transcript(NAME, source, found, journal.other)


def _read_document(source: Source, journal: Journal) -> None:
    document = source.document
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        raise InputError("not a Gemini CLI session: no list of messages in it", path=source.path)
    journal.metadata = without(document, "messages")
    for number, record in enumerate(list_at(document, "messages"), 1):
        message = message_of(record, number, raw_of(record))
        if message is None:
            source.bad(number, f"message {number} has no id or no known type")
        else:
            journal.add(message)


def _apply(journal: Journal, line: Line, record: Object) -> None:
    """One line of the journal."""
    target, values = record.get("$rewindTo"), record.get("$set")
    message = message_of(record, line.number, msgspec.Raw(line.data))
    if message is not None:
        journal.add(message)
        return
    if isinstance(target, str):
        journal.rewind(target, line.number)
    elif isinstance(values, dict):
        _set(journal, line.number, values, replaces=True)
    elif isinstance(record.get("sessionId"), str):
        _set(journal, line.number, record, replaces=False)
    else:
        journal.source.bad(line.number, "neither a message with an id and a known type nor a change of the session")
        return
    journal.other.append(OtherRecord(line.number, line.data))


def _set(journal: Journal, line: int, values: Object, *, replaces: bool) -> None:
    """New values of the session. A header's messages (``replaces`` false) are added to what is there."""
    journal.metadata.update(without(values, "messages"))
    if not isinstance(values.get("messages"), list):
        return
    given = [message_of(item, line, raw_of(item)) for item in list_at(values, "messages")]
    if None in given:
        journal.source.bad(line, f"{given.count(None)} of its messages have no id or no known type")
    if replaces:
        journal.show(spoken(given), line)
        return
    for message in given:
        if message is not None:
            journal.add(message)


def _head(journal: Journal) -> Head:
    metadata = journal.metadata
    models = [text_at(item.record, "model") for item in journal.items if isinstance(item, Message)]
    directories = [path for path in list_at(metadata, "directories") if isinstance(path, str)]
    return Head(
        id=text_at(metadata, "sessionId"),
        model=next((model for model in reversed(models) if model), None),
        cwd=directories[0] if directories else None,
        extra=without(metadata, "sessionId"),
    )


def _records(items: list[Item], ids: Ids) -> Iterator[Record]:
    """The log of some items: entries, and a fold for each change of what is shown."""
    answered = {id for item in items if isinstance(item, Message) for id in results_in(item.record)}
    entries: list[str] = []
    spans: dict[str, tuple[int, int]] = {}  # message id -> places of the first and last entry that it covers
    for item in items:
        if isinstance(item, Message):
            start = len(entries)
            for entry in entries_of(item, ids, answered):
                entries.append(entry.id)
                yield entry
            spans[item.id] = (start, len(entries) - 1)
            continue
        hidden = [spans[id] for id in item.hidden if id in spans]
        stand_ins = tuple(_stand_ins(item, ids))
        if not hidden:
            entries.extend(entry.id for entry in stand_ins)
            yield from stand_ins
            continue
        first, last = min(start for start, _ in hidden), max(end for _, end in hidden)
        spans.update({message.id: (first, last) for message in item.instead})
        yield _fold(item, stand_ins, entries[first], entries[last], ids)


def _stand_ins(item: Shown, ids: Ids) -> Iterator[Entry]:
    for message in item.instead:
        yield from entries_of(message, ids)


def _fold(item: Shown, stand_ins: tuple[Entry, ...], first: str, last: str, ids: Ids) -> Fold:
    why = "the client shows the model another list of messages"
    if item.rewound:
        why = "the client went back to before a message"
    elif any(entry.summary for entry in stand_ins):
        boundary = Entry(id=ids(f"boundary{item.line}"), kind="boundary", boundary=Boundary(covered=last), line=item.line)
        stand_ins = (boundary, *stand_ins)
        why = "the client compressed the conversation"
    change = HideSpan(last=last, first=first, stand_ins=stand_ins)
    return Fold(id=ids(f"shown{item.line}"), level="imported", changes=(change,), why=why, line=item.line)
