"""Which lines of what is folded stay: a cover of the references most likely to be used later, within a budget (L14).

Greedy by (sum of the probabilities of references not covered yet) / tokens; a gain is worked out anew only where its line comes
up to be picked. A line that says again what a picked one says gains nothing, so identical lines and superseded reads come once.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from heapq import heappop, heapreplace
from typing import NamedTuple

from .calls import command_core
from .index import Index, Line, Sighting
from .redact import redacted_piece
from .score import probability, recency

PLACES = 2
"""Of each reference so many of its last places are looked at, of equal lines one."""
HEADER_TOKENS = 5.0
"""What it costs to open a call or message of which nothing has been picked yet, where nothing better is known."""
HEADER_SHARE = 0.25
"""A header serves all lines below it: where one of them is weighed so much of it counts; the budget pays for all of it."""
REFERENCE_TOKENS = 9
"""A budget has room for about one reference in so many tokens: so many candidates are looked at."""
LINE_CHARS = 3
"""What a line costs beside its text, in characters."""


COMMONPLACE = 0.3
"""A reference in more than this share of the rounds tells nothing."""


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


def most_likely(seen: Mapping[str, Sighting], known: Container[str], now: int, count: int) -> dict[str, float]:
    """The probabilities of the ``count`` references most likely to be used later, and of their equals, in the order in which they
    came up. ``known``: what is in view anyway; ``now``: the round from which is looked back. What stands in too many rounds
    tells nothing and is not among them."""
    most = max(3, COMMONPLACE * (now + 1))
    since = [recency(rounds) for rounds in range(now + 1)]
    scored: list[tuple[float, str]] = []
    for reference, sighting in seen.items():
        if reference not in known and sighting.shown <= most:
            odds = sighting.odds
            scored.append(((sighting.work_out() if odds is None else odds) + since[now - sighting.last], reference))
    if count < 1 or not scored:
        return {}
    least = sorted([odds for odds, _ in scored])[-min(count, len(scored))]
    return {reference: probability(odds) for odds, reference in scored if odds >= least}


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
    numbers = {reference: i for i, reference in enumerate(weights)}
    weight = list(weights.values())
    headers = headers or Headers({}, {})
    offered = sorted(offered, key=_newest_unit_first)
    owners = [headers.owners.get(line.unit, line.unit) for line, _, _ in offered]
    costs = [(LINE_CHARS + (0 if told else len(line.text))) * per_char for line, _, told in offered]
    opening = [headers.tokens.get(owner, HEADER_TOKENS) for owner in owners]
    refs = [[numbers[reference] for reference in line.refs if reference in numbers] for line, _, _ in offered]
    gains = [worth * sum([weight[j] for j in mine]) for (_, worth, _), mine in zip(offered, refs, strict=True)]
    lefts = list(map(len, refs))
    holders: list[list[int]] = [[] for _ in weight]
    for i, mine in enumerate(refs):
        for j in mine:
            holders[j].append(i)
    values = [-gain / (cost + HEADER_SHARE * header) for gain, cost, header in zip(gains, costs, opening, strict=True)]
    heap = sorted(zip(values, range(len(values)), strict=True))
    opened: set[int] = set()
    picked: list[Snippet] = []
    cheapest = min(costs, default=0.0)
    while heap and budget >= cheapest:
        value, i = heap[0]
        header = 0.0 if owners[i] in opened else opening[i]
        now = -gains[i] / (costs[i] + HEADER_SHARE * header)
        if lefts[i] < least or costs[i] + header > budget:
            heappop(heap)
        elif now > value + 1e-9:  # less than it was: others may be better now
            heapreplace(heap, (now, i))
        else:
            heappop(heap)
            picked.append(_safe(index, offered[i].line))
            opened.add(owners[i])
            budget -= costs[i] + header
            for j in refs[i]:
                for other in holders[j]:
                    gains[other] -= offered[other].worth * weight[j]
                    lefts[other] -= 1
                holders[j] = []
    return picked


def _newest_unit_first(candidate: Candidate) -> tuple[int, int]:
    return -candidate.line.unit, candidate.line.start


def _safe(index: Index, line: Line) -> Snippet:
    """A line without secrets, where it may be a part of one."""
    unit, start, text, _, _ = line
    if index.has_secret(unit):
        text = redacted_piece(index.units[unit].text, start, start + len(text))
    return Snippet(unit, start, text)
