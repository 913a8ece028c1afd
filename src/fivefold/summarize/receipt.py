"""What went into a fold and how much of it is still in view (L13)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..core.entries import Entry
from .frame import escape
from .shapes import Kind
from .spoken import Unit, is_unread

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")


class Count(msgspec.Struct, frozen=True):
    """How many distinct ones the folded part held, and how many of them still stand somewhere in the view."""

    folded: int
    still_in_view: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One fold's account of itself."""

    entries: int
    """Entries that went in."""
    results_shortened: int
    """Results of the middle zone that shrank to picked lines."""
    references: dict[Kind, Count]
    """Paths, commands, names …, by kind."""
    user_instructions: Count
    """Sentences that people said."""
    never_saw: dict[str, int]
    """What the summary was not made from, by kind, and how many: media, thinking, sealed blocks."""
    left_out: dict[str, int]
    """What it saw and dropped for size: words of people turned to pointers, calls without a line of their own."""


def count_refs(folded: Iterable[str], in_view: set[str], kinds: Mapping[str, Kind]) -> dict[Kind, Count]:
    """The references of each kind."""
    every = Counter(map(kinds.__getitem__, folded))
    shown = Counter(map(kinds.__getitem__, in_view.intersection(folded)))
    return {kind: Count(count, shown[kind]) for kind, count in sorted(every.items())}


def count_instructions(folded: Sequence[Unit], view_texts: Sequence[str]) -> Count:
    """The sentences of people among the folded units, and those that stand verbatim in what is shown."""
    sentences = {piece.strip() for unit in folded if unit.voice == "person" for piece in _SENTENCE.split(unit.text) if piece.strip()}
    shown = "\n".join(view_texts)
    return Count(len(sentences), sum(sentence in shown or escape(sentence) in shown for sentence in sentences))


def count_unread(entries: Iterable[Entry]) -> dict[str, int]:
    """Blocks that no text was made of, by kind."""
    counts = Counter(type(block).__name__.lower() for entry in entries for block in entry.blocks if is_unread(block))
    return dict(sorted(counts.items()))
