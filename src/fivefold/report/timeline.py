"""The size of the view by round, through the whole history, with the compactions in it.

The log is lived through once more, record by record, with the same view and ledger that a live conversation has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..core.entries import Boundary, Entry, Fold, HideSpan, Record
from ..core.log import Log, stand_ins
from ..core.pairing import Reading
from ..core.tokens import Ledger, Measurer
from ..core.view import View
from .model import CompactionRow, Point


class Timeline(NamedTuple):
    """The points and compactions of a history, and the view and ledger at its end."""

    points: tuple[Point, ...]
    compactions: tuple[CompactionRow, ...]
    ledger: Ledger


def live_through(log: Log, ledger: Ledger, measure: Measurer) -> Timeline:
    """The timeline of a log, from an empty ``ledger``. The ledger is carried on at each round's end and at each fold."""
    points: list[Point] = []
    compactions: list[CompactionRow] = []
    reading, round = Reading(), 0
    passed = Log(log.head)
    waiting: list[Record] = []
    last: Entry | None = None

    def catch_up(passed: Log, ledger: Ledger) -> tuple[Log, Ledger]:
        passed = passed.append(*waiting)
        waiting.clear()
        return passed, ledger.advance(ledger.view.advance(passed), measure)

    for record in log.records():
        if isinstance(record, Entry):
            before_it, reading = reading, reading.read(record)
            if reading.number > before_it.number or last is None:
                if last is not None:
                    passed, ledger = catch_up(passed, ledger)
                    points.append(_point(round, last, ledger))
                round += 1
            waiting.append(record)
            last = record
            continue
        passed, ledger = catch_up(passed, ledger)
        before, shown = ledger.size().used, len(ledger.view)
        waiting.append(record)
        passed, ledger = catch_up(passed, ledger)
        if isinstance(record, Fold) and any(isinstance(change, HideSpan) for change in record.changes):
            hidden = shown + sum(1 for _ in stand_ins(record)) - len(ledger.view)
            compactions.append(_row(record, round, before, ledger.size().used, hidden))
    passed, ledger = catch_up(passed, ledger)
    if last is not None:
        points.append(_point(round, last, ledger))
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
