"""Lines on a terminal: styled where it shows colour, cut to its width, harmless whatever a recorded text holds (H1, Z5)."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from typing import Literal, TypeAlias

import click

Style: TypeAlias = Literal["plain", "title", "soft", "good", "warn", "bad"]
STYLES: dict[Style, dict[str, str | bool]] = {
    "plain": {},
    "title": {"bold": True},
    "soft": {"dim": True},
    "good": {"fg": "green"},
    "warn": {"fg": "yellow"},
    "bad": {"fg": "red"},
}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
MIN_WIDTH, MAX_WIDTH = 40, 200


def printable(text: str) -> str:
    """Text without what moves a cursor, changes a colour or turns the writing direction: one ``·`` for each."""
    return _UNPRINTABLE.sub("·", text)


def printable_lines(text: str) -> str:
    """The same for text of several lines, line ends and tabs kept."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def cells(text: str) -> int:
    """How many columns a printable text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def cut(text: str, width: int) -> str:
    """Text in at most ``width`` columns, its end an ellipsis where it is longer."""
    if cells(text) <= width:
        return text
    kept, used = [], 1
    for ch in text:
        used += cells(ch)
        if used > width:
            break
        kept.append(ch)
    return "".join(kept) + "…"


def fit(text: str, width: int, *, end: bool = False) -> str:
    """Text in exactly ``width`` columns. Where it is too long its beginning is kept, or its ``end``: of a path that tells most."""
    if cells(text) > width:
        text = "…" + cut(text[::-1], width)[:-1][::-1] if end else cut(text, width)
    return text + " " * (width - cells(text))


class Screen:
    """Standard output as lines."""

    def __init__(self) -> None:
        self.width = max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((100, 24)).columns))
        self._colour = False if os.environ.get("NO_COLOR") else None  # None: where the output is a terminal

    def line(self, text: str = "", style: Style = "plain", *, one: bool = False) -> None:
        """Print a line; ``one``: cut to the width instead of running on."""
        text = printable(text)
        if one:
            text = cut(text, self.width)
        styled = click.style(text, **STYLES[style]) if text and STYLES[style] else text  # type: ignore[arg-type]
        click.echo(styled, color=self._colour)

    def title(self, text: str) -> None:
        """Print a blank line and a heading."""
        self.line()
        self.line(text, "title")
