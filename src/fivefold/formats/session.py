"""fivefold's own session files as transcripts (Z3). Opening one to go on with it is the store's work."""

from __future__ import annotations

import msgspec

from ..core.entries import Entry, Record
from ..core.log import Log
from ..core.transcript import Conversation, Transcript
from .common import transcript
from .session_lines import LineReader, is_session_object
from .source import Source

NAME = "fivefold"


def recognises(source: Source) -> bool:
    """Whether there is a session line among the first objects; it is the first of them unless the file was damaged."""
    return source.shape in ("lines", "document") and any(is_session_object(value) for value in source.first_objects)


def read(source: Source) -> Transcript:
    """The conversation of a session file. An entry that brings no line of another source gets its line in this file.
    Raises InputError where there is no entry in it, or where it was written by a newer version."""
    reader = LineReader(source.path, lambda bad: source.bad(bad.line, bad.why))
    with source.open() as file:
        reader.read(file, source.size)
    if reader.torn is not None:
        source.bad(reader.lines + 1, f"the end was not written whole ({reader.torn.bytes:,} bytes): {reader.torn.text}")
    log = Log(reader.log.head, _with_lines(reader))
    return transcript(NAME, source, [Conversation(log)], reader.other)


def _with_lines(reader: LineReader) -> list[Record]:
    records: list[Record] = []
    numbers = iter(reader.places.numbers)
    for record in reader.log.records():
        if isinstance(record, Entry):
            line = next(numbers)
            records.append(record if record.line is not None else msgspec.structs.replace(record, line=line))
        else:
            records.append(record)
    return records
