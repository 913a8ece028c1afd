"""How likely a reference is to be used later, from what was seen of it (facts: retention study, three features and kinds).

Fitted on recorded sessions: what the assistant itself wrote, how often, how lately, and how selective the place was that
showed it (a call or a short result, not a listing of three hundred names).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import exp, log

from .shapes import Kind

_KIND_WEIGHTS: Mapping[Kind, float] = {
    "number": -1.1, "hex": -1.1, "quoted": -0.45, "error": -0.45, "path": -0.2, "command": 0.2, "flag": 0.6, "name": 0.0, "word": -0.8,
}  # fmt: skip


def log_odds(kind: Kind, written: int, since: int, crowd: int, rounds: int, person_only: bool = False) -> float:
    """Log-odds that a reference is used later.

    ``written``: rounds in which the assistant wrote it; ``since``: rounds since it was last seen; ``crowd``: references in
    the most selective block that showed it, itself included; ``rounds``: rounds in which anybody showed it (more than two
    count as two).
    """
    return lasting_odds(kind, written, crowd, rounds, person_only) + recency(since)


@lru_cache(maxsize=65_536)
def lasting_odds(kind: Kind, written: int, crowd: int, rounds: int, person_only: bool) -> float:
    """The part of the log-odds that time does not change."""
    odds = -0.6 + 0.9 * log(1 + written) - 0.2 * log(1 + crowd) + _KIND_WEIGHTS[kind]
    if not written:
        odds -= 0.8
    if rounds >= 2:
        odds += 0.4
    if person_only:
        odds -= 0.3
    return odds


def recency(since: int) -> float:
    """The part of the log-odds that comes of the rounds since a reference was last seen."""
    return -0.45 * log(1 + since)


def probability(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + exp(-odds))
