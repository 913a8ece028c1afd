"""A record as its line in a session file, and where each line comes to stand (K1, K2)."""

from __future__ import annotations

import base64
import json
import math
from array import array
from collections.abc import Iterable, Iterator

import msgspec

from ..core.entries import Entry, Fold, HideSpan, Record
from ..core.log import Log
from ..core.messages import JSON
from ..core.transcript import OtherRecord
from ..errors import StoreError
from ..formats.session_lines import Batch, Mark, OtherLine, Places, SessionLine, as_source, map_raws
from ..formats.source import MAX_LINE, scrub_surrogates


def encode_line(line: Record | SessionLine | OtherLine | Batch | Mark) -> bytes:
    """A line with its line end. Numbers that JSON does not know (NaN, Infinity) are written as Python writes them; half
    surrogate pairs, which UTF-8 can't hold, as U+FFFD. Raises StoreError for what can't be written, or not read back."""
    try:
        data = _encode_strictly(map_raws(line, embedded) if isinstance(line, Entry | Fold) else line)
    except (RecursionError, TypeError, ValueError) as error:
        what = f"{type(line).__name__.lower()} {line.id!r}" if isinstance(line, Entry | Fold) else type(line).__name__
        raise StoreError(f"{what} cannot be written as JSON: {error}") from None
    if len(data) > MAX_LINE:
        raise StoreError(f"the record has {len(data):,} bytes as a line, over the limit of {MAX_LINE:,}")
    return data + b"\n"


def _encode_strictly(line: Record | SessionLine | OtherLine | Batch | Mark) -> bytes:
    try:
        data = msgspec.json.encode(line)
    except UnicodeEncodeError:
        return _encode_leniently(line)
    # msgspec writes NaN as null. A null is rare enough outside of sources to look what it was.
    raw = bytes(line.raw) if isinstance(line, Entry | Fold | OtherLine) else b""
    if data.count(b"null") > raw.count(b"null") and _has_odd_number(msgspec.to_builtins(line, enc_hook=_as_text)):
        return _encode_leniently(line)
    return data


def _encode_leniently(line: Record | SessionLine | OtherLine | Batch | Mark) -> bytes:
    """The line by the standard library. Each ``raw`` becomes a string, so that it stays as it is in a line that is not
    strict JSON."""
    text = json.dumps(msgspec.to_builtins(line, enc_hook=_as_text), ensure_ascii=False, separators=(",", ":"))
    return str(scrub_surrogates(text)).encode()


def _as_text(raw: object) -> str:
    """What msgspec can't make a plain value of: the JSON of a source, as a string."""
    if not isinstance(raw, msgspec.Raw):
        raise TypeError(f"a {type(raw).__name__} is no JSON")
    return bytes(as_source(raw)).decode("utf-8", "replace")


def _has_odd_number(value: JSON) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_odd_number, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_odd_number, value))


def embedded(source: msgspec.Raw) -> msgspec.Raw:
    """A source record as it stands inside a line: an object or list as it is, anything else as a string."""
    data = bytes(source)
    if data[:1] in (b"{", b"[") and b"\n" not in data and b"\r" not in data:
        try:
            data.decode()
            msgspec.json.decode(data, type=msgspec.Raw)
            return source
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass
    return msgspec.Raw(msgspec.json.encode(data.decode("utf-8", "replace")))


def other_line(other: OtherRecord) -> OtherLine:
    """The line of a record that belongs to no conversation."""
    try:
        other.raw.decode()
    except UnicodeDecodeError:
        return OtherLine(other.line, base64=base64.b64encode(other.raw).decode())
    return OtherLine(other.line, embedded(msgspec.Raw(other.raw)))


class Layout:
    """A file that is written line by line: which bytes come next, and where each entry's line stands."""

    def __init__(self, places: Places | None = None, *, end: int = 0, lines: int = 0) -> None:
        self.places = places or Places(array("Q"), array("Q"))
        self.end = end
        self.lines = lines

    def add(self, data: bytes) -> bytes:
        """One more line, given back."""
        self.end += len(data)
        self.lines += 1
        return data

    def batch_head(self, lines: list[bytes]) -> bytes:
        """The line before ``lines`` that are one write."""
        return encode_line(Batch(len(lines), sum(map(len, lines)), self.end))

    def add_records(self, records: Iterable[tuple[Record, bytes]], log: Log) -> Iterator[bytes]:
        """The lines of records that ``log`` holds. Behind the last fold that hides all before a place comes its mark: at
        the end, so that where a mark stands its whole batch does."""
        mark: Mark | None = None
        for record, data in records:
            if isinstance(record, Entry):
                self.places.offsets.append(self.end)
                self.places.numbers.append(self.lines + 1)
            elif isinstance(record, Fold):
                mark = self._mark(record, log) or mark
            yield self.add(data)
        if mark is not None:
            yield self.add(encode_line(mark))

    def _mark(self, fold: Fold, log: Log) -> Mark | None:
        entries = max((log.position(last) + 1 for last in prefix_ends(fold)), default=0)
        place = entries - log.base
        if not entries or not 0 <= place <= len(self.places.offsets):
            return None
        if place == len(self.places.offsets):
            return Mark(fold.id, self.end, entries, self.lines + 1, fold.id)
        first = log.entry_at(entries).id
        return Mark(fold.id, self.places.offsets[place], entries, self.places.numbers[place], first)


def prefix_ends(fold: Fold) -> list[str]:
    """The last entries of the spans of a fold that hide all from the start."""
    return [change.last for change in fold.changes if isinstance(change, HideSpan) and change.first is None]
