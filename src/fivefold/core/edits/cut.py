"""Where a fold may begin and end in a view (I1, I2, I8, I9, S6, S7, X2)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from ..entries import SHOWN_AS, Entry, Fold, Unfold
from ..log import Log
from ..messages import Text, ToolUse
from ..pairing import is_speech, legal_cuts, rounds
from ..view import Shown, View


class Span(NamedTuple):
    """A stretch of a view, ``start`` to ``stop`` (not included), and the entries of the log that name it."""

    start: int
    stop: int
    first: str
    last: str


def legal(view: View) -> list[bool]:
    """For each place of a view from 0 to its length: whether a span may begin or end there. What stands at one position of
    the log (a summary and its boundary, an end and its attachments) is not cut apart."""
    shown = view.shown()
    cuts = legal_cuts([item.entry for item in shown], view.pairing)
    for i in range(1, len(shown)):
        if shown[i].position == shown[i - 1].position:
            cuts[i] = False
    return cuts


def back(cuts: Sequence[bool], at: int, least: int = 0) -> int:
    """The last legal place at or before ``at``; ``least`` where there is none behind it (S7)."""
    while at > least and not cuts[at]:
        at -= 1
    return max(at, least)


def forward(cuts: Sequence[bool], at: int) -> int:
    """The first legal place at or behind ``at``; the end where there is none."""
    while at < len(cuts) - 1 and not cuts[at]:
        at += 1
    return at


def back_to_other_role(view: View, cuts: Sequence[bool], at: int, least: int = 0) -> int:
    """The last legal place at or before ``at`` behind which another role goes on than the one before it, and no system message, as a
    provider's own compaction needs it (L10); ``least`` where there is none."""
    roles = [SHOWN_AS[entry.kind] if entry.kind in SHOWN_AS and entry.blocks else None for entry in view.entries()]
    while at > least:
        at = back(cuts, at, least)
        before = next((role for role in reversed(roles[:at]) if role), None)
        behind = next((role for role in roles[at:] if role), None)
        if behind not in (before, "system"):
            break
        at -= 1
    return max(at, least)


def head_end(view: View, sizes: Sequence[int], most: float) -> int:
    """How many entries at the front stay: system prompts, and a harness's context where it is small."""
    size, end = 0.0, 0
    for item, at in zip(view.shown(), sizes, strict=False):
        entry = item.entry
        if entry.kind in ("note", "boundary"):
            if item.side:
                break
            end += 1
            continue
        instructs = entry.kind == "attachment" or (entry.kind == "user" and entry.meta and not entry.summary)
        if item.side or not (entry.kind == "system" or (instructs and size + at <= most)):
            break
        size += at
        end += 1
    return end


def speech_start(view: View) -> int:
    """Where the person's words at the end begin that no response has followed; the length where there are none."""
    shown = view.shown()
    i = len(shown)
    first = i
    while i > 0 and shown[i - 1].entry.kind != "assistant":
        i -= 1
        if is_speech(shown[i].entry) and not shown[i].entry.summary:
            first = i
    return first


def unanswered_start(view: View) -> int:
    """Where what no response has followed begins: the person's words at the end, or the last round where its calls are still to be
    reacted to. Folding that away would take from the model what it has never seen."""
    start, shown = newest_rounds(view, 1), view.shown()
    calls = any(isinstance(block, ToolUse) for item in shown[start:] for block in item.entry.blocks)
    return min(start, speech_start(view)) if calls else speech_start(view)


def tail_start(view: View, sizes: Sequence[int], *, tokens: int, texts: int, most: int, floor: int, at: int) -> int:
    """Where a verbatim tail begins that goes back from ``at`` until it holds ``tokens`` tokens and ``texts`` entries with text,
    or has crossed ``most`` tokens; never over ``floor`` (S6)."""
    shown = view.shown()
    held = sum(sizes[at:])
    spoken = sum(has_text(item.entry) for item in shown[at:])
    while at > floor and (held < tokens or spoken < texts) and held < most:
        at -= 1
        held += sizes[at]
        spoken += has_text(shown[at].entry)
    return at


def has_text(entry: Entry) -> bool:
    """Whether an entry that is sent says something in words."""
    return entry.kind in SHOWN_AS and any(isinstance(block, Text) and block.text.strip() for block in entry.blocks)


def last_stand_in(view: View) -> int:
    """Behind the last summary or boundary that stands in the view: a tail does not go back over it (S6)."""
    shown = view.shown()
    for i in range(len(shown), 0, -1):
        entry = shown[i - 1].entry
        if entry.summary or entry.kind == "boundary":
            return i
    return 0


def span(view: View, start: int, stop: int) -> Span | None:
    """The span of a view between two places; None where it holds nothing."""
    shown = view.shown()
    if stop <= start:
        return None
    log = view.log
    last = len(log) - 1 if stop == len(shown) else shown[stop].position - 1
    first = shown[start].position
    if last < first or first < log.base:
        return None
    return Span(start, stop, log.entry_at(first).id, log.entry_at(last).id)


def newest_rounds(view: View, count: int) -> int:
    """Where the newest ``count`` rounds begin."""
    found = rounds([item.entry for item in view.shown()])
    return found[-count].start if 0 < count <= len(found) else 0


def open_calls(view: View) -> bool:
    """Whether calls of the last response wait for their results."""
    return bool(view.pairing.open)


def place_of(view: View, id: str) -> int | None:
    """The place of an entry in a view; None where it is not shown."""
    return next((i for i, item in enumerate(view.shown()) if item.entry.id == id), None)


def covered_until(view: View) -> int:
    """The position of the log up to which earlier folds with stand-ins hide everything at the front: a new fold that takes
    their stand-ins has to reach at least so far, or entries would be neither shown nor summarised."""
    shown = view.shown()
    reach = view.log.base
    for i, item in enumerate(shown):
        if stands_in(item):
            following = next((later.position for later in shown[i + 1 :] if later.side == 0), len(view.log))
            reach = max(reach, following)
    return reach


def stands_in(item: Shown) -> bool:
    """Whether this is a boundary or a summary that a fold put in place of what it hides."""
    return item.side == -1 and (item.entry.summary or item.entry.kind == "boundary")


def fold_id(log: Log) -> str:
    """A new fold's id, made from the last record alone: the same history gives the same id, and so the same bytes, wherever it
    is folded; a later fold has another last record."""
    name = ""
    for record in log.records(max(0, log.record_count - 1)):
        match record:
            case Entry(id=id) | Fold(id=id):
                name = id
            case Unfold(fold=id):
                name = f"undo {id}"
    return f"fold-{len(log)}-{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"
