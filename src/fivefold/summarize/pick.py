"""Which lines of what is folded stay: a cover of the references most likely to be used later, within a budget (L14).

Greedy by (sum of the probabilities of references not covered yet) / tokens; a gain is worked out anew only where its line comes
up to be picked. A line that says again what a picked one says gains nothing, so identical lines and superseded reads come once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from .calls import command_core
from .index import Index, Line
from .redact import redacted_piece

PLACES = 2
"""Of each reference so many of its last places are looked at, of equal lines one."""
HEADER_TOKENS = 5.0
"""What it costs to open a call or message of which nothing has been picked yet, where nothing better is known."""
HEADER_SHARE = 0.25
"""A header serves all lines below it: where one of them is weighed so much of it counts; the budget pays for all of it."""
REFERENCE_TOKENS = 12
"""A budget has room for about one reference in so many tokens: so many candidates are looked at."""
LINE_CHARS = 3
"""What a line costs beside its text, in characters."""


class Snippet(NamedTuple):
    """A piece of a unit's text: which unit (from 0), where in it, and the piece."""

    unit: int
    start: int
    text: str


class Headers(NamedTuple):
    """What stands above the lines of a unit. ``owners``: the call that a unit belongs to; ``tokens`` that a call's header costs."""

    owners: Mapping[int, int]
    tokens: Mapping[int, float]


class Candidate(NamedTuple):
    """A line that may be picked. ``worth``: what a weight of its references counts here; ``told``: the header shows it."""

    line: Line
    worth: float = 1.0
    told: bool = False


def candidates(index: Index, wanted: Mapping[str, float], is_source: Sequence[bool], heads: Mapping[int, str]) -> list[Candidate]:
    """The lines of the last places of each wanted reference; references on one line share theirs. ``heads``: the headers of calls."""
    seen, units = index.seen, index.units
    lines: dict[tuple[int, int], Candidate] = {}
    for reference in wanted:
        left, row = PLACES, None
        for place in reversed(seen[reference].places):
            unit, piece = place
            if not is_source[unit] or (found := units[unit].rows[piece]) is row:
                continue
            row = found
            if place not in lines:
                line = index.line(unit, piece)
                lines[place] = Candidate(line, 1.0, unit in heads and command_core(line.text) in heads[unit])
            left -= 1
            if not left:
                break
    return list(lines.values())


def pick(
    index: Index,
    offered: Sequence[Candidate],
    weights: Mapping[str, float],
    budget: float,
    per_char: float,
    headers: Headers | None = None,
    least: int = 1,
) -> list[Snippet]:
    """The candidates that cover the weights best, the best first. ``budget`` in tokens, ``per_char`` tokens a character; one that
    covers fewer than ``least`` references that no other has covered is not picked."""
    left = dict(weights)
    headers = headers or Headers({}, {})
    owners = [headers.owners.get(line.unit, line.unit) for line, _, _ in offered]
    costs = [(LINE_CHARS + (0 if told else len(line.text))) * per_char for line, _, told in offered]
    opening = [headers.tokens.get(owner, HEADER_TOKENS) for owner in owners]
    refs = [[reference for reference in line.refs if reference in left] for line, _, _ in offered]
    heap: list[tuple[float, int, int, int]] = []
    for i, (line, worth, _) in enumerate(offered):
        gain = sum([left[reference] for reference in refs[i]])
        heap.append((-worth * gain / (costs[i] + HEADER_SHARE * opening[i]), -line.unit, line.start, i))
    heapify(heap)
    opened: set[int] = set()
    picked: list[Snippet] = []
    cheapest = min(costs, default=0.0)
    while heap and left and budget >= cheapest:
        value, unit, start, i = heap[0]
        header = 0.0 if owners[i] in opened else opening[i]
        gains = [left[reference] for reference in refs[i] if reference in left]
        now = -offered[i].worth * sum(gains) / (costs[i] + HEADER_SHARE * header)
        if len(gains) < least or costs[i] + header > budget:
            heappop(heap)
        elif now > value + 1e-9:  # less than it was: others may be better now
            heapreplace(heap, (now, unit, start, i))
        else:
            heappop(heap)
            picked.append(_safe(index, offered[i].line))
            opened.add(owners[i])
            budget -= costs[i] + header
            for reference in refs[i]:
                left.pop(reference, None)
    return picked


def _safe(index: Index, line: Line) -> Snippet:
    """A line without secrets. Whole lines need no look here: the text they go into is redacted as a whole."""
    unit, start, text, _, is_cut = line
    if is_cut or unit in index.private:
        text = redacted_piece(index.units[unit].text, start, start + len(text))
    return Snippet(unit, start, text)
