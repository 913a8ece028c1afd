"""The lines of a fivefold session file (K1) and what they make: a log.

One JSON value a line: first the ``session`` line with the head, then entries, folds and undos as they happened, and four
kinds of line beside them: ``other`` (a record of an imported transcript), ``batch`` (so many lines were one write and
hold together or not at all), and ``mark`` (a fold hides all before this byte: reading may begin there, K2).
"""

from __future__ import annotations

import base64
import json
import operator
from array import array
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, TypeAlias

import msgspec

from ..core.entries import NO_RAW, Entry, Fold, Head, HideSpan, Unfold
from ..core.log import Log
from ..core.messages import JSON
from ..core.transcript import BadLine, OtherRecord
from ..errors import InputError, LogError
from .session_damage import Lost
from .source import MAX_LINE, loads

SCHEMA = "fivefold.session/1"
FAMILY = "fivefold.session/"
BOM = b"\xef\xbb\xbf"
SHOWN_BYTES = 120
"""How much of a torn line is shown to a person."""


class SessionLine(msgspec.Struct, frozen=True, tag="session"):
    """The first line."""

    schema: str
    head: Head = Head()


class OtherLine(msgspec.Struct, frozen=True, tag="other", omit_defaults=True):
    """An ``OtherRecord``: ``raw`` is an object or list as it came, or a string that holds the source text; ``base64``
    holds a source that is no UTF-8."""

    line: int
    raw: msgspec.Raw = NO_RAW
    base64: str = ""

    def record(self) -> OtherRecord:
        """The record as its source bytes. Raises ValueError where they can't be had."""
        if self.base64:
            return OtherRecord(self.line, base64.b64decode(self.base64))
        return OtherRecord(self.line, bytes(as_source(self.raw)))


class Batch(msgspec.Struct, frozen=True, tag="batch"):
    """The next ``lines`` lines of together ``bytes`` bytes were written at once; a file that ends among them was torn there
    (K1). ``at`` is the byte at which this line begins. Where lines and bytes do not fit, or the file ends within them and
    ``at`` does not fit either, the line is damaged: it is listed, and the lines behind it hold by themselves."""

    lines: int
    bytes: int
    at: int


class Mark(msgspec.Struct, frozen=True, tag="mark"):
    """``fold`` hides the first ``entries`` entries and all that was put among them (K2). Who reads from byte ``offset``,
    which is line number ``line`` and begins with the record ``first``, reads all that is shown."""

    fold: str
    offset: int
    entries: int
    line: int
    first: str


Line: TypeAlias = Entry | Fold | Unfold | SessionLine | OtherLine | Batch | Mark

_decode = msgspec.json.Decoder(Line).decode


def decode_line(data: bytes) -> Line:
    """A line as what it holds. Raises ValueError, with words for a person."""
    try:
        line: Line = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        line = _decode_leniently(data)
    return map_raws(line, as_source) if isinstance(line, Entry | Fold) else line


def _decode_leniently(data: bytes) -> Line:
    """A line with numbers that strict JSON does not know, or half surrogate pairs."""
    value = loads(data)
    try:
        _wrap_raws(value)
        line: Line = msgspec.convert(value, Line)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return line


def _wrap_raws(value: object) -> None:
    """Each ``raw`` of a record, and of the entries that a fold brings, as its JSON text."""
    if isinstance(value, list):
        for item in value:
            _wrap_raws(item)
    elif isinstance(value, dict):
        if "raw" in value:
            value["raw"] = msgspec.Raw(json.dumps(value["raw"], ensure_ascii=False).encode())
        for key in ("changes", "stand_ins", "tail"):
            _wrap_raws(value.get(key))


ChangeRaw: TypeAlias = Callable[[msgspec.Raw], msgspec.Raw]


def map_raws(record: Entry | Fold, change: ChangeRaw) -> Entry | Fold:
    """A record with other sources kept in it and in the entries that it brings; the same object where none is another."""
    if isinstance(record, Entry):
        return _map_entry(record, change)
    changes = tuple(_map_span(item, change) if isinstance(item, HideSpan) else item for item in record.changes)
    raw = record.raw if record.raw == NO_RAW else change(record.raw)
    if raw is record.raw and all(map(operator.is_, changes, record.changes)):
        return record
    return msgspec.structs.replace(record, changes=changes, raw=raw)


def _map_entry(entry: Entry, change: ChangeRaw) -> Entry:
    raw = entry.raw if entry.raw == NO_RAW else change(entry.raw)
    return entry if raw is entry.raw else msgspec.structs.replace(entry, raw=raw)


def _map_span(span: HideSpan, change: ChangeRaw) -> HideSpan:
    stand_ins, tail = (tuple(_map_entry(entry, change) for entry in entries) for entries in (span.stand_ins, span.tail))
    same = all(map(operator.is_, (*stand_ins, *tail), (*span.stand_ins, *span.tail)))
    return span if same else msgspec.structs.replace(span, stand_ins=stand_ins, tail=tail)


def as_source(raw: msgspec.Raw) -> msgspec.Raw:
    """The source that a ``raw`` stands for: a string holds it as text, anything else is it."""
    if bytes(memoryview(raw)[:1]) != b'"':
        return raw
    text = loads(bytes(raw))
    return msgspec.Raw(text.encode()) if isinstance(text, str) else raw


class Torn(NamedTuple):
    """The end of a file that was not written whole: where it begins, how many bytes, and how they begin."""

    offset: int
    bytes: int
    text: str


class Places(NamedTuple):
    """Where each loaded entry's line stands: its byte offset and its number from 1."""

    offsets: array[int]
    numbers: array[int]


class _OpenBatch(NamedTuple):
    """A batch that is being read, and all as it was before it. ``end``: the byte behind its last line. ``in_place``: it
    stands at the byte at which it was written."""

    offset: int
    in_place: bool
    lines_before: int
    left: int
    end: int
    log: Log
    others: int
    bad: int


class LineReader:
    """Makes a log of lines, in order. What it found is in its public fields; ``finish`` settles a torn end."""

    def __init__(
        self, path: str, on_bad: Callable[[BadLine], None] | None = None, *, head: Head | None = None, mark: Mark | None = None
    ) -> None:
        """``head``: read already, so that the first line may be a record. ``mark``: the bytes begin at this mark."""
        self.path = path
        self.log = Log(head, base=mark.entries if mark else 0)
        self.other: list[OtherRecord] = []
        self.bad_lines: list[BadLine] = []
        self.places = Places(array("Q"), array("Q"))
        self.torn: Torn | None = None
        self.newline_missing = False
        self.end = mark.offset if mark else 0
        """The byte behind the last line that holds."""
        self.lines = mark.line - 1 if mark else 0
        """How many lines stand before ``end``."""
        self.fold_refused = False
        """Whether a fold did not fit the log."""
        self._on_bad = on_bad
        self._head_seen = head is not None
        self._batch: _OpenBatch | None = None
        self._lost = Lost()

    def read(self, file: BinaryIO, size: int) -> None:
        """Take all lines of the next ``size`` bytes. Raises InputError for another version of the schema."""
        stop = self.end + size
        at = self.end
        while at < stop and (data := file.readline(min(MAX_LINE + 1, stop - at))):
            at += len(data)
            if len(data) <= MAX_LINE or data.endswith(b"\n"):
                self._take(data)
                continue
            start, begin = at - len(data), data[:SHOWN_BYTES]
            while data and not data.endswith(b"\n"):
                data = file.readline(min(MAX_LINE, stop - at))
                at += len(data)
            why = f"the line has {at - start:,} bytes, over the limit of {MAX_LINE:,}"
            self._pass_over(at - start, begin, why, whole=bool(data))
        self._finish()

    def _take(self, data: bytes) -> None:
        whole = data.endswith(b"\n")
        text = data.removeprefix(BOM).strip() if self.lines == 0 else data.strip()
        if not text:
            self._count(len(data))
            self._settle_batch(whole=whole)
            return
        try:
            line = decode_line(text)
        except ValueError as error:
            self._pass_over(len(data), text, str(error), whole=whole)
            return
        start = self.end
        self.newline_missing = not whole
        self._count(len(data))
        try:
            self._keep(line, start)
        except (LogError, ValueError) as error:
            self._bad(str(error))
        self._settle_batch(whole=whole)

    def _keep(self, line: Line, start: int) -> None:
        match line:
            case Entry():
                self.log = self.log.append(line)
                self.places.offsets.append(start)
                self.places.numbers.append(self.lines)
            case Fold():
                self._keep_fold(line)
            case Unfold():
                self.log = self.log.append(line)
            case OtherLine():
                self.other.append(line.record())
            case Batch():
                self._begin_batch(line, start)
            case Mark():
                self._drop_batch("a mark stands among its lines")
            case SessionLine(schema, head):
                self._drop_batch("a head stands among its lines")
                self._take_head(schema, head)

    def _keep_fold(self, fold: Fold) -> None:
        mended = self._lost.mend(fold, self.log) if self._lost else None
        try:
            self.log = self.log.append(mended.fold if mended else fold)
        except LogError:
            self.fold_refused = True
            raise
        if mended and mended.why:
            self._bad(mended.why)

    def _begin_batch(self, batch: Batch, start: int) -> None:
        self._drop_batch("another batch begins among its lines")
        if batch.lines < 1 or batch.bytes < 2 * batch.lines:
            self._bad("the head of a batch is damaged; the lines behind it hold by themselves")
            return
        # This line itself is counted here: _settle_batch takes it off again.
        left, end, in_place = batch.lines + 1, self.end + batch.bytes, batch.at == start
        self._batch = _OpenBatch(start, in_place, self.lines - 1, left, end, self.log, len(self.other), len(self.bad_lines))

    def _drop_batch(self, why: str) -> None:
        """Take the head of a batch for damaged: what stands behind it does not fit."""
        batch, self._batch = self._batch, None
        if batch is not None:
            why = f"the head of a batch is damaged ({why}); the lines behind it hold by themselves"
            self._list(BadLine(batch.lines_before + 1, why), batch.bad)

    def _settle_batch(self, *, whole: bool = True) -> None:
        """One line more was read: the batch ends with its last line, which is to be at its last byte."""
        batch = self._batch
        if batch is None:
            return
        left = batch.left - 1
        if left > 0 and self.end < batch.end:
            self._batch = batch._replace(left=left)
        elif left == 0 and self.end == batch.end - (not whole):
            self._batch = None
        else:
            self._drop_batch("its lines and bytes do not end together")

    def _take_head(self, schema: str, head: Head) -> None:
        if schema != SCHEMA:
            raise InputError(f"written as {schema!r}, this version reads {SCHEMA!r}; use a newer fivefold", path=self.path, line=self.lines)
        if self._head_seen:
            self._bad("a second head; the first one holds")
            return
        self.log = self.log.with_head(head)
        self._head_seen = True

    def _pass_over(self, size: int, start: bytes, why: str, *, whole: bool) -> None:
        if whole:
            self._count(size)
            self._bad(why)
            self._lost.add(start, len(self.log))
            self._settle_batch()
        else:
            self.torn = Torn(self.end, size, _shown(start))

    def _count(self, size: int) -> None:
        self.end += size
        self.lines += 1

    def _bad(self, why: str) -> None:
        self._list(BadLine(self.lines, why), len(self.bad_lines))

    def _list(self, bad: BadLine, index: int) -> None:
        self.bad_lines.insert(index, bad)
        if self._on_bad is not None:
            self._on_bad(bad)

    def _finish(self) -> None:
        """A batch that is not whole is taken back: what was one write holds together or not at all."""
        batch, torn = self._batch, self.torn
        if batch is None:
            return
        if not batch.in_place or self.end + (torn.bytes if torn else 0) > batch.end:
            self._drop_batch("the file does not end as it would tell")
            return
        text = torn.text if torn else f"{batch.left} lines of a write are missing"
        self.torn = Torn(batch.offset, self.end + (torn.bytes if torn else 0) - batch.offset, text)
        taken_back = len(self.log) - len(batch.log)
        for numbers in self.places:
            del numbers[len(numbers) - taken_back :]
        self.end, self.lines, self.log, self.newline_missing = batch.offset, batch.lines_before, batch.log, False
        del self.other[batch.others :], self.bad_lines[batch.bad :]


def _shown(data: bytes) -> str:
    return data[:SHOWN_BYTES].decode("utf-8", "replace")


def head_of(data: bytes, path: str) -> Head:
    """The head in a file's first line. Raises InputError where that is no head of a session."""
    try:
        line: Line | None = decode_line(data.removeprefix(BOM).strip())
    except ValueError:
        line = None
    if not isinstance(line, SessionLine) or not line.schema.startswith(FAMILY):
        raise InputError(
            "not a fivefold session: its first line is no session line, or was torn before anything was said", path=path, line=1
        )
    return line.head


def is_session_object(value: dict[str, JSON]) -> bool:
    """Whether a JSON object is the first line of a session file."""
    schema = value.get("schema")
    return value.get("type") == "session" and isinstance(schema, str) and schema.startswith(FAMILY)
