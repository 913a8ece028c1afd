"""``fivefold undo``: bring back what a compaction took out of view (X5)."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ..core.entries import SHOWN_AS, Fold
from ..core.log import Log
from ..core.state import State
from ..drive import Driver
from ..errors import FoldError
from .options import last_time
from .screen import Screen
from .sessions import check_session, setup_for_sizes, writing

SCHEMA = "fivefold.undo/1"


class FoldRow(msgspec.Struct, frozen=True):
    """A fold: its id, the level that made it, and why."""

    fold: str
    level: str
    why: str


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken back, the newest first, and what is shown again. ``came_back``: messages that were not shown; ``in_full``:
    messages that were shown shorter."""

    schema: str = SCHEMA
    file: str
    undone: tuple[FoldRow, ...]
    came_back: int
    in_full: int
    tokens_before: int
    tokens_after: int
    in_force: tuple[FoldRow, ...]
    """Folds still in force, oldest first."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--fold", "wanted", metavar="ID", help="Take this fold back, with all made after it; the beginning of its id is enough.")
@click.option("--all", "everything", is_flag=True, help="Take all folds back.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a versioned schema.")
def undo(file: Path, wanted: str | None, everything: bool, as_json: bool) -> None:
    """Take the last fold of a fivefold session back, so that what it hid is shown again. Nothing is lost by that either: the fold
    stays in the history.

    Other files are never changed by fivefold, so there is nothing in them to take back.
    """
    if wanted is not None and everything:
        raise click.UsageError("give either --fold or --all")
    check_session(file, "folds are in")
    with writing(file) as session:
        driver = Driver(session.log, setup=setup_for_sizes(session.log), keeper=session, clock=lambda: last_time(session.log))
        before = driver.state
        taken = driver.undo(_first_of(before.log, wanted, everything))
        report = _report(str(file), before, driver.state, taken)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    else:
        _show(report, Screen())


def _first_of(log: Log, wanted: str | None, everything: bool) -> str | None:
    """The oldest fold to be taken back; None: the last one alone."""
    folds = [placed.fold.id for placed in log.folds]
    if everything:
        return folds[0] if folds else None
    if wanted is None or wanted in folds:
        return wanted
    found = [fold for fold in folds if wanted and fold.startswith(wanted)]
    if len(found) != 1:
        which = f"{len(found)} folds begin with {wanted!r}" if found else f"no fold {wanted!r} is in force"
        raise FoldError(f"{which}; in force are: {', '.join(folds) or 'none'}")
    return found[0]


def _row(fold: Fold) -> FoldRow:
    return FoldRow(fold.id, fold.level, fold.why)


def _report(path: str, before: State, after: State, taken: tuple[str, ...]) -> UndoReport:
    folds = {placed.fold.id: placed.fold for placed in before.log.folds}
    shown = {item.entry.id: item.entry for item in before.view.shown()}
    now = [item.entry for item in after.view.shown() if item.entry.kind in SHOWN_AS]
    return UndoReport(
        file=path,
        undone=tuple(_row(folds[id]) for id in taken),
        came_back=sum(entry.id not in shown for entry in now),
        in_full=sum(entry.id in shown and shown[entry.id] != entry for entry in now),
        tokens_before=before.used,
        tokens_after=after.used,
        in_force=tuple(_row(placed.fold) for placed in after.log.folds),
    )


def _show(report: UndoReport, screen: Screen) -> None:
    screen.line(report.file, "title")
    for row in report.undone:
        screen.line("taken back: " + " · ".join(filter(None, (row.fold, row.level, row.why))))
    screen.line(f"{_messages(report.came_back)} came back, {_messages(report.in_full)} shown in full again")
    screen.line(f"{report.tokens_before:,} → {report.tokens_after:,} tokens in view", "good")
    left = len(report.in_force)
    screen.line("no fold is in force any more" if not left else f"still in force: {', '.join(row.fold for row in report.in_force)}", "soft")


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
