"""The warning that room is running low, for whoever shows it (W6, W8).

A compaction that succeeded makes the sizes known so far worthless, so the warning is held back until real usage arrives; the start
of another attempt shows it again. What is shown is decided here and drawn elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from .core.window import Level, WindowState

_log = logging.getLogger(__name__)


class Warned(NamedTuple):
    """What to show. ``percent_left`` is None while there is nothing to warn of."""

    level: Level = "ok"
    percent_left: int | None = None


Callback: TypeAlias = Callable[[Warned], object]


class WarningStore:
    """Holds the state of one conversation's window and tells those who subscribed when what is to be shown changes.

    From any thread. Callbacks run one after the other, in the thread of whoever made the change, or of one who is telling
    already; each sees the changes in the order in which they happened, and may change, subscribe and unsubscribe itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: WindowState | None = None
        self._suppressed = False
        self._shown = Warned()
        self._callbacks: dict[object, Callback] = {}
        self._untold: deque[Warned] = deque()
        self._telling = False

    @property
    def state(self) -> WindowState | None:
        """The window as it stands, whether it is shown or held back; None before the first update."""
        return self._state

    @property
    def suppressed(self) -> bool:
        """Whether the warning is held back."""
        return self._suppressed

    @property
    def shown(self) -> Warned:
        """What to show now."""
        return self._shown

    @property
    def visible(self) -> Level:
        """The level to show now: ``ok`` while suppressed."""
        return self._shown.level

    def update(self, state: WindowState, *, suppressed: bool) -> None:
        """The window as it stands now, and what the engine's tracking says about holding back."""
        self._change(state=state, suppressed=suppressed)

    def attempt_started(self) -> None:
        """A compaction begins: the warning is no longer held back."""
        self._change(suppressed=False)

    def compaction_succeeded(self) -> None:
        """Hold it back until real usage arrives (A9)."""
        self._change(suppressed=True)

    def usage_arrived(self) -> None:
        """A response brought real numbers."""
        self._change(suppressed=False)

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call it with what is to be shown each time that this changes. Returns what takes the subscription back; doing so twice
        does nothing."""
        key = object()
        with self._lock:
            self._callbacks[key] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return unsubscribe

    def _change(self, *, suppressed: bool, state: WindowState | None = None) -> None:
        with self._lock:
            self._state, self._suppressed = state or self._state, suppressed
            shown = _shown(self._state, suppressed)
            if shown == self._shown:
                return
            self._shown = shown
            self._untold.append(shown)
            if self._telling:
                return
            self._telling = True
        self._tell()

    def _tell(self) -> None:
        """Tell all changes that nobody has been told; outside the lock, so that a callback may do what it likes."""
        try:
            while (told := self._next()) is not None:
                shown, keys = told
                for key in keys:
                    callback = self._callbacks.get(key)  # one before it may have unsubscribed it
                    if callback is not None:
                        _call(callback, shown)
        except BaseException:
            with self._lock:
                self._telling = False
            raise

    def _next(self) -> tuple[Warned, tuple[object, ...]] | None:
        with self._lock:
            if not self._untold:
                self._telling = False
                return None
            return self._untold.popleft(), tuple(self._callbacks)


def _shown(state: WindowState | None, suppressed: bool) -> Warned:
    return Warned() if state is None or suppressed or state.level == "ok" else Warned(state.level, state.percent_left)


def _call(callback: Callback, shown: Warned) -> None:
    try:
        callback(shown)
    except Exception:  # it is somebody else's code and may raise anything; the others are told all the same
        _log.exception("a subscriber of the warning store raised")
