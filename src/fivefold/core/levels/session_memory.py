"""Level 5: the session memory stands for what it covers; no model is called (S1, S5–S8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..edits import cut
from ..entries import Entry
from ..messages import ToolUse
from ..policy import MemoryPolicy
from ..view import View
from ..window import Window, scaled


class Kept(NamedTuple):
    """Where the kept part begins, and why there."""

    at: int
    resumed: bool
    """No covered id is known: everything may be folded (S8)."""


def kept(view: View, sizes: Sequence[int], covered: str | None, policy: MemoryPolicy, window: Window, *, minimum: bool) -> Kept | str:
    """Where the verbatim part begins when the memory stands for the rest; a text that says why not, where it can't (S6–S8).
    ``minimum``: nothing but what the memory does not cover, the ladder's second step (A8)."""
    place = None if covered is None else cut.place_of(view, covered)
    if covered is not None and place is None:
        return "the entry that the memory covers last is gone from the view"
    at = len(view) if place is None else place + 1
    if not minimum:
        at = cut.tail_start(
            view,
            sizes,
            tokens=scaled(policy.keep_tokens, window),
            texts=policy.keep_entries,
            most=scaled(policy.keep_max_tokens, window),
            floor=min(at, cut.last_stand_in(view)),
            at=at,
        )
    return Kept(cut.back(cut.legal(view), min(at, cut.speech_start(view))), place is None)


def due(view: View, sizes: Sequence[int], used: int, covered: str | None, policy: MemoryPolicy, window: Window) -> str | None:
    """The entry up to which the memory is to be brought now, or None (S1): first when the view is large enough; then when enough
    has come since what it covers, with enough calls or at a natural pause. Never inside a call and its result."""
    entries = list(view.entries())
    place = None if covered is None else cut.place_of(view, covered)
    since = entries if place is None else entries[place + 1 :]
    grown = sum(sizes) if place is None else sum(sizes[place + 1 :])
    least = policy.first_tokens if covered is None else policy.grow_tokens
    if (used if covered is None else grown) < scaled(least, window) or not since:
        return None
    if view.pairing.open:
        return None
    calls = sum(isinstance(block, ToolUse) for entry in since for block in entry.blocks)
    if calls < policy.tool_calls and _calls_of_last(entries):
        return None
    said = [item.entry.id for item in view.shown() if item.side == 0]
    return said[-1] if said and said[-1] != covered else None


def _calls_of_last(entries: Sequence[Entry]) -> bool:
    """Whether the last assistant turn called a tool."""
    for entry in reversed(entries):
        if entry.kind == "assistant":
            return any(isinstance(block, ToolUse) for block in entry.blocks)
    return False
