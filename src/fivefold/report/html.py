"""A report as one self-contained page: no script, no network, light and dark, prints (B5)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jinja2

from ..errors import InputError
from . import meter
from .model import Report
from .timeline import thin

WIDTH, HEIGHT, LEFT, TOP = 900, 260, 64, 12
MOST_POINTS = 450


class Line(NamedTuple):
    """A horizontal line of the chart."""

    name: str
    y: float
    label: str


class Mark(NamedTuple):
    """A compaction in the chart."""

    x: float
    title: str


class Chart(NamedTuple):
    """The timeline as coordinates."""

    path: str
    area: str
    thresholds: list[Line]
    marks: list[Mark]
    ticks: list[Line]
    rounds: tuple[int, int]


def chart(report: Report) -> Chart | None:
    """The chart of a report's timeline; None where there is no more than one round."""
    points = thin(report.timeline, MOST_POINTS)
    if len(points) < 2:
        return None
    peak = max(point.tokens for point in points)
    top = max(peak, report.window.blocking if report.window else 0) * 1.06 or 1.0
    first, last = points[0].round, points[-1].round

    def x(round: int) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (round - first) / max(1, last - first)

    def y(tokens: float) -> float:
        return TOP + HEIGHT * (1 - tokens / top)

    line = "M" + " L".join(f"{x(point.round):.1f},{y(point.tokens):.1f}" for point in points)
    lines = []
    if report.window:
        lines = [
            Line(name, y(at), meter.tokens(at))
            for name, at in (("warning", report.window.warning), ("auto", report.window.auto), ("blocking", report.window.blocking))
        ]
    marks = [
        Mark(x(max(first, row.round)), f"round {row.round}: {meter.tokens(row.tokens_before)} → {meter.tokens(row.tokens_after)}")
        for row in report.compactions
    ]
    step = _step(top)
    ticks = [Line("", y(value), meter.tokens(value)) for value in range(0, int(top) + 1, step)]
    return Chart(line, f"{line} L{x(last):.1f},{y(0):.1f} L{x(first):.1f},{y(0):.1f} Z", lines, marks, ticks, (first, last))


def _step(top: float) -> int:
    """A round distance (1, 2 or 5 times a power of ten) that makes at most eight ticks."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if top / (size * factor) <= 8:
                return size * factor
        size *= 10


def environment() -> jinja2.Environment:
    """Templates of this folder, everything in them escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("fivefold", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"tokens": meter.tokens, "size": meter.size}
    return made


def render(report: Report) -> str:
    """The page as text."""
    return (
        environment()
        .get_template("page.html")
        .render(
            report=report,
            chart=chart(report),
            level_words=meter.LEVEL_WORDS,
            source_words=meter.SOURCE_WORDS,
            width=WIDTH,
            height=HEIGHT,
            left=LEFT,
            top=TOP,
        )
    )


def write_page(report: Report, path: Path) -> None:
    """Write the page. Raises InputError where it cannot be written."""
    write_text(render(report), path)


def write_text(page: str, path: Path) -> None:
    """Write a page's text. Raises InputError where it cannot be written."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=str(path)) from None
