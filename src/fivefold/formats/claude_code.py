"""Claude Code session files: JSON lines that name their parents (Z3).

What goes on is the chain that ends in the file's last message; compactions in it become folds over the history before
them, so the view is what the model saw and the log is all that was said. Sub-agents and what was rewound are
conversations of their own. ``Transcript.meta["repairs"]`` lists what was not as it should be and was read all the same.
"""

from __future__ import annotations

import msgspec

from ..core.entries import Boundary, Change, Entry, Fold, Head, HideSpan, Record, ReplaceBlocks, Target
from ..core.log import Log
from ..core.messages import Object, ToolResult
from ..core.transcript import Conversation, OtherRecord, Transcript
from .claude_chain import Path, Tree
from .claude_compact import cleared_ids, compaction_of, kept_places
from .claude_entries import Reader
from .claude_lines import CHAIN_TYPES, MICRO_BOUNDARY, Lines, Node, read_lines
from .common import transcript
from .fields import is_list
from .source import Source

NAME = "claude-code"


def recognises(source: Source) -> bool:
    """Whether lines have a uuid and name their parent by its uuid, or, before the first such line, are snapshots or
    summaries of a Claude Code session."""
    if source.shape != "lines" or is_list(source):
        return False
    return any(
        (str(first.get("type")) in CHAIN_TYPES and "uuid" in first and "parentUuid" in first)
        or (first.get("type") == "file-history-snapshot" and "snapshot" in first)
        or (first.get("type") == "summary" and "leafUuid" in first)
        for first in source.first_objects
    )


def read(source: Source) -> Transcript:
    """All conversations of a session file. Raises InputError where there is no message in it."""
    lines = read_lines(source)
    reader = Reader()
    entries = [reader.entry(node) for node in lines.nodes]
    tree = Tree(lines, [entry is not None for entry in entries])
    conversations: list[Conversation] = []
    used = [False] * len(lines.nodes)
    sessions: set[str | None] = set()
    for path in tree.paths():
        order = tree.in_order(path.units)
        if not any(lines.nodes[i].is_message for i in order):
            continue  # a boundary or attachment that hangs off on its own
        for i in order:
            used[i] = True
        records = Records(lines, tree, entries).build(order)
        conversation = _conversation(Log(_head(lines, tree, path, order, records), records), path, order, lines, sessions)
        conversations.append(conversation)
    others = [*lines.other, *(OtherRecord(node.number, node.raw) for node, taken in zip(lines.nodes, used, strict=True) if not taken)]
    others.sort(key=lambda other: other.line)
    repairs: Object = {"repairs": [{"line": line, "why": why} for line, why in lines.repairs]} if lines.repairs else {}
    return transcript(NAME, source, conversations, others, repairs)


def _conversation(log: Log, path: Path, order: list[int], lines: Lines, sessions: set[str | None]) -> Conversation:
    """The first is the main one, whatever it is of (a sub-agent's own file holds nothing else); a chain of another
    session is one more of its own, not a branch of this."""
    session = lines.nodes[order[0]].session_id
    if not sessions:
        sessions.update(lines.nodes[i].session_id for i in order)
        return Conversation(log)
    if path.kind == "branch" and path.fork < 0 and session not in sessions:
        sessions.add(session)
        return Conversation(log, "sample")
    return Conversation(log, path.kind)


def _head(lines: Lines, tree: Tree, path: Path, order: list[int], records: list[Record]) -> Head:
    session = next((node.session_id for node in (lines.nodes[i] for i in reversed(order)) if node.session_id), "")
    model = next((r.model for r in reversed(records) if isinstance(r, Entry) and r.model), None)
    cwd = next((node.cwd for node in (lines.nodes[i] for i in reversed(order)) if node.cwd), None)
    return Head(id=session or "", model=model, cwd=cwd, name=_name(lines, tree, path, order))


def _name(lines: Lines, tree: Tree, path: Path, order: list[int]) -> str:
    first = lines.nodes[order[0]]
    if path.kind == "main":
        return lines.title
    if path.kind == "sidechain":
        return f"agent {first.agent_id}" if first.agent_id else f"agent from line {first.number}"
    if path.fork < 0:
        return f"apart from line {first.number}"
    fork = lines.nodes[tree.units[path.fork].members[-1]]
    return f"left at line {fork.number} ({fork.uuid}), from line {first.number}"


class Records:
    """The records of one conversation: entries in order, and a fold for each compaction."""

    def __init__(self, lines: Lines, tree: Tree, entries: list[Entry | None]) -> None:
        self.lines = lines
        self.tree = tree
        self.entries = entries
        self.records: list[Record] = []
        self.said: list[Entry] = []
        self._at: dict[int, int] = {}  # place of a line -> place of its entry in ``said``
        self._results: dict[str, Target] = {}
        self._scanned = 0

    def build(self, order: list[int]) -> list[Record]:
        """The records of these lines."""
        place = 0
        while place < len(order):
            i = order[place]
            node = self.lines.nodes[i]
            following = order[place + 1] if place + 1 < len(order) else -1
            if node.is_boundary and following >= 0 and self.lines.nodes[following].is_compact_summary:
                self._compaction(i, [i, following])
                place += 1
            elif node.is_boundary or node.is_compact_summary:
                self._compaction(i, [i])
            else:
                self._say(i)
                if node.subtype == MICRO_BOUNDARY:
                    self._clear(i, node)
            place += 1
        return self.records

    def _say(self, i: int) -> None:
        entry = self.entries[i]
        if entry is not None:
            self._at[i] = len(self.said)
            self.said.append(entry)
            self.records.append(entry)

    def _compaction(self, i: int, stand_ins: list[int]) -> None:
        """A fold that shows ``stand_ins`` for what came before, what was kept left out of it. Where nothing came before
        (a file that goes on from another), or all was kept, they are entries like any other."""
        node = self.lines.nodes[i]
        kept = self._kept(node) if node.is_boundary else []
        spans = _spans(len(self.said), kept)
        if not spans:
            for at in stand_ins:
                self._say(at)
            return
        shown = [entry for entry in (self.entries[at] for at in stand_ins) if entry is not None]
        told = compaction_of(node)
        if shown[0].boundary is not None:
            ids = tuple(self.said[at].id for at in kept)
            ends = (ids[0], ids[-1]) if len(ids) > 1 and kept[-1] - kept[0] == len(kept) - 1 else ids
            boundary = Boundary(told.trigger, told.tokens_before, told.tokens_after, self.said[spans[-1][1]].id, ends)
            shown[0] = msgspec.structs.replace(shown[0], boundary=boundary)
        changes: list[Change] = []
        for number, (first, last) in enumerate(spans):
            from_start = None if first == 0 else self.said[first].id
            changes.append(HideSpan(self.said[last].id, from_start, tuple(shown) if number == 0 else ()))
        self.records.append(
            Fold(
                id=f"fold:{shown[0].id}",
                level="imported",
                changes=tuple(changes),
                why=f"{told.trigger or 'recorded'} compaction",
                time=shown[0].time,
                tokens_before=told.tokens_before,
                tokens_after=told.tokens_after,
                line=node.number,
                raw=msgspec.Raw(node.raw),
            )
        )

    def _kept(self, node: Node) -> list[int]:
        """Places in ``said`` of what a boundary says stays in view."""
        kept: set[int] = set()
        for at in kept_places(node, self.tree.links.up, self.lines.place):
            if at in self._at:
                kept.add(self._at[at])
        return sorted(kept)

    def _clear(self, i: int, node: Node) -> None:
        """A fold that clears the results a microcompact boundary names."""
        for said in self.said[self._scanned :]:
            for number, block in enumerate(said.blocks):
                if isinstance(block, ToolResult):
                    self._results[block.tool_use_id] = Target(said.id, number)
        self._scanned = len(self.said)
        targets = tuple(self._results.pop(id) for id in dict.fromkeys(cleared_ids(node)) if id in self._results)
        entry = self.entries[i]
        if targets and entry is not None:
            self.records.append(
                Fold(
                    id=f"fold:{entry.id}",
                    level="imported",
                    changes=(ReplaceBlocks(targets),),
                    why="recorded clearing",
                    time=entry.time,
                    line=node.number,
                    raw=msgspec.Raw(node.raw),
                )
            )


def _spans(count: int, kept: list[int]) -> list[tuple[int, int]]:
    """First and last place of each run of ``count`` places that is not kept."""
    spans: list[tuple[int, int]] = []
    start = 0
    for at in [*kept, count]:
        if at > start:
            spans.append((start, at - 1))
        start = at + 1
    return spans
