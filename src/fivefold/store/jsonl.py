"""Session files on disk: written whole, read whole, and read only as far as is shown (K1, K2)."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..core.entries import Entry, Fold, Head, HideSpan, HideThinking, Unfold
from ..core.log import Log
from ..core.transcript import BadLine, OtherRecord
from ..errors import InputError, StoreError
from ..formats.session_lines import (
    SCHEMA,
    LineReader,
    Mark,
    Places,
    SessionLine,
    Torn,
    decode_line,
    head_of,
)
from ..formats.source import MAX_LINE
from .lines import Layout, encode_line, other_line, prefix_ends
from .lock import locked

CHUNK = 256 * 1024
OVERLAP = 4096
"""The longest line of a mark or an undo that is looked for from behind; a longer one makes the file be read whole."""
MARK_OR_UNDO = re.compile(rb'\n(\{"type":"(?:mark|unfold)"[^\n]*)(?=\n)')


@dataclass(frozen=True, slots=True)
class SessionData:
    """A session file as read. ``log.base`` > 0: what is hidden was not loaded."""

    log: Log
    other: tuple[OtherRecord, ...]
    bad_lines: tuple[BadLine, ...]
    torn: Torn | None
    """The end of the file, where it was not written whole (K1). The log is without it."""
    end: int
    """Bytes of the file that hold; ``torn`` begins there."""
    lines: int
    """Lines before ``end``."""
    newline_missing: bool
    """The last line holds but lacks its line end."""
    places: Places
    """Where each loaded entry stands."""
    start: int
    """The byte at which reading began: 0, or where the mark points before which nothing was loaded."""
    bytes_read: int


# --- whole files


def write_session(path: str | Path, log: Log, other: Iterable[OtherRecord] = ()) -> None:
    """Write a log as a session file, whole or not at all; the file is for its owner only (0600). One that is there is
    replaced. Raises StoreError where it can't be written or the log is not loaded whole, LockedError where another
    process writes the file."""
    path = Path(os.path.realpath(path))
    if log.base:
        raise StoreError(f"{path}: the log is not loaded whole; give Session.history()")
    with locked(path, needed=path.exists()):
        try:
            temporary = write_temporary(path, _file_lines(log, other))
            try:
                os.replace(temporary, path)
            except OSError:
                temporary.unlink()
                raise
            sync_folder(path.parent)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror}; nothing of it was changed") from None


def _file_lines(log: Log, other: Iterable[OtherRecord]) -> Iterator[bytes]:
    layout = Layout()
    yield layout.add(head_line(log.head))
    for beside in other:
        yield layout.add(encode_line(other_line(beside)))
    for record in log.records():
        yield from layout.add_records([(record, encode_line(record))], log)


def head_line(head: Head) -> bytes:
    """The first line of a session file."""
    return encode_line(SessionLine(SCHEMA, head))


def write_temporary(path: Path, lines: Iterable[bytes]) -> Path:
    """A new file beside ``path`` that holds ``lines``, synced to the disk, mode 0600. Raises OSError."""
    number, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    try:
        with open(number, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)


def place_new(temporary: Path, path: Path) -> None:
    """Give a temporary file its name. Raises FileExistsError where the name is taken: nothing is written over."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder last through a crash; where folders can't be synced the system sees to it."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read_session(path: str | Path, *, history: bool = True) -> SessionData:
    """Read a session file; nothing in it is changed. ``history=False``: only what the view needs (K2). Raises InputError
    where it can't be opened or is no session."""
    try:
        with open(path, "rb") as file:
            return load(file, file.seek(0, io.SEEK_END), str(path), history=history)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(path)) from None


# --- reading no more than is shown


class _Scan(NamedTuple):
    """The end of a file, looked through from behind: the latest mark whose fold was not undone later, and the bytes from
    ``start`` on, which is where the mark points, or 0 where there is none."""

    mark: Mark | None
    start: int
    data: bytes


def load(file: BinaryIO, size: int, path: str, *, history: bool) -> SessionData:
    """The first ``size`` bytes of an open session file. Raises InputError where it is no session."""
    file.seek(0)
    first = file.readline(MAX_LINE)
    if not first.strip():
        raise InputError("the file is empty, not a session", path=path)
    head = head_of(first, path)
    spent = len(first)
    if not history:
        scan = _scan_back(file, size)
        if scan.mark is None:
            return _load_whole(io.BytesIO(scan.data), size, path, spent)
        spent += len(scan.data)
        data = _load_from(scan.mark, scan.data, path, head, spent)
        if data is not None:
            return data
    file.seek(0)
    return _load_whole(file, size, path, spent)


def _load_whole(file: BinaryIO, size: int, path: str, spent: int) -> SessionData:
    reader = LineReader(path)
    reader.read(file, size)
    return _data(reader, 0, spent + size)


def _data(reader: LineReader, start: int, bytes_read: int) -> SessionData:
    return SessionData(
        log=reader.log,
        other=tuple(reader.other),
        bad_lines=tuple(reader.bad_lines),
        torn=reader.torn,
        end=reader.end,
        lines=reader.lines,
        newline_missing=reader.newline_missing,
        places=reader.places,
        start=start,
        bytes_read=bytes_read,
    )


def _scan_back(file: BinaryIO, size: int) -> _Scan:
    pieces: deque[bytes] = deque()
    undone: set[str] = set()
    start = size
    after = b""
    while start > 0:
        step = min(CHUNK, start)
        start -= step
        file.seek(start)
        piece = file.read(step)
        pieces.appendleft(piece)
        mark = _mark_in(piece, after, start, undone)
        if mark is not None:
            if mark.offset < start:
                file.seek(mark.offset)
                pieces.appendleft(file.read(start - mark.offset))
                start = mark.offset
            return _Scan(mark, mark.offset, b"".join(pieces)[mark.offset - start :])
        after = piece[:OVERLAP]
    return _Scan(None, 0, b"".join(pieces))


def _mark_in(piece: bytes, after: bytes, start: int, undone: set[str]) -> Mark | None:
    """The last usable mark that begins in a piece of the file; the undos behind it go into ``undone``."""
    found = [match for match in MARK_OR_UNDO.finditer(piece + after) if match.start() < len(piece)]
    for match in reversed(found):
        try:
            line = decode_line(match[1])
        except ValueError:
            continue
        if isinstance(line, Unfold):
            undone.add(line.fold)
        elif isinstance(line, Mark) and line.fold not in undone and _is_sane(line, start + match.start()):
            return line
    return None


def _is_sane(mark: Mark, place: int) -> bool:
    """Whether a mark at byte ``place`` points back, with no more lines before it than there are bytes."""
    return 0 < mark.offset <= place and 0 < mark.entries < mark.offset and 0 < mark.line < mark.offset


def _load_from(mark: Mark, data: bytes, path: str, head: Head, spent: int) -> SessionData | None:
    """What a mark promises, where the file keeps it; None where it does not, so that all must be read."""
    reader = LineReader(path, head=head, mark=mark)
    reader.read(io.BytesIO(data), len(data))
    first = next(reader.log.records(), None)
    if reader.fold_refused or not isinstance(first, Entry | Fold) or first.id != mark.first or not shows_all(reader.log, mark):
        return None
    return _data(reader, mark.offset, spent)


def shows_all(log: Log, mark: Mark) -> bool:
    """Whether a log loaded from a mark on shows what the whole log shows.

    What comes before the mark's fold may name entries that were not loaded: whatever it did to them, the fold hides it. A
    later span with an end among them may show a stand-in there, in an order that only the whole log tells.
    """
    placed = next((placed for placed in log.folds if placed.fold.id == mark.fold), None)
    if placed is None:
        return False
    hidden = set(prefix_ends(placed.fold))
    if len(hidden) != 1 or {id for id in span_ends(placed.fold) if log.is_stand_in(id)} != hidden:
        return False
    later = (other.fold for other in log.folds if other.seq > placed.seq)
    return not any(log.is_stand_in(id) for fold in later for id in span_ends(fold))


def span_ends(fold: Fold) -> Iterator[str]:
    """The entries that the spans of a fold begin and end with."""
    for change in fold.changes:
        if isinstance(change, HideSpan | HideThinking):
            yield change.last
            if change.first is not None:
                yield change.first
