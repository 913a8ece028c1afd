"""Which of the assistant's own sentences stay: those that say most that is not said yet, newer ones before older."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from .index import BESIDE_CHARS, Index, Line
from .pick import Candidate, Snippet, pick
from .shapes import words_of

SENTENCE_CHARS = 400
ANNOUNCING = 0.4
"""A sentence that ends on a colon announces what stands behind it, and is worth so much of another."""
LEAST_WORDS = 3
"""A sentence with fewer words that no picked one has says nothing."""
_LOOKED_AT = 12
"""So many times what there is room for is looked at, the newest first."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[^\s])|(?<=[。！？；])|\n+")


def pick_prose(index: Index, sources: Sequence[int], now: int, budget: float, per_char: float) -> list[Snippet]:
    """The best sentences of the ``sources`` (units), in order."""
    offered: list[Candidate] = []
    room = _LOOKED_AT * budget / per_char
    for i in sorted(sources, reverse=True):
        recency = (1 + max(0, now - index.units[i].round)) ** -0.45
        offered += [Candidate(line, recency * (ANNOUNCING if line.text[-1] in ":：" else 1.0)) for line in _lines(index, i)]
        room -= len(index.units[i].text)
        if room < 0:
            break
    counts = Counter(chain.from_iterable([candidate.line.refs for candidate in offered]))
    weights = {word: count**-0.5 for word, count in counts.items()}
    return sorted(pick(index, offered, weights, budget, per_char, least=LEAST_WORDS))


def _lines(index: Index, unit: int) -> list[Line]:
    """The sentences of a unit with their words, worked out once."""
    found = index.sentences.get(unit)
    if found is None:
        refs = index.units[unit].refs
        found = []
        for start, piece in _prose_of(index.units[unit].text):
            words = dict.fromkeys([*sorted(words_of(piece)), *(word for word in piece.split() if word in refs)])
            found.append(Line(unit, start, piece, tuple(words), True))
        index.sentences[unit] = found
    return found


def _prose_of(text: str) -> list[tuple[int, str]]:
    """The sentences of a text outside its fenced code."""
    if "```" not in text:
        return sentences_of(text)
    found: list[tuple[int, str]] = []
    at = 0
    for i, part in enumerate(text.split("```")):
        if i % 2 == 0:
            found += [(at + start, piece) for start, piece in sentences_of(part)]
        at += len(part) + 3
    return found


def sentences_of(text: str) -> list[tuple[int, str]]:
    """The sentences of a text with their places; very long ones are cut at ``SENTENCE_CHARS``."""
    found: list[tuple[int, str]] = []
    start = 0
    for end in [*(match.start() for match in _SENTENCE_END.finditer(text)), len(text)]:
        piece = text[start:end]
        lead = len(piece) - len(piece.lstrip())
        for at in range(start + lead, end, SENTENCE_CHARS):
            part = text[at : min(end, at + SENTENCE_CHARS)].rstrip()
            if len(part) >= BESIDE_CHARS or not part.isascii():
                found.append((at, part))
        start = end
    return found
