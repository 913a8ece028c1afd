"""Results that are too large to enter whole (M10, X9): shown head and tail from the moment they come in.

Only what no request has held yet is looked at, so nothing that a cache knows is changed; and each entry once (M7).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from ..edits.shorten import Candidate, candidates, replacing, shares
from ..entries import ReplaceBlocks
from ..policy import MicroPolicy
from ..view import Shown
from ..window import Window


def caps(
    shown: Sequence[Shown], window: Window, policy: MicroPolicy, measure_text: Callable[[str], int], pinned: Container[str] = ()
) -> ReplaceBlocks | None:
    """The change that brings the results of these entries under both caps; None where they are."""
    single = int(window.effective * policy.result_percent / 100)
    together = int(window.effective * policy.round_percent / 100)
    cut: list[tuple[Candidate, int]] = []
    for group in _rounds(shown):
        found = candidates(group, measure_text, pinned)
        wanted = [min(candidate.tokens, single) for candidate in found]
        allowed = shares(wanted, together)
        cut += [(candidate, most) for candidate, most in zip(found, allowed, strict=True) if most < candidate.tokens]
    return replacing(cut, measure_text) if cut else None


def _rounds(shown: Sequence[Shown]) -> list[list[Shown]]:
    """What stands between two responses."""
    groups: list[list[Shown]] = [[]]
    for item in shown:
        if item.entry.kind == "assistant":
            if groups[-1]:
                groups.append([])
        else:
            groups[-1].append(item)
    return [group for group in groups if group]


def trim(
    shown: Sequence[Shown], surplus: int, measure_text: Callable[[str], int], *, least: int, pinned: Container[str] = ()
) -> ReplaceBlocks | None:
    """The largest results cut to one height so that ``surplus`` tokens go, none under ``least`` tokens (R3); None where the results
    do not hold so much."""
    found = candidates(shown, measure_text, pinned)
    total = sum(candidate.tokens for candidate in found)
    floor = sum(min(candidate.tokens, least) for candidate in found)
    if surplus <= 0 or total - surplus < floor:
        return None
    allowed = shares([candidate.tokens for candidate in found], total - surplus)
    return replacing([(candidate, most) for candidate, most in zip(found, allowed, strict=True) if most < candidate.tokens], measure_text)
