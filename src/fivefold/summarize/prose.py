"""Which of the assistant's own sentences stay: those that say most that is not said yet, newer ones before older."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from .index import Index
from .pick import Candidate, Snippet, pick

ANNOUNCING = 0.4
"""A sentence that ends on a colon announces what stands behind it, and is worth so much of another."""
LEAST_WORDS = 3
"""A sentence with fewer words that no picked one has says nothing."""
_LOOKED_AT = 12
"""So many times what there is room for is looked at, the newest first."""


def pick_prose(index: Index, sources: Sequence[int], now: int, budget: float, per_char: float) -> list[Snippet]:
    """The best sentences of the ``sources`` (units), in order."""
    offered: list[Candidate] = []
    room = _LOOKED_AT * budget / per_char
    for i in sorted(sources, reverse=True):
        recency = (1 + max(0, now - index.units[i].round)) ** -0.45
        offered += [Candidate(line, recency * (ANNOUNCING if line.text[-1] in ":：" else 1.0)) for line in index.sentences(i)]
        room -= len(index.units[i].text)
        if room < 0:
            break
    counts = Counter(chain.from_iterable([candidate.line.refs for candidate in offered]))
    weights = {word: count**-0.5 for word, count in counts.items()}
    return sorted(pick(index, offered, weights, budget, per_char, least=LEAST_WORDS))
