"""The one builder behind every full compaction: boundary, summary, kept entries, attachments, hook results (C1).

What is kept stands where it stood; the fold puts boundary and summary where the span began and the rest behind the end.
Attachments never stand between a call and its results: while a call is open they are handed back, to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..entries import Boundary, Change, Entry, Fold, HideSpan, ReplaceBlocks, Target
from ..events import RestoredFile
from ..log import Log
from ..messages import Block, Compaction, Object, Text, ToolResult, ToolUse, result_text
from ..view import View
from . import cut


class Parts(NamedTuple):
    """What goes into a fold."""

    text: str
    """The summary as it is shown."""
    first: str
    last: str
    """The span it stands for: entries of the log."""
    middle: tuple[tuple[Target, str], ...] = ()
    standing: tuple[str, ...] = ()
    files: tuple[RestoredFile, ...] = ()
    attachments: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    """What hooks put back."""
    block: Object | None = None
    """A provider's own compaction block instead of the text (L10)."""


class Built(NamedTuple):
    """A fold, and the attachments that have to wait until no call is open."""

    fold: Fold
    waiting: tuple[Entry, ...]


def build(view: View, parts: Parts, *, level: str, trigger: str, why: str, now: float, tokens_before: int, extra: Object) -> Built:
    """A fold of these parts for a view."""
    log = view.log
    id = cut.fold_id(log)
    kept = [item.entry.id for item in view.shown() if item.position > log.position(parts.last) and item.side == 0]
    boundary = Boundary(trigger=trigger, tokens_before=tokens_before, covered=parts.last, kept=(kept[0], kept[-1]) if kept else ())
    stand_ins = [
        Entry(id=f"{id}.boundary", kind="boundary", time=now, boundary=boundary),
        Entry(id=f"{id}.summary", kind="user", blocks=_summary_blocks(parts), time=now, meta=True, summary=True),
        *_standing(log, id, parts.standing, now),
    ]
    tail = tuple(_attachments(id, parts, now))
    waits = cut.open_calls(view)
    span = HideSpan(first=parts.first, last=parts.last, stand_ins=tuple(stand_ins), tail=() if waits else tail)
    fold = Fold(id=id, level=level, changes=(span, *_shrunk(parts)), why=why, time=now, tokens_before=tokens_before, extra=extra)
    return Built(fold, tail if waits else ())


def _summary_blocks(parts: Parts) -> tuple[Block, ...]:
    if not parts.block:
        return (Text(parts.text),)
    return (Compaction(parts.block), Text(parts.text)) if parts.text else (Compaction(parts.block),)


def _standing(log: Log, id: str, standing: Sequence[str], now: float) -> list[Entry]:
    """Copies of folded system entries: an instruction keeps its authority only as an entry (C6)."""
    found = [entry for name in standing if (entry := log.find(name)) is not None]
    return [msgspec.structs.replace(entry, id=f"{id}.standing{i}", time=now, line=None) for i, entry in enumerate(found, 1)]


def fold_of(id: str) -> str:
    """The id of the fold that an entry was made for; empty where it was said."""
    return id.rpartition(".")[0]


def _attachments(id: str, parts: Parts, now: float) -> list[Entry]:
    texts = [f"[{file.path}, read again after compaction]\n{file.text}" for file in parts.files]
    texts += [*parts.attachments, *parts.context]
    return [Entry(id=f"{id}.restored{i}", kind="attachment", blocks=(Text(text),), time=now) for i, text in enumerate(texts, 1)]


def _shrunk(parts: Parts) -> tuple[Change, ...]:
    if not parts.middle:
        return ()
    return (ReplaceBlocks(tuple(target for target, _ in parts.middle), tuple(text for _, text in parts.middle)),)


def told(entry: Entry) -> list[str]:
    """An entry as lines of text: words, calls with their input, results. Marks that could pass for a message's own are written so
    that they cannot (H1)."""
    lines = []
    for block in entry.blocks:
        match block:
            case Text(text):
                lines.append(f"{entry.kind}: {text}")
            case ToolUse(_, name, input):
                lines.append(f"call of {name}: {msgspec.json.encode(input).decode()}")
            case ToolResult():
                lines.append(f"result: {result_text(block)}")
            case _:
                continue
    return [line.replace("<", "&lt;") for line in lines]


def with_text(fold: Fold, text: str) -> Fold:
    """The same fold with another summary text (X6)."""

    def edited(entry: Entry) -> Entry:
        others = tuple(block for block in entry.blocks if not isinstance(block, Text))
        return msgspec.structs.replace(entry, blocks=(*others, Text(text))) if entry.summary else entry

    changes = tuple(
        msgspec.structs.replace(change, stand_ins=tuple(map(edited, change.stand_ins))) if isinstance(change, HideSpan) else change
        for change in fold.changes
    )
    return msgspec.structs.replace(fold, changes=changes)


def summary_of(fold: Fold) -> str:
    """The summary text that a fold shows; empty where it shows none."""
    for change in fold.changes:
        if isinstance(change, HideSpan):
            for entry in change.stand_ins:
                if entry.summary:
                    return "\n".join(block.text for block in entry.blocks if isinstance(block, Text))
    return ""
