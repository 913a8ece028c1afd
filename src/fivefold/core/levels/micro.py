"""Level 2: old results of compactable tools cleared (M1, M2, M5, M8). The first path that acts ends micro for the turn."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from ..entries import CLEARED, Entry, ReplaceBlocks, Target
from ..messages import Document, Image, ToolResult, ToolUse, result_text
from ..pairing import Pairing, pair
from ..policy import MicroPolicy
from ..tools import purpose_of
from ..view import View
from .cached import Reference

_BLOCKS = 10_000
"""More than an entry has blocks: an order for all results of a log."""


class Result(NamedTuple):
    """A result of a compactable tool in a view: where it stands, the place of its block as said, and what clearing it frees."""

    place: int
    target: Target
    tokens: int


class Clearing(NamedTuple):
    """What to clear, how many tokens go, and the first place that changes."""

    change: ReplaceBlocks
    tokens: int
    results: int
    first: int


def compactable(view: View, sizes: Sequence[int], kinds: Sequence[str], pinned: Container[str] = ()) -> list[Result]:
    """The results that may be cleared, oldest first: of known tools, not cleared yet, longer than what would stand for them.
    The share of an entry's tokens that a result takes is told by its length."""
    shown = view.shown()
    entries = [item.entry for item in shown]
    names = _names(entries, view.pairing)
    found = []
    for place, item in enumerate(shown):
        if item.entry.id in pinned:
            continue
        whole = sum(map(_length, item.entry.blocks)) or 1
        for index, block in enumerate(item.entry.blocks):
            if not isinstance(block, ToolResult) or purpose_of(names.get((place, index), "")) not in kinds:
                continue
            text = result_text(block)
            if text == CLEARED or (len(text) <= len(CLEARED) and not _holds_more(block)):
                continue
            tokens = sizes[place] * _length(block) // whole
            if tokens > 0:
                found.append(Result(place, Target(item.entry.id, index), tokens))
    return found


def new_results(view: View, seen: int, kinds: Sequence[str]) -> list[Reference]:
    """The results of compactable tools behind the order ``seen``, oldest first; only the end of the view is looked at (M7)."""
    shown = view.shown()
    start = len(shown)
    while start > 0 and shown[start - 1].position * _BLOCKS > seen:
        start -= 1
    first = start
    while first > 0 and shown[first - 1].entry.kind != "assistant":
        first -= 1
    while first > 0 and shown[first - 1].entry.kind == "assistant":
        first -= 1
    entries = [item.entry for item in shown[first:]]
    names = _names(entries, pair(entries))
    found = []
    for place, item in enumerate(shown[first:]):
        for index, block in enumerate(item.entry.blocks):
            order = item.position * _BLOCKS + index
            if not isinstance(block, ToolResult) or order <= seen or result_text(block) == CLEARED:
                continue
            if purpose_of(names.get((place, index), "")) in kinds:
                found.append(Reference(block.tool_use_id, order))
    return found


def _names(entries: Sequence[Entry], pairing: Pairing) -> dict[tuple[int, int], str]:
    """The tool's name of each answered result, by place."""
    names: dict[tuple[int, int], str] = {}
    for call, result, _ in pairing.pairs:
        block = entries[call.entry].blocks[call.block]
        if isinstance(block, ToolUse):
            names[result.entry, result.block] = block.name
    return names


def _length(block: object) -> int:
    if isinstance(block, ToolResult):
        return len(result_text(block)) + (6_000 if _holds_more(block) else 0)
    return 40


def _holds_more(block: ToolResult) -> bool:
    """Whether a result holds media, which go with it (M5)."""
    return isinstance(block.content, tuple) and any(isinstance(part, Image | Document) for part in block.content)


def clearing(
    view: View, sizes: Sequence[int], policy: MicroPolicy, *, keep: int, min_gain: int, pinned: Container[str] = ()
) -> Clearing | None:
    """All but the ``keep`` most recent results cleared (at least one stays, and what no response has followed yet), where that frees at
    least ``min_gain`` tokens (M8)."""
    found = compactable(view, sizes, policy.compactable, pinned)
    last = max((place for place, item in enumerate(view.shown()) if item.entry.kind == "assistant"), default=0)
    old = [result for result in found[: max(0, len(found) - max(1, keep))] if result.place < last]
    gain = sum(result.tokens for result in old)
    if not old or gain < min_gain:
        return None
    return Clearing(ReplaceBlocks(tuple(result.target for result in old)), gain, len(old), old[0].place)


def is_idle(view: View, now: float, minutes: float) -> bool:
    """Whether the last assistant entry is at least so old (M2). Without times nothing is known to be old."""
    for item in reversed(view.shown()):
        if item.entry.kind == "assistant":
            return item.entry.time is not None and now - item.entry.time >= minutes * 60
    return False
