"""An open session: its log and view in memory, and the file that follows them (K1 to K5).

The file is only ever appended to. What could not be written waits, in order, and is tried again at the next append and
at close: the conversation goes on in memory whatever becomes of the file, and ``problems`` says what did.

An append can be interrupted anywhere (Ctrl-C) and loses nothing: log, view and what waits are one value that is put in
place at once, and how much of it is in the file is told by one number of bytes. What a broken-off write left behind that
number is known by its bytes when the file is met again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, TypeAlias

from filelock import BaseFileLock

from ..core.entries import Entry, Head, Record, Unfold
from ..core.log import Log
from ..core.transcript import BadLine
from ..core.view import View, view_of
from ..errors import InputError, LogError, StoreError, WriteError
from ..formats.session_lines import Places, Torn
from .hidden import HiddenIds, looks_back
from .jsonl import SessionData, head_line, load, place_new, write_temporary
from .lines import Layout, encode_line
from .lock import acquire, released_on_error
from .torn import set_aside

Fsync: TypeAlias = Literal["always", "never"]
OnProblem: TypeAlias = Callable[[WriteError], None]

COPY_CHUNK = 1024 * 1024
BINARY: int = getattr(os, "O_BINARY", 0)
"""Windows would change line ends without it."""


class _Write(NamedTuple):
    """What is one write: its bytes, the byte of the file behind it, and how many records it holds."""

    data: bytes
    end: int
    records: int


class _State(NamedTuple):
    """The conversation, and the writes that may not be in the file yet. ``end`` and ``lines``: of the file with all of them
    in it. ``places`` may hold more than belongs to it, behind."""

    log: Log
    view: View
    writes: tuple[_Write, ...]
    end: int
    lines: int
    places: Places


class Session:
    """A session file that is open. Made by ``create`` or ``open``; for one thread at a time."""

    def __init__(
        self, path: Path, fd: int, data: SessionData, lock: BaseFileLock | None, fsync: Fsync, on_problem: OnProblem | None
    ) -> None:
        self.path = path
        self.problems: list[WriteError] = []
        """What happened to the file while it was open (K5), oldest first."""
        self.torn: Torn | None = data.torn
        """The end of the file that a crash had left. It is cut off, unless the session is read only (K1)."""
        self.set_aside: Path | None = None
        """Where what was cut off is kept: ``<path>.torn-1``, ``-2`` …"""
        self.bad_lines: tuple[BadLine, ...] = data.bad_lines
        """Lines that could not be read; they stay in the file."""
        self.bytes_read = data.bytes_read
        self._fd = fd
        self._lock = lock
        self._fsync = fsync
        self._on_problem = on_problem
        self._state = _State(data.log, view_of(data.log), (), data.end, data.lines, data.places)
        self._good = data.end  # bytes of the file that hold
        self._synced = data.end  # how many of them were synced to the disk, or could not be
        self._start = data.start  # the byte before which nothing was loaded
        self._hidden: HiddenIds | None = None
        self._trouble = ""
        self._closed = False

    # --- opening and closing

    @classmethod
    def create(cls, path: str | Path, head: Head | None = None, *, fsync: Fsync = "always", on_problem: OnProblem | None = None) -> Session:
        """A new session file, mode 0600. Raises StoreError where there is a file or none can be made, LockedError where
        another process is making it."""
        real = Path(os.path.realpath(path))
        first = head_line(head or Head())
        lock = acquire(real)
        with released_on_error(lock):
            try:
                place_new(write_temporary(real, [first]), real)
            except FileExistsError:
                raise StoreError(
                    f"{path}: there is a file already; Session.open goes on with it, or, if nothing was said in it, remove it"
                ) from None
            except OSError as error:
                raise StoreError(f"{path}: cannot be made: {error.strerror}") from None
            return cls._opened(real, lock, fsync, on_problem, history=True)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        readonly: bool = False,
        history: bool = False,
        fsync: Fsync = "always",
        on_problem: OnProblem | None = None,
    ) -> Session:
        """A session to go on with, or only to look at (``readonly``: no lock, nothing changed, ``append`` refuses).
        ``history=False`` loads no more than the view needs (K2). Raises InputError where it can't be read or is no session,
        LockedError where another process writes it (K3)."""
        real = Path(os.path.realpath(path))
        if not real.is_file():
            what = "is no regular file" if real.exists() else "there is no such file; Session.create makes one"
            raise InputError(what, path=str(path))
        lock = None if readonly else acquire(real)
        with released_on_error(lock):
            return cls._opened(real, lock, fsync, on_problem, history=history)

    @classmethod
    def _opened(cls, path: Path, lock: BaseFileLock | None, fsync: Fsync, on_problem: OnProblem | None, *, history: bool) -> Session:
        try:
            fd = _open_file(path, writing=lock is not None)
        except OSError as error:
            raise InputError(f"cannot be opened: {error.strerror}", path=str(path)) from None
        try:
            data = _load(fd, os.fstat(fd).st_size, path, history=history)
            session = cls(path, fd, data, lock, fsync, on_problem)
            if lock is not None:
                session._mend(data)
            return session
        except BaseException:
            os.close(fd)
            raise

    def _mend(self, data: SessionData) -> None:
        """Cut off a torn end, or put the line end behind a last line that lacks only that."""
        if data.torn is not None:
            try:
                with open(os.dup(self._fd), "rb") as file:
                    self.set_aside = set_aside(file, data.end, self.path, sync=self._fsync == "always")
                os.ftruncate(self._fd, data.end)
            except OSError as error:
                raise StoreError(f"{self.path}: its torn end cannot be set aside and cut off: {error.strerror}") from None
        elif data.newline_missing:
            end = data.end + 1
            self._state = self._state._replace(writes=(_Write(b"\n", end, 0),), end=end)
            self._flush()

    def close(self) -> None:
        """Write what waits, and let go of the file. What can't be written even now is said in ``problems``."""
        if self._closed:
            return
        self._flush()
        if self._unwritten():
            self._say("closed with records that are in no file; write_session(path, session.history()) puts them into one", final=True)
        self._closed = True
        try:
            os.close(self._fd)
        finally:
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- the conversation

    @property
    def log(self) -> Log:
        """The conversation's records, as far as they are loaded."""
        return self._state.log

    @property
    def view(self) -> View:
        """What the model is shown, carried on with each append."""
        return self._state.view

    @property
    def readonly(self) -> bool:
        """Whether the session is only looked at."""
        return self._lock is None

    @property
    def waiting(self) -> int:
        """How many records are not in the file yet."""
        return sum(write.records for write in self._unwritten())

    def append(self, *records: Record) -> None:
        """Put records behind the log and into the file, all of them or none: several are one write. Without records:
        try again what waits.

        Raises LogError for what does not fit the log and StoreError for what can't be written as JSON, with nothing
        changed; StoreError on a session that is closed or read only, and where a record names what was not loaded and can't be
        read any more. Whatever else befalls the file is no error here (K5).
        """
        if self._closed or self.readonly:
            raise StoreError(f"{self.path}: the session is {'closed' if self._closed else 'open read only'}; Session.open it for writing")
        encoded = [(record, encode_line(record)) for record in records]
        if self.log.base and any(looks_back(record, self.log) for record in records):
            self._load_history()
        if self.log.base and records and self._may_be_taken(records):
            self._load_history()
        if encoded:
            self._state = self._grown(encoded)
        self._flush()

    def _grown(self, encoded: list[tuple[Record, bytes]]) -> _State:
        state = self._state
        log = state.log.append(*(record for record, _ in encoded))
        view = state.view.advance(log)
        for numbers in state.places:  # what an append that was interrupted had put there
            del numbers[len(state.log) - state.log.base :]
        layout = Layout(state.places, end=state.end, lines=state.lines)
        lines = [layout.add(layout.batch_head([data for _, data in encoded]))] if len(encoded) > 1 else []
        lines += layout.add_records(encoded, log)
        write = _Write(b"".join(lines), layout.end, len(encoded))
        return _State(log, view, (*self._unwritten(), write), layout.end, layout.lines, layout.places)

    def _may_be_taken(self, records: tuple[Record, ...]) -> bool:
        """Whether a record brings an id that one of those not loaded may have (I4). They are looked through once. Where the
        file can't be read, none of it is known to be there."""
        if self._hidden is None:
            try:
                with open(os.dup(self._fd), "rb") as file:
                    self._hidden = HiddenIds(file, self._start)
            except OSError:
                return False
            self.bytes_read += self._start
        return any(self._hidden.may_hold(record) for record in records)

    def undo(self, fold_id: str, time: float | None = None) -> None:
        """Take a fold back (X5); what it hid is loaded first where it was not. Raises FoldError where it is not in force."""
        self.append(Unfold(fold=fold_id, time=time))

    def history(self) -> Log:
        """The whole log, read from the file where it is not loaded. Raises StoreError where that can't be done."""
        return self._with_waiting(self._read_whole().log) if self.log.base else self.log

    def _load_history(self) -> None:
        data = self._read_whole()
        log = self._with_waiting(data.log)
        waiting = sum(isinstance(record, Entry) for record in log.records(data.log.record_count))
        known = len(self.log) - self.log.base
        for loaded, numbers in zip(data.places, self._state.places, strict=True):
            loaded.extend(numbers[known - waiting : known])
        state = self._state._replace(log=log, view=view_of(log), places=data.places)
        self.bad_lines = data.bad_lines
        self.bytes_read += data.bytes_read
        self._state = state

    def _with_waiting(self, log: Log) -> Log:
        try:
            return log.append(*self.log.records(self.log.record_count - self.waiting))
        except LogError as error:
            raise StoreError(f"{self.path}: what waits to be written does not fit the file: {error}") from None

    def _read_whole(self) -> SessionData:
        """All that is in the file: through our own descriptor, so that it is there even when the file was deleted."""
        if self._closed:
            raise StoreError(f"{self.path}: the session is closed; Session.open it with history=True")
        try:
            data = _load(self._fd, self._good, self.path, history=True)
        except InputError as error:
            raise StoreError(f"{error}; it was changed by another program") from None
        if data.end != self._good:
            raise StoreError(f"{self.path}: changed by another program: {data.end:,} of {self._good:,} bytes can still be read")
        return data

    # --- the file

    def _unwritten(self) -> tuple[_Write, ...]:
        """The writes that are not in the file yet."""
        return tuple(write for write in self._state.writes if write.end > self._good)

    def _flush(self) -> None:
        if self._unwritten():
            try:
                self._meet_file()
                self._write(b"".join(write.data for write in self._unwritten()))
            except WriteError as error:
                self._say(str(error))
                return
            except OSError as error:
                self._say(f"cannot be written: {error.strerror}")
                return
            self._trouble = ""
        if self._synced < self._good and self._fsync == "always":
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._say(f"written, but not synced to the disk: {error.strerror}; a power cut now may lose the newest records", final=True)
            self._synced = self._good

    def _meet_file(self) -> None:
        """See that the file is as we left it. One that was deleted is written anew; raises WriteError where it was changed."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._write_anew()
            return
        own = os.fstat(self._fd)
        if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
            raise WriteError("another file was put in its place, which is left as it is")
        if own.st_size != self._good:
            self._settle(own.st_size)

    def _settle(self, size: int) -> None:
        """Take what stands behind the bytes that hold for a write of ours that was broken off, where it is that: the writes
        that are whole hold, the rest is cut off."""
        waits = b"".join(write.data for write in self._unwritten())
        if not 0 < size - self._good <= len(waits) or not waits.startswith(self._bytes_from(self._good, size)):
            raise WriteError(f"changed by another program ({size:,} bytes, {self._good:,} expected), and left as it is")
        self._good = max((write.end for write in self._unwritten() if write.end <= size), default=self._good)
        if self._good < size:
            os.ftruncate(self._fd, self._good)

    def _bytes_from(self, start: int, end: int) -> bytes:
        with open(os.dup(self._fd), "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def _write_anew(self) -> None:
        """Put a deleted file back, from the bytes that our descriptor still holds. The new one is ours before it gets its name."""
        temporary = write_temporary(self.path, self._copy())
        try:
            fd = _open_file(temporary, writing=True)
        except OSError:
            temporary.unlink()
            raise
        old, self._fd = self._fd, fd
        os.close(old)
        place_new(temporary, self.path)
        self._say("was deleted while it was open; written anew in full", final=True)

    def _copy(self) -> Iterator[bytes]:
        with open(os.dup(self._fd), "rb") as file:
            file.seek(0)
            left = self._good
            while left > 0 and (data := file.read(min(left, COPY_CHUNK))):
                left -= len(data)
                yield data

    def _write(self, data: bytes) -> None:
        """Append bytes, normally by one write. Where it breaks off, the file gets back the size that it had."""
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, memoryview(data)[done:])
        except OSError:
            if done:
                os.ftruncate(self._fd, self._good)
            raise
        self._good += done

    def _say(self, what: str, *, final: bool = False) -> None:
        """Report a problem: each one once for as long as it lasts. ``final``: nothing of it is tried again."""
        if not final and what == self._trouble:
            return
        if not final:
            self._trouble = what
            what += "; what is new waits in memory and is tried again at the next append and at close"
        problem = WriteError(f"{self.path}: {what}")
        self.problems.append(problem)
        if self._on_problem is not None:
            self._on_problem(problem)


def _open_file(path: Path, *, writing: bool) -> int:
    """A descriptor of a regular file; writes go to its end whatever others do. Raises OSError."""
    fd = os.open(path, (os.O_RDWR | os.O_APPEND if writing else os.O_RDONLY) | BINARY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(None, "it is no regular file")
    return fd


def _load(fd: int, size: int, path: Path, *, history: bool) -> SessionData:
    try:
        with open(os.dup(fd), "rb") as file:
            return load(file, size, str(path), history=history)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
