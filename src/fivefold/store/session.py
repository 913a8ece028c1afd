"""An open session: its log and view in memory, and the file that follows them (K1 to K5).

The file is only ever appended to. What could not be written waits, in order, and is tried again at the next append and
at close: the conversation goes on in memory whatever becomes of the file, and ``problems`` says what did.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

from filelock import BaseFileLock

from ..core.entries import Entry, Fold, Head, HideEntries, Record, ReplaceBlocks, Unfold
from ..core.log import Log
from ..core.transcript import BadLine
from ..core.view import view_of
from ..errors import InputError, StoreError, WriteError
from ..formats.session_lines import Batch, Torn
from .jsonl import SessionData, head_line, load, place_new, span_ends, write_temporary
from .lines import Layout, encode_line
from .lock import acquire

Fsync: TypeAlias = Literal["always", "never"]
OnProblem: TypeAlias = Callable[[WriteError], None]

COPY_CHUNK = 1024 * 1024
BINARY: int = getattr(os, "O_BINARY", 0)
"""Windows would change line ends without it."""


class Session:
    """A session file that is open. Made by ``create`` or ``open``; for one thread at a time."""

    def __init__(
        self, path: Path, fd: int, data: SessionData, lock: BaseFileLock | None, fsync: Fsync, on_problem: OnProblem | None
    ) -> None:
        self.path = path
        self.log = data.log
        self.view = view_of(data.log)
        """What the model is shown, carried on with each append."""
        self.problems: list[WriteError] = []
        """What happened to the file while it was open (K5), oldest first."""
        self.torn: Torn | None = data.torn
        """The end of the file that a crash had left. It is cut off, unless the session is read only (K1)."""
        self.bad_lines: tuple[BadLine, ...] = data.bad_lines
        """Lines that could not be read; they stay in the file."""
        self.bytes_read = data.bytes_read
        self._fd = fd
        self._lock = lock
        self._fsync = fsync
        self._on_problem = on_problem
        self._layout = Layout(data.places, end=data.end, lines=data.lines)
        self._good = data.end  # bytes of the file that hold
        self._size = data.end  # its bytes as we left it: more than _good after a write that broke off
        self._written = data.log.record_count  # records of the log that are in the file
        self._pending: list[bytes] = []
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
        with _released_on_error(lock):
            try:
                place_new(write_temporary(real, [first]), real)
            except FileExistsError:
                raise StoreError(f"{path}: there is a file already; Session.open goes on with it") from None
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
        with _released_on_error(lock):
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
                os.ftruncate(self._fd, data.end)
            except OSError as error:
                raise StoreError(f"{self.path}: its torn end cannot be cut off: {error.strerror}") from None
        elif data.newline_missing:
            self._layout.end += 1
            self._pending.append(b"\n")
            self._flush()

    def close(self) -> None:
        """Write what waits, and let go of the file. What can't be written even now is said in ``problems``."""
        if self._closed:
            return
        self._flush()
        if self._pending:
            self._say("closed with records that are in no file; write_session(path, session.history()) puts them into one", final=True)
        self._closed = True
        os.close(self._fd)
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- the conversation

    @property
    def readonly(self) -> bool:
        """Whether the session is only looked at."""
        return self._lock is None

    @property
    def waiting(self) -> int:
        """How many records are not in the file yet."""
        return self.log.record_count - self._written

    def append(self, *records: Record) -> None:
        """Put records behind the log and into the file, all of them or none: several are one write. Without records:
        try again what waits.

        Raises LogError for what does not fit the log and StoreError for what can't be written as JSON, with nothing
        changed; StoreError on a session that is closed or read only. Whatever befalls the file is no error here (K5).
        """
        if self._closed or self.readonly:
            raise StoreError(f"{self.path}: the session is {'closed' if self._closed else 'open read only'}; Session.open it for writing")
        encoded = [(record, encode_line(record)) for record in records]
        if self.log.base and any(_looks_back(record, self.log) for record in records):
            self._load_history()
        self.log = self.log.append(*records)
        self.view = self.view.advance(self.log)
        if len(encoded) > 1:
            self._pending.append(self._layout.add(encode_line(Batch(len(encoded)))))
        self._pending += self._layout.add_records(encoded, self.log)
        self._flush()

    def undo(self, fold_id: str, time: float | None = None) -> None:
        """Take a fold back (X5); what it hid is loaded first where it was not. Raises FoldError where it is not in force."""
        self.append(Unfold(fold=fold_id, time=time))

    def history(self) -> Log:
        """The whole log, read from the file where it is not loaded. Raises StoreError where that can't be done."""
        return self._with_waiting(self._read_whole().log) if self.log.base else self.log

    def _load_history(self) -> None:
        data = self._read_whole()
        log = self._with_waiting(data.log)
        waiting = sum(isinstance(record, Entry) for record in self.log.records(self._written))
        for loaded, known in zip(data.places, self._layout.places, strict=True):
            loaded.extend(known[len(known) - waiting :])
        self._layout.places = data.places
        self._written = data.log.record_count
        self.bad_lines = data.bad_lines
        self.bytes_read += data.bytes_read
        self.log, self.view = log, view_of(log)

    def _with_waiting(self, log: Log) -> Log:
        return log.append(*self.log.records(self._written))

    def _read_whole(self) -> SessionData:
        """All that is in the file: through our own descriptor, so that it is there even when the file was deleted."""
        if self._closed:
            raise StoreError(f"{self.path}: the session is closed; Session.open it with history=True")
        return _load(self._fd, self._good, self.path, history=True)

    # --- the file

    def _flush(self) -> None:
        if not self._pending:
            return
        try:
            self._meet_file()
            self._write(b"".join(self._pending))
        except WriteError as error:
            self._say(str(error))
            return
        except OSError as error:
            self._say(f"cannot be written: {error.strerror}")
            return
        self._pending.clear()
        self._written = self.log.record_count
        self._trouble = ""
        if self._fsync == "always":
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._say(f"written, but not synced to the disk: {error.strerror}; a power cut now may lose the newest records", final=True)

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
        if own.st_size != self._size:
            raise WriteError(f"changed by another program ({own.st_size:,} bytes, {self._size:,} expected), and left as it is")
        if self._size > self._good:
            os.ftruncate(self._fd, self._good)
            self._size = self._good

    def _write_anew(self) -> None:
        """Put a deleted file back, from the bytes that our descriptor still holds."""
        place_new(write_temporary(self.path, self._copy()), self.path)
        fd = _open_file(self.path, writing=True)
        os.close(self._fd)
        self._fd = fd
        self._size = self._good
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
                self._size = self._good + done
        except OSError:
            if done:
                os.ftruncate(self._fd, self._good)
                self._size = self._good
            raise
        self._good = self._size

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


def _looks_back(record: Record, log: Log) -> bool:
    """Whether a record names what a log that is not loaded whole does not know."""
    match record:
        case Unfold():
            return True
        case Fold():
            ids = [id for change in record.changes if isinstance(change, HideEntries) for id in change.ids]
            ids += [target.entry for change in record.changes if isinstance(change, ReplaceBlocks) for target in change.targets]
            return any(log.find(id) is None for id in ids) or any(log.is_stand_in(id) for id in span_ends(record))
    return False


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


@contextmanager
def _released_on_error(lock: BaseFileLock | None) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if lock is not None:
            lock.release()
        raise
