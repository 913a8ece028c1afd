"""The append-only log (spec section 0): a value that grows.

``append`` gives a new log and leaves the old one what it was. Logs that grew from one another share one buffer
(an old log sees only its own length of it), so appending costs the same at 100 entries and at 100,000 (T4);
appending to a log that is no longer the newest copies the buffer first.

A log may begin behind ``base`` entries that were not loaded, because a fold in force hides all of them (K2). An id that
such a log does not know is taken to be one of theirs: as the end of a span it stands for the last of them, as the target
of another change it changes nothing that is shown. Whether that gives the same view as the whole log is for the one who
loads it to see to (``store``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..errors import DuplicateIdError, FoldError, LogError
from .entries import Entry, Fold, Head, HideEntries, HideSpan, HideThinking, Record, ReplaceBlocks, Target, Unfold
from .messages import ToolResult, is_thinking


class PlacedFold(NamedTuple):
    """A fold in the log: ``at`` entries stood before it; ``seq`` is its place among all records."""

    fold: Fold
    at: int
    seq: int


class _Brought(NamedTuple):
    """What a fold brought under an id: a stand-in, or None where it is the fold's own; ``seq`` is the fold's place."""

    seq: int
    entry: Entry | None


class _Buffer:
    """What a chain of logs shares. Only ever appended to, but for what a failed append had put there.

    Whatever puts something in does it in this order: lists first, indexes last. Where an interrupt (Ctrl-C) leaves it half
    done, the lists are longer than any log knows, and the next append goes on from a copy.
    """

    __slots__ = ("brought", "entries", "ids", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.entries: list[Entry] = []
        self.ids: dict[str, int] = {}  # entry id -> place among the entries
        self.brought: dict[str, _Brought] = {}  # stand-in or fold id -> what it is

    def holds_just(self, records: int, entries: int) -> bool:
        """Whether there is nothing behind these lengths."""
        return len(self.records) == records and len(self.entries) == entries

    def cut(self, records: int, entries: int) -> None:
        """Back to these lengths."""
        for entry in self.entries[entries:]:
            self.ids.pop(entry.id, None)
        for record in self.records[records:]:
            if isinstance(record, Fold):
                for id in _ids_of(record):
                    self.brought.pop(id, None)
        del self.entries[entries:]
        del self.records[records:]


class Log:
    """A conversation's records in order. A value: equal content, equal log; never changed, only succeeded."""

    __slots__ = ("_buffer", "_changed_at", "_entries", "_folds", "_records", "base", "head")

    def __init__(self, head: Head | None = None, records: Iterable[Record] = (), *, base: int = 0) -> None:
        """A log of ``records``. ``base``: how many hidden entries stood before them that were not loaded (K2)."""
        self.head = head or Head()
        self.base = base
        self._buffer = _Buffer()
        self._records = 0
        self._entries = 0
        self._folds: tuple[PlacedFold, ...] = ()
        self._changed_at = 0
        for record in records:
            self._push(record)

    # --- reading

    def __len__(self) -> int:
        """How many entries were said (those not loaded included)."""
        return self.base + self._entries

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        return self.head == other.head and self.base == other.base and list(self.records()) == list(other.records())

    __hash__ = None  # type: ignore[assignment]

    @property
    def record_count(self) -> int:
        """How many records, folds and undos included, are loaded."""
        return self._records

    @property
    def folds(self) -> tuple[PlacedFold, ...]:
        """The folds in force, oldest first."""
        return self._folds

    @property
    def changed_at(self) -> int:
        """How many entries had been said when a fold was last made or taken back; usage from before it no longer
        describes the view (T3)."""
        return self._changed_at

    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from place ``start`` on."""
        buffer = self._buffer.records
        return (buffer[i] for i in range(start, self._records))

    def entries(self) -> Iterator[Entry]:
        """What was said, in order; stand-ins are not in it."""
        buffer = self._buffer.entries
        return (buffer[i] for i in range(self._entries))

    def entry_at(self, position: int) -> Entry:
        """The entry at a place (from 0, ``base`` included)."""
        index = position - self.base
        if not 0 <= index < self._entries:
            raise IndexError(f"no entry {position} in a log of {len(self)} (first loaded: {self.base})")
        return self._buffer.entries[index]

    def position(self, id: str) -> int:
        """The place of an entry of the log itself; of one that was not loaded, the last place not loaded. Raises FoldError
        where there is none of that id."""
        index = self._buffer.ids.get(id, self._entries)
        if index >= self._entries:
            if self.base:
                return self.base - 1
            raise FoldError(f"no entry {id!r} in this log of {len(self)} entries")
        return self.base + index

    def is_stand_in(self, id: str) -> bool:
        """Whether an id belongs to a stand-in, which stands in the view but not in the log; in a log that is not loaded
        whole also whether it is unknown."""
        return self._buffer.ids.get(id, self._entries) >= self._entries

    def find(self, id: str) -> Entry | None:
        """An entry or stand-in by id, hidden or not; None where there is none."""
        index = self._buffer.ids.get(id, self._entries)
        if index < self._entries:
            return self._buffer.entries[index]
        brought = self._buffer.brought.get(id)
        return brought.entry if brought is not None and brought.seq < self._records else None

    # --- growing

    def append(self, *records: Record) -> Log:
        """The log with ``records`` behind. All or none: on an error this log is all there is.

        Raises DuplicateIdError for an id that is taken, FoldError for a fold of what is not there or an undo of a
        fold that is not in force, LogError for what is no record.
        """
        new = self._successor()
        newest = self._buffer.holds_just(self._records, self._entries)
        try:
            for record in records:
                new._push(record)
        except BaseException:
            if newest:
                self._buffer.cut(self._records, self._entries)
            raise
        return new

    def with_head(self, head: Head) -> Log:
        """The same log under another head."""
        new = self._successor()
        new.head = head
        return new

    def _successor(self) -> Log:
        new = object.__new__(Log)
        new.head, new.base = self.head, self.base
        new._records, new._entries, new._folds = self._records, self._entries, self._folds
        new._buffer, new._changed_at = self._buffer, self._changed_at
        return new

    def _own(self) -> _Buffer:
        """The buffer, with nothing behind this log's own length in it."""
        buffer = self._buffer
        if buffer.holds_just(self._records, self._entries):
            return buffer
        own = _Buffer()
        own.records = buffer.records[: self._records]
        own.entries = buffer.entries[: self._entries]
        own.ids = {entry.id: i for i, entry in enumerate(own.entries)}
        own.brought = {id: brought for id, brought in buffer.brought.items() if brought.seq < self._records}
        self._buffer = own
        return own

    def _push(self, record: Record) -> None:
        buffer = self._own()
        match record:
            case Entry():
                self._check_new(record.id)
                buffer.entries.append(record)
                buffer.records.append(record)
                buffer.ids[record.id] = self._entries
                self._entries += 1
            case Fold():
                self._check_fold(record)
                buffer.records.append(record)
                buffer.brought[record.id] = _Brought(self._records, None)
                buffer.brought.update((e.id, _Brought(self._records, e)) for e in stand_ins(record))
                self._folds = (*self._folds, PlacedFold(record, len(self), self._records))
                self._changed_at = len(self)
            case Unfold():
                self._take_back(record)
                buffer.records.append(record)
            case _:
                raise LogError(f"a {type(record).__name__} is no record; a log holds Entry, Fold and Unfold")
        self._records += 1

    def _take_back(self, undo: Unfold) -> None:
        kept = tuple(placed for placed in self._folds if placed.fold.id != undo.fold)
        if len(kept) == len(self._folds) and not self._is_left_out(undo.fold):
            raise FoldError(f"fold {undo.fold!r} is not in force: in force are {[p.fold.id for p in self._folds][-5:]}")
        self._folds = kept
        self._changed_at = len(self)

    def _check_new(self, id: str) -> None:
        if not id:
            raise LogError("an entry or fold needs an id that is not empty")
        if self._holds(id):
            raise DuplicateIdError(f"id {id!r} is already in this log")

    def _check_fold(self, fold: Fold) -> None:
        new = list(_ids_of(fold))
        for id in new:
            self._check_new(id)
        if len(set(new)) < len(new):
            raise DuplicateIdError(f"fold {fold.id!r} brings one id twice")
        for change in fold.changes:
            match change:
                case HideSpan(last, first) | HideThinking(last, first):
                    self._check_span(first, last)
                case HideEntries(ids):
                    for id in ids:
                        if not self._is_left_out(id):
                            self._known(id)
                case ReplaceBlocks(targets, texts):
                    if len(texts) not in (1, len(targets)):
                        raise FoldError(f"fold {fold.id!r}: {len(texts)} texts for {len(targets)} targets (one for all, or one each)")
                    for target in targets:
                        self._check_target(target)

    def _check_span(self, first: str | None, last: str) -> None:
        start = 0 if first is None else self.position(first)
        if start > self.position(last):
            raise FoldError(f"a span ends before it begins: {first!r} stands behind {last!r}")

    def _check_target(self, target: Target) -> None:
        if self._is_left_out(target.entry):
            return
        blocks = self._known(target.entry).blocks
        if not 0 <= target.block < len(blocks):
            raise FoldError(f"entry {target.entry!r} has no block {target.block}, it has {len(blocks)}")
        block = blocks[target.block]
        if is_thinking(block):
            raise FoldError(f"block {target.block} of entry {target.entry!r} is thinking, which is hidden or left, never replaced (I2)")
        parts = block.content if isinstance(block, ToolResult) and isinstance(block.content, tuple) else ()
        if target.part is not None and not 0 <= target.part < len(parts):
            raise FoldError(f"block {target.block} of entry {target.entry!r} is no tool result with a part {target.part}")

    def _is_left_out(self, id: str) -> bool:
        """Whether an id is to be taken for one of what was not loaded."""
        return self.base > 0 and not self._holds(id)

    def _holds(self, id: str) -> bool:
        brought = self._buffer.brought.get(id)
        return self._buffer.ids.get(id, self._entries) < self._entries or (brought is not None and brought.seq < self._records)

    def _known(self, id: str) -> Entry:
        entry = self.find(id)
        if entry is None:
            raise FoldError(f"no entry {id!r} in this log")
        return entry


def stand_ins(fold: Fold) -> Iterator[Entry]:
    """All entries that a fold brings into the view."""
    for change in fold.changes:
        if isinstance(change, HideSpan):
            yield from change.stand_ins
            yield from change.tail


def _ids_of(fold: Fold) -> Iterator[str]:
    """All ids that a fold takes: its own and those of what it brings."""
    yield fold.id
    yield from (entry.id for entry in stand_ins(fold))
