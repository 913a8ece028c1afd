"""pi sessions: JSON lines, a header and records; in newer files the records are a tree by ``id`` and ``parentId``.

The conversation is the path from the last record of the file to its root, as pi itself resumes; what lies on no path
of it are branches. A compaction record says which record is the first one kept: by its id, in older files by its
place among the file's records. It is a fold: the summary stands for what came before that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ..core.entries import NO_RAW, Boundary, Entry, Fold, Head, HideSpan, Record, Unfold
from ..core.log import Log
from ..core.messages import Object, Text
from ..core.transcript import Conversation, OtherRecord, Transcript
from .common import Ids, transcript
from .fields import count_at, is_list, object_at, text_at, time_at, without
from .pi_messages import SAID, entry_of, usage_of
from .source import Source

NAME = "pi"

_OTHER = frozenset({"session", "model_change", "thinking_level_change", "label", "session_info", "custom"})
_ROLES = frozenset({"user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage"})


@dataclass(eq=False, slots=True)
class _Node:
    """A record: its id (made up where the file gives none), its parent's, its place among the file's records."""

    id: str
    parent: str
    place: int
    line: int
    data: bytes
    record: Object


def recognises(source: Source) -> bool:
    """A header with a working directory, or a message record of pi's shape (its own name for a tool's answer)."""
    if source.shape != "lines" or is_list(source):
        return False
    return any(_is_header(item) or _is_message(item) for item in source.first_objects)


def _is_header(item: Object) -> bool:
    return item.get("type") == "session" and all(text_at(item, key) for key in ("id", "cwd", "timestamp"))


def _is_message(item: Object) -> bool:
    message = object_at(item, "message")
    own = "toolCallId" in message or "stopReason" in message
    return item.get("type") == "message" and "timestamp" in item and text_at(message, "role") in _ROLES and own


def read(source: Source) -> Transcript:
    """The session and its branches. Raises InputError where no message can be read."""
    nodes, other = _nodes(source)
    by_id = {node.id: node for node in nodes}
    ids = Ids()
    header: Object = next((node.record for node in nodes if node.record.get("type") == "session"), {})
    paths = _paths(nodes, by_id)
    found = []
    for number, (after, path) in enumerate(paths):
        records = list(_Reader(source, path, nodes, ids).records())
        model = next((r.model for r in reversed(records) if isinstance(r, Entry) and r.model), None)
        if number == 0:
            names = [text_at(node.record, "name") for node in path if node.record.get("type") == "session_info"]
            extra = without(header, "type", "id", "cwd")
            head = Head(
                id=text_at(header, "id"),
                model=model or text_at(header, "modelId") or None,
                cwd=text_at(header, "cwd") or None,
                name=names[-1] if names else "",
                extra=extra,
            )
            found.append(Conversation(Log(head, records)))
        elif records:
            left = Head(name=f"branch {number}", model=model, cwd=text_at(header, "cwd") or None, extra={"after": after})
            found.append(Conversation(Log(left, records), "branch"))
    return transcript(NAME, source, found, other)


def _nodes(source: Source) -> tuple[list[_Node], list[OtherRecord]]:
    nodes: list[_Node] = []
    other: list[OtherRecord] = []
    seen: set[str] = set()
    previous = ""
    for place, (line, record) in enumerate(source.objects()):
        kind = text_at(record, "type")
        if not kind:
            source.bad(line.number, "a record without a type")
        elif kind not in SAID and kind != "compaction":
            other.append(OtherRecord(line.number, line.data))
        id = text_at(record, "id")
        if kind == "session" or not id or id in seen:
            id = f"line{line.number}"
        parent = previous if "parentId" not in record else text_at(record, "parentId")
        seen.add(id)
        nodes.append(_Node(id, parent, place, line.number, line.data, record))
        if kind != "session":
            previous = id
    return nodes, other


def _paths(nodes: list[_Node], by_id: dict[str, _Node]) -> list[tuple[str, list[_Node]]]:
    """The path that ends at the last record, then what each other end has for itself, with the id it parts from."""
    in_tree = [node for node in nodes if node.record.get("type") != "session"]
    parents = {node.parent for node in in_tree}
    ends = [node for node in in_tree if node.id not in parents]
    taken: set[str] = set()
    paths = []
    last = in_tree[-1:]
    for end in [*last, *(node for node in reversed(ends) if node not in last)]:
        path: list[_Node] = []
        node: _Node | None = end
        while node is not None and node.id not in taken:
            taken.add(node.id)
            path.append(node)
            node = by_id.get(node.parent)
        paths.append((node.id if node else "", path[::-1]))
    return paths


class _Reader:
    """The records of one path."""

    def __init__(self, source: Source, path: list[_Node], nodes: list[_Node], ids: Ids) -> None:
        self.source = source
        self.path = path
        self.ids = ids
        self.nodes = nodes
        self.entries: list[str] = []
        self.first: Entry | None = None
        self.before: dict[str, int] = {}  # id of a record -> how many entries stand before it
        self.fold: Fold | None = None
        self.cut = 0

    def records(self) -> Iterator[Record]:
        """Entries and folds, in order."""
        for node in self.path:
            self.before[node.id] = len(self.entries)
            kind = text_at(node.record, "type")
            if kind == "compaction":
                yield from self._compaction(node)
            elif kind in SAID:
                entry = entry_of(node.record, self.ids(node.id), node.line, msgspec.Raw(node.data))
                if entry is None:
                    self.source.bad(node.line, "a message without a role that is known")
                    continue
                self.entries.append(entry.id)
                self.first = self.first or entry
                yield entry

    def _compaction(self, node: _Node) -> Iterator[Record]:
        record = node.record
        time = time_at(record, "timestamp")
        before = count_at(record, "tokensBefore") or None
        cut = self._first_kept(record)
        covered = self.entries[cut - 1] if cut else None
        kept = (self.entries[cut], self.entries[-1]) if cut < len(self.entries) else ()
        boundary = Boundary(tokens_before=before, covered=covered, kept=kept)
        id = self.ids(node.id)
        stand_ins: tuple[Entry, ...] = (
            Entry(id=self.ids(f"{node.id}/boundary"), kind="boundary", time=time, boundary=boundary, line=node.line),
            Entry(
                id=self.ids(f"{node.id}/summary"),
                kind="user",
                blocks=(Text(text_at(record, "summary")),),
                time=time,
                meta=True,
                summary=True,
                line=node.line,
            ),
        )
        if self.fold is not None and cut < self.cut:
            yield Unfold(fold=self.fold.id, time=time)  # what it hid is kept by this one
            self.fold = None
        if covered is None and self.first is not None:
            # All is kept: the summary stands before the first entry, which for that is shown by a copy.
            stand_ins = (*stand_ins, msgspec.structs.replace(self.first, id=self.ids(self.first.id), raw=NO_RAW))
        last = covered or next(iter(self.entries), None)
        if last is None:
            self.entries.extend(entry.id for entry in stand_ins)
            yield from stand_ins
            return
        why = "made by an extension" if record.get("fromHook") is True else "recorded by pi"
        self.cut = cut
        self.fold = Fold(
            id=id,
            level="imported",
            changes=(HideSpan(last=last, stand_ins=stand_ins),),
            why=why,
            time=time,
            tokens_before=before,
            usage=usage_of(record.get("usage")),
            line=node.line,
            raw=msgspec.Raw(node.data),
        )
        yield self.fold

    def _first_kept(self, record: Object) -> int:
        """How many entries stand before the first one kept; all of them where the record names none that is there."""
        kept = text_at(record, "firstKeptEntryId")
        index = record.get("firstKeptEntryIndex")
        if not kept and isinstance(index, int) and 0 <= index < len(self.nodes):
            kept = self.nodes[index].id
        if kept in self.before:
            return self.before[kept]
        shared = self.path and any(node.id == kept for node in self.nodes[: self.path[0].place])
        return 0 if shared else len(self.entries)
