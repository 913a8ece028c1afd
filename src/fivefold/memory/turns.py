"""One extraction at a time; a request during one is coalesced (S3), and one that takes too long is given up on (S5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import SummaryError


@dataclass(slots=True, eq=False)
class Run:
    """One extraction: waiting for its turn, running, or over."""

    began: float = 0.0
    over: bool = False


class Turns:
    """Whose turn it is, for callers on any thread."""

    def __init__(self, clock: Callable[[], float], stale_seconds: float) -> None:
        self._clock, self._stale = clock, stale_seconds
        self._changed = threading.Condition()
        self._running: Run | None = None
        self._next: Run | None = None

    def waited(self, seconds: float, stale_seconds: float) -> bool:
        """Wait until nothing runs; False where something still does. What has run for ``stale_seconds`` is given up on."""
        with self._changed:
            left = seconds
            while (run := self._running) is not None:
                fresh = run.began + stale_seconds - self._clock()
                if fresh <= 0:
                    self._drop(run)
                    break
                if left <= 0:
                    return False
                pause, before = min(left, fresh), self._clock()
                left -= self._clock() - before if self._changed.wait(pause) else pause
            return True

    def enter(self, run: Run, is_done: Callable[[], bool], begin: Callable[[], None]) -> bool:
        """Wait for a turn. False where there is nothing left to do: a newer request has taken this one in, what it came with was done
        while it waited, or it is over. ``begin`` is called when the turn comes; what it raises ends the turn."""
        with self._changed:
            self._next = run
            self._changed.notify_all()
            waited = False
            while self._running is not None and self._next is run and not run.over:
                waited = True
                fresh = self._running.began + self._stale - self._clock()
                if fresh <= 0:
                    self._drop(self._running)
                else:
                    self._changed.wait(fresh)
            if self._next is not run or run.over or (waited and is_done()):
                return False
            begin()
            self._next, self._running, run.began = None, run, self._clock()
            return True

    @contextmanager
    def writing(self, run: Run) -> Iterator[None]:
        """While a run writes: nobody gives up on it. Raises SummaryError where somebody has already."""
        with self._changed:
            if self._running is not run:
                raise SummaryError("the session memory was not written: its run was given up on")
            yield

    def leave(self, run: Run) -> None:
        """A run is over, however it ended."""
        with self._changed:
            run.over = True
            self._running = None if self._running is run else self._running
            self._next = None if self._next is run else self._next
            self._changed.notify_all()

    def stop(self) -> None:
        """Give up on whatever runs."""
        with self._changed:
            if self._running is not None:
                self._drop(self._running)

    def _drop(self, run: Run) -> None:
        run.over = True
        self._running = None
        self._changed.notify_all()
