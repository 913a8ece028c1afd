"""The size of the view by round, through the whole history, with the compactions in it.

The log is lived through once more, record by record, with the same view and ledger that a live conversation has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..core.entries import SHOWN_AS, Boundary, Entry, Fold, HideSpan
from ..core.log import Log, stand_ins
from ..core.pairing import same_response
from ..core.tokens import Ledger, Measurer
from ..core.view import View
from .model import CompactionRow, Point


class Timeline(NamedTuple):
    """The points and compactions of a history, and the view and ledger at its end."""

    points: tuple[Point, ...]
    compactions: tuple[CompactionRow, ...]
    ledger: Ledger


class _Rounds:
    """Counts rounds as entries come (spec section 0)."""

    def __init__(self) -> None:
        self.count = 0
        self._api_id: str | None = None
        self._adjacent = False
        self._answered = False

    def begins(self, entry: Entry) -> bool:
        """Whether a new round begins with this entry."""
        if entry.kind != "assistant":
            first = self.count == 0
            self.count = max(1, self.count)
            if entry.kind in SHOWN_AS:
                self._adjacent = False
            return first
        goes_on = self._answered and same_response(entry, self._api_id, self._adjacent)
        self._api_id, self._adjacent, self._answered = entry.api_id, True, True
        self.count += 0 if goes_on else 1
        return not goes_on


def live_through(log: Log, ledger: Ledger, measure: Measurer) -> Timeline:
    """The timeline of a log, from an empty ``ledger``."""
    points: list[Point] = []
    compactions: list[CompactionRow] = []
    rounds = _Rounds()
    passed = Log(log.head)
    last: Entry | None = None
    for record in log.records():
        if isinstance(record, Entry) and rounds.begins(record) and last is not None:
            points.append(_point(rounds.count - 1, last, ledger))
        before = ledger.size().used if isinstance(record, Fold) else 0
        hidden = len(ledger.view) if isinstance(record, Fold) else 0
        passed = passed.append(record)
        ledger = ledger.advance(ledger.view.advance(passed), measure)
        if isinstance(record, Entry):
            last = record
        elif isinstance(record, Fold) and any(isinstance(change, HideSpan) for change in record.changes):
            brought = sum(1 for _ in stand_ins(record))
            compactions.append(_row(record, rounds.count, before, ledger.size().used, hidden + brought - len(ledger.view)))
    if last is not None:
        points.append(_point(rounds.count, last, ledger))
    return Timeline(tuple(points), tuple(compactions), ledger)


def empty_view(log: Log) -> View:
    """The view of a log before anything was said."""
    return View(Log(log.head), [])


def _point(round: int, entry: Entry, ledger: Ledger) -> Point:
    return Point(round, entry.id, ledger.size().used, entry.time)


def _row(fold: Fold, round: int, before: int, after: int, hidden: int) -> CompactionRow:
    boundary = next((entry.boundary for entry in stand_ins(fold) if entry.boundary is not None), Boundary())
    return CompactionRow(
        fold=fold.id,
        level=fold.level,
        trigger=boundary.trigger,
        round=round,
        line=fold.line,
        time=fold.time,
        tokens_before=_first(fold.tokens_before, boundary.tokens_before, before),
        tokens_after=_first(fold.tokens_after, boundary.tokens_after, after),
        hidden_entries=hidden,
    )


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), 0)


def thin(points: Sequence[Point], most: int) -> list[Point]:
    """At most ``most`` points of many, the highest of each stretch, first and last kept."""
    if len(points) <= most:
        return list(points)
    size = len(points) / most
    return [max(points[int(i * size) : max(int(i * size) + 1, int((i + 1) * size))], key=lambda p: p.tokens) for i in range(most)]
