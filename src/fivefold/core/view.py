"""What the model is shown: the log seen through the folds in force.

Three ways lead to it and must agree, which a rule-based state machine proves: ``view_of`` builds it from
nothing, visiting only what is visible; ``View.advance`` carries a view on over new records, at a cost that an
appended entry pays once; and a naive oracle in the tests.

Order: everything shown has a place ``(position, side, turn)``. A log entry stands at its own position, side 0. What a
span is replaced by stands at the span's first position, side -1; a fold's tail stands at the last position that the log
had when the fold was made, side 1. ``turn`` is the order in which the changes were made. A span hides what stands at its
positions by then, of whatever side: so later folds swallow the stand-ins of earlier ones, and taking a fold back is
building the view without it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from .entries import SHOWN_AS, Change, Entry, Fold, HideEntries, HideSpan, HideThinking, ReplaceBlocks, Target, Unfold
from .log import Log, PlacedFold
from .messages import Block, Text, ToolResult, is_thinking
from .pairing import Pairing, pair


class Edits(NamedTuple):
    """What folds change inside one entry. Of two texts for one block the later one holds; one for a whole tool result
    holds over one for its parts."""

    thinking_hidden: bool = False
    texts: Mapping[tuple[int, int | None], str] = {}


NO_EDITS = Edits()


class Shown(NamedTuple):
    """One entry of a view: where it stands, what it was, what is changed in it, and how it is shown."""

    position: int
    side: int
    original: Entry
    edits: Edits
    entry: Entry

    def edited(self, edits: Edits) -> Shown:
        """The same under other edits; the same object where that changes nothing."""
        return self if edits == self.edits else self._replace(edits=edits, entry=edit(self.original, edits))


def edit(entry: Entry, edits: Edits) -> Entry:
    """An entry as it is shown under ``edits``; its blocks keep their order, hidden thinking is left out."""
    blocks = tuple(
        _edit_block(block, index, edits.texts) if edits.texts else block
        for index, block in enumerate(entry.blocks)
        if not (edits.thinking_hidden and is_thinking(block))
    )
    return msgspec.structs.replace(entry, blocks=blocks)


def _edit_block(block: Block, index: int, texts: Mapping[tuple[int, int | None], str]) -> Block:
    whole = texts.get((index, None))
    if whole is not None:
        return msgspec.structs.replace(block, content=whole) if isinstance(block, ToolResult) else Text(whole)
    if not isinstance(block, ToolResult) or not isinstance(block.content, tuple):
        return block
    parts = tuple(Text(texts[index, i]) if (index, i) in texts else part for i, part in enumerate(block.content))
    return msgspec.structs.replace(block, content=parts)


class View:
    """A log as the model is shown it. A value like the log: carried on by ``advance``, never changed."""

    __slots__ = ("_items", "_length", "_pairing", "log")

    def __init__(self, log: Log, items: list[Shown]) -> None:
        self.log = log
        self._pairing: Pairing | None = None
        self._items = items
        self._length = len(items)

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self.shown() == other.shown()

    __hash__ = None  # type: ignore[assignment]

    def shown(self, start: int = 0) -> Sequence[Shown]:
        """What is shown from place ``start`` on, with how it came to be so."""
        return self._items[start : self._length]

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """The entries as shown, notes and boundaries included."""
        return (self._items[i].entry for i in range(start, self._length))

    @property
    def pairing(self) -> Pairing:
        """Which of its calls and results belong together; places count the entries shown. Found once for each view."""
        if self._pairing is None:
            self._pairing = pair(list(self.entries()))
        return self._pairing

    def sent(self) -> Iterator[Entry]:
        """The entries that go to the model."""
        return (entry for entry in self.entries() if entry.kind in SHOWN_AS)

    def grown_from(self, older: View) -> bool:
        """Whether this view is ``older`` with entries behind and nothing else changed."""
        return self._items is older._items and self._length >= older._length

    def advance(self, log: Log) -> View:
        """The view of ``log``, which is this view's log grown on. An undo, or another log, is built from nothing."""
        start = self.log.record_count
        if log.record_count < start or log.base != self.log.base or not self._precedes(log):
            return view_of(log)
        view = self
        position = len(self.log)
        for seq, record in enumerate(log.records(start), start):
            match record:
                case Entry():
                    view = view._push(Shown(position, 0, record, NO_EDITS, record))
                    position += 1
                case Fold():
                    view = View(log, _apply(view._items[: view._length], PlacedFold(record, position, seq), log))
                case Unfold():
                    return view_of(log)
        return view.under(log)

    def _precedes(self, log: Log) -> bool:
        """Whether ``log`` goes on from this view's log: they hold the same record where this one ends."""
        last = self.log.record_count - 1
        return last < 0 or next(self.log.records(last)) is next(log.records(last))

    def _push(self, item: Shown) -> View:
        new = object.__new__(View)
        new.log, new._pairing = self.log, None
        new._items = self._items if len(self._items) == self._length else self._items[: self._length]
        new._items.append(item)
        new._length = self._length + 1
        return new

    def under(self, log: Log) -> View:
        """The same view of another log that shows the same."""
        if self.log is log:
            return self
        new = object.__new__(View)
        new.log, new._items, new._length, new._pairing = log, self._items, self._length, self._pairing
        return new


# --- carrying a view on over one fold


def _position(item: Shown) -> int:
    return item.position


def _span(first: str | None, last: str, log: Log) -> tuple[int, int]:
    return (0 if first is None else log.position(first)), log.position(last)


def _apply(items: list[Shown], placed: PlacedFold, log: Log) -> list[Shown]:
    for change in placed.fold.changes:
        items = _apply_change(items, change, placed.at, log)
    return items


def _apply_change(items: list[Shown], change: Change, at: int, log: Log) -> list[Shown]:
    match change:
        case HideSpan():
            low, high = _span(change.first, change.last, log)
            start, stop = bisect_left(items, low, key=_position), bisect_right(items, high, key=_position)
            middle = [_stand_in(low, -1, entry) for entry in change.stand_ins]
            return items[:start] + middle + items[stop:] + [_stand_in(at - 1, 1, entry) for entry in change.tail]
        case HideThinking():
            low, high = _span(change.first, change.last, log)
            for i in range(bisect_left(items, low, key=_position), bisect_right(items, high, key=_position)):
                items[i] = items[i].edited(_hide_thinking(items[i]))
            return items
        case HideEntries(ids):
            hidden = frozenset(ids)
            return [item for item in items if item.entry.id not in hidden]
        case ReplaceBlocks():
            for id, texts in _texts_by_entry(change).items():
                place = _index_of(items, id, log)
                if place is not None:
                    edits = items[place].edits
                    items[place] = items[place].edited(edits._replace(texts={**edits.texts, **texts}))
            return items


def _stand_in(position: int, side: int, entry: Entry) -> Shown:
    return Shown(position, side, entry, NO_EDITS, entry)


def _hide_thinking(item: Shown) -> Edits:
    """Edits with the thinking hidden; unchanged for the many entries that have none."""
    has = any(is_thinking(block) for block in item.original.blocks)
    return item.edits._replace(thinking_hidden=True) if has else item.edits


def _texts_by_entry(change: ReplaceBlocks) -> dict[str, dict[tuple[int, int | None], str]]:
    found: dict[str, dict[tuple[int, int | None], str]] = {}
    for i, (entry, block, part) in enumerate(map(_target_key, change.targets)):
        text = change.texts[i] if len(change.texts) > 1 else change.texts[0]
        found.setdefault(entry, {})[block, part] = text
    return found


def _target_key(target: Target) -> tuple[str, int, int | None]:
    return target.entry, target.block, target.part


def _index_of(items: list[Shown], id: str, log: Log) -> int | None:
    """The place of an entry in a view: by its position for a log entry, by looking for a stand-in."""
    if log.is_stand_in(id):
        return next((i for i, item in enumerate(items) if item.entry.id == id), None)
    i = bisect_left(items, (log.position(id), 0), key=lambda item: (item.position, item.side))
    return i if i < len(items) and items[i].entry.id == id else None


# --- from nothing


class _Inserted(NamedTuple):
    """A stand-in on its way into a view; ``turn`` is the order in which the changes were made."""

    position: int
    side: int
    turn: int
    entry: Entry


class _Span(NamedTuple):
    low: int
    high: int
    turn: int

    def covers(self, position: int, turn: int) -> bool:
        """Whether what was put at ``position`` by change ``turn`` is touched by this later one."""
        return self.turn > turn and self.low <= position <= self.high


class _Plan:
    """All that the folds in force say, collected in one pass over them."""

    def __init__(self, log: Log) -> None:
        self.hidden: list[_Span] = []
        self.thoughtless: list[_Span] = []
        self.inserted: list[_Inserted] = []
        self.hidden_ids: set[str] = set()
        self.texts: dict[str, dict[tuple[int, int | None], str]] = {}
        turn = 0
        for placed in log.folds:
            for change in placed.fold.changes:
                self._collect(change, placed.at, turn, log)
                turn += 1
        self.thoughtless_runs = _merged(self.thoughtless)

    def _collect(self, change: Change, at: int, turn: int, log: Log) -> None:
        match change:
            case HideSpan():
                low, high = _span(change.first, change.last, log)
                self.hidden.append(_Span(low, high, turn))
                self.inserted += [_Inserted(low, -1, turn, entry) for entry in change.stand_ins]
                self.inserted += [_Inserted(at - 1, 1, turn, entry) for entry in change.tail]
            case HideThinking():
                self.thoughtless.append(_Span(*_span(change.first, change.last, log), turn))
            case HideEntries(ids):
                self.hidden_ids.update(ids)
            case ReplaceBlocks():
                for id, texts in _texts_by_entry(change).items():
                    self.texts.setdefault(id, {}).update(texts)

    def show(self, position: int, side: int, turn: int, entry: Entry) -> Shown:
        """An entry under all edits that were made after it was put there."""
        texts = self.texts.get(entry.id)
        if turn < 0:  # of the log itself: whatever touches its position came later
            thoughtless = _inside(position, self.thoughtless_runs)
        else:
            thoughtless = any(span.covers(position, turn) for span in self.thoughtless)
        thoughtless = thoughtless and any(is_thinking(block) for block in entry.blocks)
        if texts is None and not thoughtless:
            return Shown(position, side, entry, NO_EDITS, entry)
        return Shown(position, side, entry, NO_EDITS, entry).edited(Edits(thoughtless, texts or {}))

    def visible_runs(self, start: int, stop: int) -> Iterator[range]:
        """The positions of the log from ``start`` to ``stop`` that no span hides, as runs."""
        for low, high, _ in sorted(self.hidden):
            if low > start:
                yield range(start, min(low, stop))
            start = max(start, high + 1)
        if start < stop:
            yield range(start, stop)


def _merged(spans: Sequence[_Span]) -> list[tuple[int, int]]:
    """Spans as runs of positions, in order and apart."""
    runs: list[tuple[int, int]] = []
    for low, high, _ in sorted(spans):
        if runs and low <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(high, runs[-1][1]))
        else:
            runs.append((low, high))
    return runs


def _inside(position: int, runs: Sequence[tuple[int, int]]) -> bool:
    i = bisect_right(runs, (position, position), key=lambda run: (run[0], position)) - 1
    return i >= 0 and position <= runs[i][1]


def view_of(log: Log) -> View:
    """The view of a log from nothing. Cost: the folds, the entries that are visible, and a sort of the stand-ins."""
    plan = _Plan(log)
    alive = [
        item
        for item in plan.inserted
        if item.entry.id not in plan.hidden_ids and not any(span.covers(item.position, item.turn) for span in plan.hidden)
    ]
    shown = [plan.show(*item) for item in alive]
    order = [(item.position, item.side, item.turn) for item in alive]
    for run in plan.visible_runs(log.base, len(log)):
        for position in run:
            entry = log.entry_at(position)
            if entry.id not in plan.hidden_ids:
                shown.append(plan.show(position, 0, -1, entry))
                order.append((position, 0, -1))
    if alive:
        by_place = sorted(range(len(shown)), key=order.__getitem__)
        shown = [shown[i] for i in by_place]
    return View(log, shown)
