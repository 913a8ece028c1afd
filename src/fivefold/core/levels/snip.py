"""Snip: marked entries, and results that a later identical read supersedes, folded away without a summary (X3)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from ..entries import CLEARED, Entry, HideEntries, ReplaceBlocks, Target
from ..messages import ToolResult, ToolUse, result_text
from ..pairing import Pairing, Reading
from ..tools import reads_whole
from ..view import View

SUPERSEDED = "[The same was read again later; that result is shown there.]"


def whole_units(view: View, marked: Iterable[str], pinned: Container[str] = ()) -> tuple[str, ...]:
    """The marked entries with all that can't be sent without them: a response whole, with its results. What an open call or
    a late result ties to it comes along; a response with an open call, or a pinned entry, stays (I1, I2, X7)."""
    entries = list(view.entries())
    found = view.pairing
    group = _groups(entries, found)
    wanted = set(marked)
    chosen = {group[i] for i, entry in enumerate(entries) if entry.id in wanted}
    blocked = {group[place.entry] for place in found.open} | {group[i] for i, entry in enumerate(entries) if entry.id in pinned}
    return tuple(entry.id for i, entry in enumerate(entries) if group[i] in chosen - blocked)


def _groups(entries: Sequence[Entry], pairing: Pairing) -> list[int]:
    """Which entries go together: those of one response, and the entries that answer it. Told as the place of the first one."""
    parent = list(range(len(entries)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def join(a: int, b: int) -> None:
        a, b = sorted((root(a), root(b)))
        parent[b] = a

    reading = Reading()
    first: dict[int, int] = {}
    for i, entry in enumerate(entries):
        reading = reading.read(entry)
        if entry.kind == "assistant":
            join(first.setdefault(reading.number, i), i)
    for call, result, _ in pairing.pairs:
        join(call.entry, result.entry)
    return [root(i) for i in range(len(entries))]


def marks(view: View, marked: Iterable[str], pinned: Container[str] = ()) -> HideEntries | None:
    """The change that hides marked entries; None where none of them can go now."""
    ids = whole_units(view, marked, pinned)
    return HideEntries(ids) if ids else None


def superseded(view: View, pinned: Container[str] = ()) -> ReplaceBlocks | None:
    """The change that hides results which a later identical read has made again; None where there are none."""
    entries = list(view.entries())
    found = view.pairing
    last: dict[str, int] = {}
    old: list[tuple[int, int]] = []
    reads: list[tuple[str, int, int]] = []
    for call, result, _ in sorted(found.pairs, key=lambda found: found.result):
        use, block = entries[call.entry].blocks[call.block], entries[result.entry].blocks[result.block]
        if not isinstance(use, ToolUse) or not isinstance(block, ToolResult) or block.is_error or result_text(block) == CLEARED:
            continue
        key = reads_whole(use)
        if key is not None and len(result_text(block)) > len(SUPERSEDED):
            reads.append((key, result.entry, result.block))
            last[key] = len(reads) - 1
    old = [(entry, block) for i, (key, entry, block) in enumerate(reads) if last[key] != i and entries[entry].id not in pinned]
    if not old:
        return None
    shown = view.shown()
    targets = tuple(Target(shown[entry].entry.id, block) for entry, block in old)
    return ReplaceBlocks(targets, (SUPERSEDED,))
