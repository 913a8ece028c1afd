"""What a session loaded in part did not load: whether a record names any of it, or brings an id that it has (I4, K1)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from ..core.entries import Entry, Fold, HideEntries, Record, ReplaceBlocks, Unfold
from ..core.log import Log, stand_ins
from ..formats.source import MAX_LINE, loads
from .jsonl import span_ends


class _Brought(msgspec.Struct):
    id: str


class _Change(msgspec.Struct):
    stand_ins: list[_Brought] = []
    tail: list[_Brought] = []


class _Line(msgspec.Struct):
    """As much of any line as tells its ids."""

    id: str = ""
    changes: list[_Change] = []


_decode = msgspec.json.Decoder(_Line).decode


class HiddenIds:
    """Eight bytes for each id: a hash of it. Another id may share it, so a hit is to be looked up in the file itself."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        """Of the first ``size`` bytes of a session file; lines that can't be read have none. Raises OSError."""
        file.seek(0)
        found: set[int] = set()
        left = size
        while left > 0 and (data := file.readline(min(left, MAX_LINE))):
            left -= len(data)
            found.update(map(hash, _ids_in(data)))
        self._hashes = array("q", sorted(found))

    def may_hold(self, record: Record) -> bool:
        """Whether an id that a record brings may be one of them."""
        return any(self._holds(hash(id)) for id in ids_of(record))

    def _holds(self, hashed: int) -> bool:
        place = bisect_left(self._hashes, hashed)
        return place < len(self._hashes) and self._hashes[place] == hashed


def ids_of(record: Record) -> Iterator[str]:
    """The ids that a record takes."""
    if isinstance(record, Entry | Fold):
        yield record.id
    if isinstance(record, Fold):
        yield from (entry.id for entry in stand_ins(record))


def looks_back(record: Record, log: Log) -> bool:
    """Whether a record names what a log that is not loaded whole does not know."""
    match record:
        case Unfold():
            return True
        case Fold():
            ids = [id for change in record.changes if isinstance(change, HideEntries) for id in change.ids]
            ids += [target.entry for change in record.changes if isinstance(change, ReplaceBlocks) for target in change.targets]
            return any(log.find(id) is None for id in ids) or any(log.is_stand_in(id) for id in span_ends(record))
    return False


def _ids_in(data: bytes) -> Iterator[str]:
    try:
        line = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            line = msgspec.convert(loads(data.strip()), _Line)
        except (ValueError, RecursionError):  # msgspec's ValidationError is a ValueError
            return
    yield line.id
    for change in line.changes:
        yield from (brought.id for brought in (*change.stand_ins, *change.tail))
