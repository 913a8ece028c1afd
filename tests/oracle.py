"""A naive picture of what a view must show, written apart from the product: a list that is edited in place."""

from __future__ import annotations

from dataclasses import dataclass, field

from fivefold.core.entries import Entry, Fold, HideEntries, HideSpan, HideThinking, Record, ReplaceBlocks, Unfold
from fivefold.core.messages import Block, RedactedThinking, Text, Thinking, ToolResult


@dataclass
class Seen:
    """One thing that may be on show: the position in the log it belongs to, and its blocks (None: hidden)."""

    id: str
    position: int
    blocks: list[Block | None]
    alive: bool = True
    from_log: bool = True


@dataclass
class Oracle:
    """All records so far; ``shown`` replays them from the start, slowly."""

    records: list[Record] = field(default_factory=list)

    def shown(self) -> list[tuple[str, list[Block]]]:
        undone = {r.fold for r in self.records if isinstance(r, Unfold)}
        line: list[Seen] = []
        said: list[str] = []
        for record in self.records:
            if isinstance(record, Entry):
                line.append(Seen(record.id, len(said), list(record.blocks)))
                said.append(record.id)
            elif isinstance(record, Fold) and record.id not in undone:
                for change in record.changes:
                    line = self._change(line, said, change)
        return [(s.id, [b for b in s.blocks if b is not None]) for s in line if s.alive]

    def _change(self, line: list[Seen], said: list[str], change: object) -> list[Seen]:
        if isinstance(change, HideSpan):
            low = 0 if change.first is None else said.index(change.first)
            high = said.index(change.last)
            for seen in line:
                if low <= seen.position <= high:
                    seen.alive = False
            new = [Seen(e.id, low, list(e.blocks), from_log=False) for e in change.stand_ins]
            # in front of the first thing of the log that stands at or behind the start of the span
            place = next((i for i, s in enumerate(line) if s.from_log and s.position >= low), len(line))
            line = line[:place] + new + line[place:]
            line += [Seen(e.id, len(said) - 1, list(e.blocks), from_log=False) for e in change.tail]
        elif isinstance(change, HideThinking):
            low = 0 if change.first is None else said.index(change.first)
            high = said.index(change.last)
            for seen in line:
                if low <= seen.position <= high:
                    seen.blocks = [None if isinstance(b, Thinking | RedactedThinking) else b for b in seen.blocks]
        elif isinstance(change, HideEntries):
            for seen in line:
                seen.alive = seen.alive and seen.id not in change.ids
        elif isinstance(change, ReplaceBlocks):
            for i, target in enumerate(change.targets):
                text = change.texts[i if len(change.texts) > 1 else 0]
                for seen in line:
                    if seen.id == target.entry:
                        self._replace(seen, target.block, target.part, text)
        return line

    def _replace(self, seen: Seen, block: int, part: int | None, text: str) -> None:
        old = seen.blocks[block]
        if isinstance(old, ToolResult):
            if part is None:
                seen.blocks[block] = ToolResult(old.tool_use_id, text, old.is_error, old.extra)
            elif isinstance(old.content, tuple):
                content = tuple(Text(text) if j == part else p for j, p in enumerate(old.content))
                seen.blocks[block] = ToolResult(old.tool_use_id, content, old.is_error, old.extra)
        else:
            seen.blocks[block] = Text(text)
