"""A compaction as one self-contained page: before and after, what each level did, what went and what stays (X6, L13). No script, no
network, light and dark, prints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from . import meter
from .compaction import CompactReport, Side, dollars, words_of
from .html import environment, write_text
from .model import WindowNumbers
from .went import Fate, RoundRow

HUES = (
    "system prompt and tools", "tool results", "tool calls", "thinking", "assistant text", "user text", "summaries", "harness text",
    "images and documents", "attachments", "system text",
)  # fmt: skip
"""The kinds in the order in which a bar shows them; each has a colour of its own, ``--k0``, ``--k1`` …"""
LEAST_LABELLED = 9.0
"""Percent of a bar from which a piece has room for its number."""
FATE_WORDS: dict[Fate, str] = {"folded": "folded away", "shortened": "shortened", "kept": "kept as they were"}
MOST_ROUNDS = 400
"""Rounds listed of one fate; of more the first and the last ones."""
MOST_RANGES = 6


class Piece(NamedTuple):
    """A piece of a stacked bar: percent of the bar's full width, and the number of its colour."""

    kind: str
    hue: int
    tokens: int
    percent: float
    labelled: bool


class Bar(NamedTuple):
    """One view as a bar."""

    name: str
    side: Side
    pieces: list[Piece]


class Mark(NamedTuple):
    """A threshold across the bars."""

    letter: str
    name: str
    tokens: int
    percent: float


class Kind(NamedTuple):
    """A row of the legend."""

    kind: str
    hue: int
    before: int
    after: int


class Run(NamedTuple):
    """Rounds of one fate that follow each other. ``percent``: their share of all rounds' tokens before."""

    fate: Fate
    words: str
    rounds: str
    tokens: int
    percent: float


class Group(NamedTuple):
    """All rounds of one fate."""

    fate: Fate
    words: str
    rounds: str
    """Their numbers, as people write them: 1 to 92, 95."""
    how_many: int
    tokens_before: int
    tokens_after: int
    rows: list[RoundRow]
    left_out: int


def hue(kind: str) -> int:
    """The number of a kind's colour."""
    return HUES.index(kind) if kind in HUES else len(HUES)


def bars(report: CompactReport) -> list[Bar]:
    """Both views on one scale, which the window and the larger of them fit."""
    top = scale_of(report)
    sides = [("before", report.before), ("after", report.after)] if report.after != report.before else [("now", report.before)]
    return [Bar(name, side, _pieces(side, top)) for name, side in sides]


def scale_of(report: CompactReport) -> int:
    """Tokens of the bars' full width."""
    return max(report.window.context, report.before.tokens, report.after.tokens, 1)


def _pieces(side: Side, top: int) -> list[Piece]:
    shares = [(kind, part.tokens, part.tokens * 100 / top) for kind, part in side.by_kind.items() if part.tokens > 0]
    return [Piece(kind, hue(kind), n, share, share >= LEAST_LABELLED) for kind, n, share in sorted(shares, key=lambda row: hue(row[0]))]


def marks(window: WindowNumbers, top: int) -> list[Mark]:
    """The thresholds, and where the window ends if the bars go on behind it."""
    named = [("w", "warning", window.warning), ("a", "auto compact", window.auto), ("b", "blocking", window.blocking)]
    if top > window.context:
        named.append(("end", "of the window", window.context))
    return [Mark(letter, name, at, at * 100 / top) for letter, name, at in named]


def kinds(report: CompactReport) -> list[Kind]:
    """What the pieces stand for, with their numbers."""
    before, after = report.before.by_kind, report.after.by_kind
    names = sorted({*before, *after}, key=lambda kind: (hue(kind), kind))
    return [Kind(k, hue(k), before[k].tokens if k in before else 0, after[k].tokens if k in after else 0) for k in names]


def runs(rounds: Sequence[RoundRow]) -> list[Run]:
    """The rounds in order, as runs of one fate."""
    total = sum(row.tokens_before for row in rounds) or 1
    made = []
    for fate, found in groupby(rounds, key=attrgetter("fate")):
        rows = list(found)
        tokens = sum(row.tokens_before for row in rows)
        made.append(Run(fate, FATE_WORDS[fate], numbers([row.round for row in rows]), tokens, tokens * 100 / total))
    return made


def groups(rounds: Sequence[RoundRow]) -> list[Group]:
    """The rounds by what became of them."""
    made = []
    for fate, words in FATE_WORDS.items():
        rows = [row for row in rounds if row.fate == fate]
        if rows:
            before, after = sum(row.tokens_before for row in rows), sum(row.tokens_after for row in rows)
            shown = rows if len(rows) <= MOST_ROUNDS else [*rows[: MOST_ROUNDS // 2], *rows[-MOST_ROUNDS // 2 :]]
            listed = numbers([row.round for row in rows])
            made.append(Group(fate, words, listed, len(rows), before, after, shown, len(rows) - len(shown)))
    return made


def numbers(rounds: Sequence[int]) -> str:
    """Rising numbers as ranges, of many the first and the last."""
    ends: list[tuple[int, int]] = []
    for number in rounds:
        if ends and number == ends[-1][1] + 1:
            ends[-1] = (ends[-1][0], number)
        else:
            ends.append((number, number))
    parts = [str(low) if low == high else f"{low} to {high}" for low, high in ends]
    return ", ".join(parts) if len(parts) <= MOST_RANGES else ", ".join([*parts[: MOST_RANGES - 1], "…", parts[-1]])


def render(report: CompactReport) -> str:
    """The page as text."""
    receipt = report.receipt
    counts = (
        ("paths", receipt.paths),
        ("commands", receipt.commands),
        ("identifiers", receipt.identifiers),
        ("sentences of people", receipt.user_instructions),
    )
    return (
        environment()
        .get_template("compaction.html")
        .render(
            report=report,
            bars=bars(report),
            marks=marks(report.window, scale_of(report)),
            kinds=kinds(report),
            runs=runs(report.rounds),
            groups=groups(report.rounds),
            receipt=[(name, count) for name, count in counts if count.folded],
            words_of=words_of,
            dollars=dollars,
            level_words=meter.LEVEL_WORDS,
            source_words=meter.SOURCE_WORDS,
        )
    )


def write_page(report: CompactReport, path: Path) -> None:
    """Write the page. Raises InputError where it cannot be written."""
    write_text(render(report), path)
