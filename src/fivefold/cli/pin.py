"""``fivefold pin``: what no compaction may take out of view (X7)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import click
import msgspec

from ..core import ops
from ..core.state import State
from ..drive import Driver
from .options import Judged, entry_id, last_time, model_options, setup_of
from .screen import Screen
from .sessions import check_session, writing

SCHEMA = "fivefold.pin/1"
Action: TypeAlias = Literal["pinned", "removed", "listed"]
MOST_SHOWN = 200
"""Characters of a pin that the terminal shows."""


class PinRow(msgspec.Struct, frozen=True):
    """One pin. ``name``: the entry's id, or the name of a text."""

    name: str
    tokens: int
    text: str


class PinReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, and all pins. ``name``: the one that was pinned or removed; ``budget``: tokens that all may hold together."""

    schema: str = SCHEMA
    file: str
    action: Action
    name: str | None
    pins: tuple[PinRow, ...]
    tokens: int
    budget: int


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("wanted", metavar="[ID]", required=False)
@click.option("--text", metavar="TEXT", help="Pin a text instead of an entry.")
@click.option("--remove", metavar="NAME", help="Take a pin away: an entry's id, or the name of a text.")
@click.option("--list", "only_list", is_flag=True, help="Show the pins; so does giving nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a versioned schema.")
@model_options
def pin(
    file: Path,
    wanted: str | None,
    text: str | None,
    remove: str | None,
    only_list: bool,
    as_json: bool,
    model: str | None,
    window: int | None,
    max_output: int | None,
    models_file: Path | None,
) -> None:
    """Pin an entry or a text of a fivefold session, to be kept verbatim by every compaction. ID is an entry's id, the beginning of
    one, or line:NUMBER.

    All pins together have a budget, a share of the auto-compact threshold; a pin over it is refused.
    """
    if sum((wanted is not None, text is not None, remove is not None, only_list)) > 1:
        raise click.UsageError("give one of ID, --text, --remove and --list")
    check_session(file, "pins are kept in")
    judged = Judged(model, window, max_output, models_file)
    with writing(file) as session:
        driver = Driver(session.log, setup=setup_of(session.log, judged), keeper=session, clock=lambda: last_time(session.log))
        action, name = _act(driver, str(file), wanted, text, remove)
        report = _report(str(file), driver.state, action, name)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    else:
        _show(report, Screen())


def _act(driver: Driver, path: str, wanted: str | None, text: str | None, remove: str | None) -> tuple[Action, str | None]:
    if wanted is not None:
        return "pinned", driver.pin(entry_id(driver.log, wanted, path, shown=False))
    if text is not None:
        return "pinned", driver.pin(text)
    if remove is not None:
        driver.unpin(remove)
        return "removed", remove
    return "listed", None


def _report(path: str, state: State, action: Action, name: str | None) -> PinReport:
    setup = state.setup
    pins = tuple(PinRow(one.name, state.ledger.calibration.apply(ops.tokens_of(state, one.text)), one.text) for one in state.tracking.pins)
    budget = int(setup.window.auto * setup.policy.pins.budget_percent / 100)
    return PinReport(file=path, action=action, name=name, pins=pins, tokens=sum(row.tokens for row in pins), budget=budget)


def _show(report: PinReport, screen: Screen) -> None:
    screen.line(report.file, "title")
    if report.name is not None:
        screen.line(f"{report.action}: {report.name}", "good")
    for row in report.pins:
        text = " ".join(row.text.split())
        screen.line(f"  {row.name} · {row.tokens:,} tokens")
        screen.line(f"    {text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + '…'}", "soft")
    screen.line(f"{len(report.pins)} pinned, {report.tokens:,} of {report.budget:,} tokens that pins may hold")
