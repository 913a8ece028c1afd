"""One writer for each session file (K3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from ..errors import LockedError, StoreError


def acquire(path: Path) -> FileLock:
    """The lock of a session file, at once or not at all. Raises LockedError where another holds it, StoreError where the
    lock's own file can't be made."""
    if not path.parent.is_dir():  # the lock would make it, with everybody's permissions
        raise StoreError(f"{path}: there is no folder {path.parent}; make it first")
    lock = FileLock(f"{path}.lock", timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise LockedError(f"{path}: another process writes this session; end it, or open the session with readonly=True") from None
    except OSError as error:
        raise StoreError(f"{path}.lock: cannot be made: {error.strerror}; open the session with readonly=True to look at it") from None
    return lock


@contextmanager
def locked(path: Path, *, needed: bool) -> Iterator[None]:
    """Hold the lock of a session file for a while; ``needed=False``: do without, as for a file that is not there yet."""
    if not needed:
        yield
        return
    lock = acquire(path)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def released_on_error(lock: BaseFileLock | None) -> Iterator[None]:
    """Let go of a lock where what is done under it fails; keep it where it does not."""
    try:
        yield
    except BaseException:
        if lock is not None:
            lock.release()
        raise
