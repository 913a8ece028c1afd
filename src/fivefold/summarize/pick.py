"""Which lines of what is folded stay: a cover of the references most likely to be used later, within a budget (L14).

Greedy by (sum of the probabilities of references not covered yet) / tokens; sums are exact (``fsum``), so that the order in
which sets give their members does not show. A line that says again what a picked one says
gains nothing, so identical lines and superseded reads come once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import fsum
from typing import NamedTuple

from .redact import redacted_piece
from .references import find, words_of
from .units import Unit

LINE_CHARS = 180
"""A longer line is cut to a window about the reference."""
BEFORE_CHARS = 40
AFTER_CHARS = 50
BESIDE_CHARS = 24
"""At least so much of its text stands beside a reference."""
PLACES = 2
"""Of each reference so many of its last places are looked at."""
HEADER_TOKENS = 5
"""What it costs to open a call or message of which nothing has been picked yet."""
REFERENCE_TOKENS = 5
"""A budget has room for about one reference in so many tokens: so many candidates are looked at."""
SENTENCE_CHARS = 400
ANNOUNCING = 0.4
"""A sentence that ends on a colon announces what stands behind it, and is worth so much of another."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[^\s])|(?<=[。！？；])|\n+")
_EDGE_CHARS = 24


class Snippet(NamedTuple):
    """A piece of a unit's text: which unit (from 0), where in it, and the piece."""

    unit: int
    start: int
    text: str


class _Candidate:
    """A snippet that may be picked, the wanted references known to stand in it, and those of its unit that no snippet of
    it has covered yet."""

    __slots__ = ("pool", "refs", "snippet")

    def __init__(self, snippet: Snippet, pool: set[str]) -> None:
        self.snippet = snippet
        self.refs: set[str] = set()
        self.pool = pool

    def cover(self) -> list[str]:
        """All that it covers, looked for only now that it is picked."""
        text = self.snippet.text
        found = [reference for reference in self.pool if reference in text]
        self.pool.difference_update(found)
        return found


def pick(units: Sequence[Unit], sources: Sequence[int], wanted: Mapping[str, float], budget: float, per_char: float) -> list[Snippet]:
    """The snippets of the ``sources`` (places among the units) that cover the ``wanted`` references best, the best first.

    ``budget`` in tokens, ``per_char`` tokens a character.
    """
    candidates = _candidates(units, sources, wanted)
    heap: list[tuple[float, int, int, int]] = []
    for i, candidate in enumerate(candidates):
        gain = fsum(map(wanted.__getitem__, candidate.refs))
        heap.append((-gain / _cost(candidate.snippet, per_char, ()), -candidate.snippet.unit, candidate.snippet.start, i))
    heapify(heap)
    covered: set[str] = set()
    opened: set[int] = set()
    picked: list[Snippet] = []
    while heap and budget > 0:
        value, unit, start, i = heappop(heap)
        candidate = candidates[i]
        candidate.refs -= covered
        cost = _cost(candidate.snippet, per_char, opened)
        now = -fsum(map(wanted.__getitem__, candidate.refs)) / cost
        if now == 0 or cost > budget:
            continue
        if now > value + 1e-9 and heap and now > heap[0][0]:
            heappush(heap, (now, unit, start, i))
            continue
        picked.append(_safe(units, candidate.snippet))
        opened.add(candidate.snippet.unit)
        covered.update(candidate.cover())
        budget -= cost
    return picked


def _safe(units: Sequence[Unit], snippet: Snippet) -> Snippet:
    """A snippet without secrets. Whole lines need no look here: the text they go into is redacted as a whole."""
    text, start, stop = units[snippet.unit].text, snippet.start, snippet.start + len(snippet.text)
    before = text[text.rfind("\n", 0, start) + 1 : start]
    if (not before or before.isspace()) and text[stop : stop + 1] in "\n" and "PRIVATE KEY" not in text:
        return snippet
    return snippet._replace(text=redacted_piece(text, start, stop))


def _cost(snippet: Snippet, per_char: float, opened: Iterable[int]) -> float:
    return (len(snippet.text) + 3) * per_char + (0 if snippet.unit in opened else HEADER_TOKENS)


def _candidates(units: Sequence[Unit], sources: Sequence[int], wanted: Mapping[str, float]) -> list[_Candidate]:
    """A snippet for each of the last places of each wanted reference; references on one line share theirs."""
    left = dict.fromkeys(wanted, PLACES)
    keys = set(wanted)
    made: list[_Candidate] = []
    for i in sorted(sources, reverse=True):
        here = keys & units[i].refs
        if not here:
            continue
        made += _snippets(i, units[i].text, here)
        for reference in here:
            left[reference] -= 1
            if not left[reference]:
                keys.discard(reference)
    return made


def _snippets(unit: int, text: str, references: set[str]) -> list[_Candidate]:
    by_start: dict[int, _Candidate] = {}
    for reference in references:
        at = find(text, reference)
        if at < 0:
            continue
        start, stop = around(text, at, len(reference))
        candidate = by_start.get(start)
        if candidate is None:
            candidate = by_start[start] = _Candidate(Snippet(unit, start, text[start:stop]), references)
        elif start + len(candidate.snippet.text) < stop:
            candidate.snippet = Snippet(unit, start, text[start:stop])
        candidate.refs.add(reference)
    return list(by_start.values())


def around(text: str, at: int, size: int) -> tuple[int, int]:
    """Start and end of the piece shown of a reference: its line, more lines where that says nothing beside it, a window of
    whole words where it is long."""
    start = text.rfind("\n", 0, at) + 1
    stop = text.find("\n", at + size)
    stop = len(text) if stop < 0 else stop
    if stop - start > LINE_CHARS:
        return _window(text, start, stop, at, size)
    while start < at and text[start].isspace():
        start += 1
    while stop - start < size + BESIDE_CHARS and stop < len(text):
        end = text.find("\n", stop + 1)
        end = len(text) if end < 0 else end
        if end - start > LINE_CHARS:
            break
        stop = end
    while stop - start < size + BESIDE_CHARS and start > 1:
        earlier = text.rfind("\n", 0, start - 1) + 1
        if stop - earlier > LINE_CHARS or earlier == start:
            break
        start = earlier
    return start, stop


def _window(text: str, start: int, stop: int, at: int, size: int) -> tuple[int, int]:
    first, last = max(start, at - BEFORE_CHARS), min(stop, at + size + AFTER_CHARS)
    limit = min(at, first + _EDGE_CHARS)
    while start < first < limit and _is_inside(text[first - 1], text[first]):
        first += 1
    limit = max(at + size, last - _EDGE_CHARS)
    while limit < last < stop and _is_inside(text[last - 1], text[last]):
        last -= 1
    return first, last


def _is_inside(before: str, after: str) -> bool:
    """Whether a word goes on from one character to the next."""
    return (before.isalnum() or before == "_") and (after.isalnum() or after == "_") and before.isascii()


# --- prose


def pick_prose(units: Sequence[Unit], sources: Sequence[int], now: int, budget: float, per_char: float) -> list[Snippet]:
    """The sentences of the assistant's own prose that say most that is not said yet, newer ones before older, in order."""
    sentences: list[tuple[Snippet, set[str], float]] = []
    seen: dict[str, int] = {}
    room = 12 * budget / per_char
    for i in sorted(sources, reverse=True):
        text = units[i].text
        recency = (1 + max(0, now - units[i].round)) ** -0.45
        for start, piece in _prose_of(text):
            words = words_of(piece) | units[i].refs.intersection(piece.split())
            worth = recency * (ANNOUNCING if piece[-1] in ":：" else 1.0)
            for word in words:
                seen[word] = seen.get(word, 0) + 1
            sentences.append((Snippet(i, start, piece), words, worth))
        room -= len(text)
        if room < 0:
            break
    return _cover_prose(units, sentences, seen, budget, per_char)


def _cover_prose(
    units: Sequence[Unit], sentences: list[tuple[Snippet, set[str], float]], seen: Mapping[str, int], budget: float, per_char: float
) -> list[Snippet]:
    weight = {word: count**-0.5 for word, count in seen.items()}
    heap: list[tuple[float, int, int, int]] = []
    for i, (snippet, words, recency) in enumerate(sentences):
        gain = fsum(map(weight.__getitem__, words)) * recency
        heap.append((-gain / _cost(snippet, per_char, ()), -snippet.unit, snippet.start, i))
    heapify(heap)
    said: set[str] = set()
    opened: set[int] = set()
    picked: list[Snippet] = []
    while heap and budget > 0:
        value, unit, start, i = heappop(heap)
        snippet, words, recency = sentences[i]
        words -= said
        cost = _cost(snippet, per_char, opened)
        now = -fsum(map(weight.__getitem__, words)) * recency / cost
        if len(words) < 3 or cost > budget:
            continue
        if now > value + 1e-9 and heap and now > heap[0][0]:
            heappush(heap, (now, unit, start, i))
            continue
        picked.append(_safe(units, snippet))
        opened.add(snippet.unit)
        said |= words
        budget -= cost
    return sorted(picked)


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
