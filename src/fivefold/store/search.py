"""Finding and reading back what was said, folded away or not (K4).

An index in memory over SQLite's full-text search, by trigrams, so that a part of a word is found in any language. The
texts themselves stay in the log, and what the index gives is counted and ranked here: with it or without, the same is found.
Taking a text into the index costs about as much as looking through it thirty times: it is for those who search often.
"""

from __future__ import annotations

import heapq
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import NamedTuple

from ..core.entries import Entry, Fold, HideEntries, HideSpan, HideThinking, Kind, ReplaceBlocks
from ..core.log import Log, PlacedFold, stand_ins
from ..core.messages import (
    JSON,
    Block,
    Compaction,
    Document,
    Image,
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    result_text,
)
from ..core.view import view_of
from ..errors import LogError

SNIPPET_CHARS = 200
MAX_WORDS = 32
MAX_WORD_CHARS = 200
"""Queries beyond these are answered by looking through the texts (H4)."""
BLOB_CHARS = 1000
"""A string at least this long without a blank is no text but data (base64), and is not searched."""
ODD = re.compile("[\0\ud800-\udfff]")
WORDS = re.compile(r'"([^"]*)"?|(\S+)')


class Hit(NamedTuple):
    """One entry in which all words of a query stand."""

    id: str
    kind: Kind
    line: int | None
    """Line of its source file, from 1."""
    time: float | None
    tool: str | None
    """The tool whose call or result the words stand in."""
    text: str
    """A piece of the text on one line, the first word in its middle."""
    hidden: bool
    """Whether the model no longer sees it."""
    fold: str | None
    """The fold that took it out of the view, the first where several did."""


class _Piece(NamedTuple):
    """One searched text of an entry, and the tool it belongs to."""

    text: str
    tool: str | None


class _Match(NamedTuple):
    """An entry by its place, the length of its text, and how often each word stands in it."""

    row: int
    chars: int
    counts: tuple[int, ...]


def words_of(query: str) -> list[str]:
    """The words of a query, folded for comparing; what stands in double quotes is one word. Nothing else is special."""
    found = (fold(quoted or plain) for quoted, plain in WORDS.findall(query))
    return list(dict.fromkeys(word for word in found if word.strip()))


def fold(text: str) -> str:
    """A text for comparing without regard to case. NUL and half surrogates, which SQLite does not take, become U+FFFD."""
    return text.lower().replace("\0", "\ufffd") if text.isascii() else ODD.sub("\ufffd", text.casefold())


# --- what is searched


def pieces(entry: Entry, tools: dict[str, str]) -> Iterator[_Piece]:
    """The texts of an entry: what was said and thought, the strings in tool calls, tool results. ``tools``: the names of
    the calls by their id."""
    for block in entry.blocks:
        yield from _pieces(block, tools)


def _pieces(block: Block, tools: dict[str, str]) -> Iterator[_Piece]:
    match block:
        case Text(text) | Thinking(text):
            yield _Piece(text, None)
        case ToolUse(_, name, input) | ServerToolUse(_, name, input):
            yield from (_Piece(text, name) for text in strings(input))
        case ToolResult(id):
            yield _Piece(result_text(block), tools.get(id))
        case ServerToolResult(id, content):
            yield from (_Piece(text, tools.get(id)) for text in strings(content))
        case Document(data) | Compaction(data) | Opaque(data):
            yield from (_Piece(text, None) for text in strings(data))
        case Image() | RedactedThinking():
            return


def strings(value: JSON) -> Iterator[str]:
    """All strings in a value but its keys, data in base64 left out."""
    if isinstance(value, str):
        if value and (len(value) < BLOB_CHARS or len(value.split(None, 1)) > 1):
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


# --- the index


class Index:
    """An index that grows with its log. For one thread at a time; ``close`` it, or use it in a ``with``."""

    def __init__(self, *, indexed: bool = True) -> None:
        """``indexed=False``: look through all texts at each search, which is quicker where there is only one. It finds the
        same in the same order."""
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._indexed = indexed and self._make_table()
        self._entries: list[Entry] = []
        self._chars = 0
        self._tools: dict[str, str] = {}
        self._log = Log()
        self._shown: dict[str, Entry] | None = None

    def _make_table(self) -> bool:
        """Whether SQLite can index by trigrams (since 3.34); without, all is found by looking through it."""
        try:
            self._database.execute("CREATE VIRTUAL TABLE said USING fts5(body, content='', tokenize='trigram case_sensitive 1')")
        except sqlite3.OperationalError:
            return False
        return True

    def advance(self, log: Log) -> None:
        """Take in what is new in ``log``; one that did not grow from the log before is taken in anew."""
        start = self._log.record_count
        if not _grew(self._log, log):
            self._clear()
            start = 0
        self._log, self._shown = log, None
        for record in log.records(start):
            if isinstance(record, Entry):
                self.add(record)
            elif isinstance(record, Fold):
                for entry in stand_ins(record):
                    self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take in one entry."""
        for block in entry.blocks:
            if isinstance(block, ToolUse | ServerToolUse):
                self._tools[block.id] = block.name
        folded = self._folded(entry)
        self._chars += len(folded)
        if self._indexed:
            self._database.execute("INSERT INTO said(rowid, body) VALUES (?, ?)", (len(self._entries), folded))
        self._entries.append(entry)

    def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """The entries in which all words of the query stand, best first, of equals the newest first; at most ``limit``. Words
        are found inside words, in whatever case; ``"in quotes"`` also with the blanks."""
        words = words_of(query)
        if not words or limit < 1:
            return []
        known = self._indexed and len(words) <= MAX_WORDS and all(3 <= len(word) <= MAX_WORD_CHARS for word in words)
        matches, holding = self._look_up(words) if known else self._look_through(words)
        mean = self._chars / max(1, len(self._entries))
        weights = [_weight(len(self._entries), count) for count in holding]
        best = heapq.nlargest(limit, matches, key=lambda match: (_score(match, weights, mean), match.row))
        return [self._hit(self._entries[match.row], words) for match in best]

    def close(self) -> None:
        """Free the index."""
        self._database.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _clear(self) -> None:
        self._entries.clear()
        self._tools.clear()
        self._chars = 0
        if self._indexed:
            self._database.execute("DROP TABLE said")
            self._make_table()

    def _folded(self, entry: Entry) -> str:
        return fold("\n".join(piece.text for piece in pieces(entry, self._tools)))

    def _look_up(self, words: list[str]) -> tuple[list[_Match], list[int]]:
        """The matches, and in how many entries each word stands, by the index."""
        terms = ['"' + word.replace('"', '""') + '"' for word in words]
        rows = [row for (row,) in self._database.execute("SELECT rowid FROM said WHERE said MATCH ?", (" AND ".join(terms),))]
        holding = [self._database.execute("SELECT count(*) FROM said WHERE said MATCH ?", (term,)).fetchone()[0] for term in terms]
        return [match for row in rows if all((match := self._match(row, words)).counts)], holding

    def _look_through(self, words: list[str]) -> tuple[list[_Match], list[int]]:
        """The same by reading all."""
        matches = [self._match(row, words) for row in range(len(self._entries))]
        holding = [sum(match.counts[i] > 0 for match in matches) for i in range(len(words))]
        return [match for match in matches if all(match.counts)], holding

    def _match(self, row: int, words: list[str]) -> _Match:
        folded = self._folded(self._entries[row])
        return _Match(row, len(folded), tuple(map(folded.count, words)))

    # --- hits

    def _hit(self, entry: Entry, words: list[str]) -> Hit:
        found = list(pieces(entry, self._tools))
        piece = max(found, key=lambda piece: sum(word in fold(piece.text) for word in words))
        by = self._taken_by(entry, words)
        text = snippet(piece.text, next((word for word in words if word in fold(piece.text)), words[0]))
        return Hit(entry.id, entry.kind, entry.line, entry.time, piece.tool, text, by is not None, by)

    def _taken_by(self, entry: Entry, words: list[str]) -> str | None:
        """The fold for which the model does not see these words of the entry; None where it does."""
        if not self._log.folds:
            return None
        if self._shown is None:
            self._shown = {shown.id: shown for shown in view_of(self._log).entries()}
        shown = self._shown.get(entry.id)
        if shown is not None and (shown is entry or _holds_all(self._folded(shown), words)):
            return None
        return next(folds_on(self._log, entry.id, whole=shown is None), None)


def _weight(entries: int, holding: int) -> float:
    """How much a word tells that stands in ``holding`` of so many entries (bm25's inverse document frequency)."""
    return math.log(1 + (entries - holding + 0.5) / (holding + 0.5))


def _score(match: _Match, weights: list[float], mean_chars: float) -> float:
    """bm25 with its usual constants."""
    length = 0.25 + 0.75 * match.chars / mean_chars
    return sum(weight * count * 2.2 / (count + 1.2 * length) for weight, count in zip(weights, match.counts, strict=True))


def _holds_all(folded: str, words: list[str]) -> bool:
    return all(word in folded for word in words)


def _grew(older: Log, log: Log) -> bool:
    """Whether a log is another one with records behind."""
    last = older.record_count - 1
    if last < 0:
        return True
    return log.base == older.base and log.record_count > last and next(log.records(last)) is next(older.records(last))


def snippet(text: str, word: str) -> str:
    """A piece of a text on one line, with the place of a folded word in its middle."""
    at = _place(text, word)
    half = (SNIPPET_CHARS - min(len(word), SNIPPET_CHARS)) // 2
    start = max(0, min(at - half, len(text) - SNIPPET_CHARS))
    end = start + SNIPPET_CHARS
    return ("…" if start else "") + " ".join(text[start:end].split()) + ("…" if end < len(text) else "")


def _place(text: str, word: str) -> int:
    folded = fold(text)
    at = max(0, folded.find(word))
    if len(folded) == len(text):
        return at
    passed = 0
    for i, char in enumerate(text):  # folding made some characters longer
        if passed >= at:
            return i
        passed += len(fold(char))
    return 0


# --- which fold hides what


def folds_on(log: Log, id: str, *, whole: bool) -> Iterator[str]:
    """The folds in force that hide an entry or stand-in ``whole``, or else that change something in it, oldest first."""
    position, since = _standing(log, id)
    for placed in log.folds:
        if placed.seq > since and any(_touches(change, id, position, log, whole) for change in placed.fold.changes):
            yield placed.fold.id


def _touches(change: object, id: str, position: int, log: Log, whole: bool) -> bool:
    match change:
        case HideSpan(last, first) if whole:
            return (0 if first is None else log.position(first)) <= position <= log.position(last)
        case HideEntries(ids) if whole:
            return id in ids
        case HideThinking(last, first) if not whole:
            return (0 if first is None else log.position(first)) <= position <= log.position(last)
        case ReplaceBlocks(targets) if not whole:
            return any(target.entry == id for target in targets)
    return False


def _standing(log: Log, id: str) -> tuple[int, int]:
    """At which position an entry or stand-in stands, and the record that put a stand-in there."""
    if not log.is_stand_in(id):
        return log.position(id), -1
    for placed in _all_folds(log):
        for change in placed.fold.changes:
            if isinstance(change, HideSpan):
                if any(entry.id == id for entry in change.stand_ins):
                    return (0 if change.first is None else log.position(change.first)), placed.seq
                if any(entry.id == id for entry in change.tail):
                    return placed.at - 1, placed.seq
    return -1, -1


def _all_folds(log: Log) -> Iterator[PlacedFold]:
    """All folds ever made, those taken back included."""
    at = log.base
    for seq, record in enumerate(log.records()):
        if isinstance(record, Entry):
            at += 1
        elif isinstance(record, Fold):
            yield PlacedFold(record, at, seq)


# --- at once


def recall(said: Log | Iterable[Entry], query: str, *, limit: int = 20) -> list[Hit]:
    """Search a log, its stand-ins included, or a list of entries. See ``Index.search``."""
    with Index(indexed=False) as index:
        if isinstance(said, Log):
            index.advance(said)
        else:
            for entry in said:
                index.add(entry)
        return index.search(query, limit=limit)


def read_back(log: Log, entry_id: str) -> Entry:
    """An entry or stand-in in full, hidden or not. Raises LogError where there is none."""
    entry = log.find(entry_id)
    if entry is None:
        where = (
            f"the {len(log) - log.base} of {len(log)} entries that are loaded; give Session.history()"
            if log.base
            else f"{len(log)} entries"
        )
        raise LogError(f"no entry {entry_id!r} in {where}")
    return entry
