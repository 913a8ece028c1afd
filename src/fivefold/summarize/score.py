"""How likely a reference is to be used later, from what was seen of it (facts: retention study, three features and kinds).

Fitted on recorded sessions: what the assistant itself wrote, how often, how lately, and how selective the place was that
showed it (a call or a short result, not a listing of three hundred names).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from math import exp, log

from .references import Kind
from .units import Unit

COMMONPLACE = 0.3
"""A reference in more than this share of the rounds tells nothing."""

_KIND_WEIGHTS: Mapping[Kind, float] = {
    "number": -1.1, "hex": -1.1, "quoted": -0.45, "error": -0.45, "path": -0.2, "command": 0.2, "flag": 0.6, "name": 0.0, "word": -0.8,
}  # fmt: skip


@lru_cache(maxsize=65_536)
def log_odds(kind: Kind, written: int, since: int, crowd: int, rounds: int, person_only: bool = False) -> float:
    """Log-odds that a reference is used later.

    ``written``: rounds in which the assistant wrote it; ``since``: rounds since it was last seen; ``crowd``: references in
    the most selective block that showed it, itself included; ``rounds``: rounds in which anybody showed it (more than two
    count as two).
    """
    odds = -0.6 + 0.9 * log(1 + written) - 0.45 * log(1 + since) - 0.2 * log(1 + crowd) + _KIND_WEIGHTS[kind]
    if not written:
        odds -= 0.8
    if rounds >= 2:
        odds += 0.4
    if person_only:
        odds -= 0.3
    return odds


def probability(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + exp(-odds))


class Sightings:
    """All that was seen of all references, counted by round. ``now``: the round from which is looked back."""

    def __init__(self, units: Sequence[Unit], now: int) -> None:
        self._now = now
        self._written = _count_rounds(units, lambda unit: unit.voice in ("assistant", "call"))
        self._rounds = _count_rounds(units, lambda unit: True)
        self._last: dict[str, int] = {}
        self._crowd: dict[str, int] = {}
        for unit in units:
            self._last.update(dict.fromkeys(unit.refs, unit.round))
        for unit in sorted(units, key=lambda unit: -len(unit.refs)):
            self._crowd.update(dict.fromkeys(unit.refs, len(unit.refs)))
        others = set().union(*(unit.refs for unit in units if unit.voice != "person"))
        self._person_only = set().union(*(unit.refs for unit in units if unit.voice == "person")) - others

    def written(self, reference: str) -> int:
        """Rounds in which the assistant wrote a reference."""
        return self._written[reference]

    def most_likely(self, references: Iterable[str], kinds: Mapping[str, Kind], count: int) -> dict[str, float]:
        """The probabilities of the ``count`` references most likely to be used later, of equals the last by name. What stands in
        too many rounds tells nothing and is not among them."""
        written, shown, last, crowd, persons, now = self._written, self._rounds, self._last, self._crowd, self._person_only, self._now
        most = max(3, COMMONPLACE * (now + 1))
        scored = [
            (log_odds(kinds[ref], written.get(ref, 0), max(0, now - last[ref]), crowd[ref], min(2, rounds), ref in persons), ref)
            for ref in references
            if (rounds := shown[ref]) <= most
        ]
        return {reference: probability(odds) for odds, reference in nlargest(count, scored)}


def _count_rounds(units: Sequence[Unit], wanted: Callable[[Unit], bool]) -> Counter[str]:
    counts: Counter[str] = Counter()
    current, refs = -1, set[str]()
    for unit in units:
        if not wanted(unit):
            continue
        if unit.round != current:
            counts.update(refs)
            current, refs = unit.round, set()
        refs |= unit.refs
    counts.update(refs)
    return counts
