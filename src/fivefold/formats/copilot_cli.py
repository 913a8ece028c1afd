"""GitHub Copilot CLI's events: JSON lines ``{type, data, id, timestamp, parentId}`` in the order they happened.

Messages and the completions of tools are entries; what the model never saw (hooks, turns, usage of the session) is
kept beside. The system prompt is repeated for each prompt of the user: the last one is the head's, as the next
request would bear it. A sub-agent's events are a sidechain. A compaction is made in the background: what was said
since it began is kept, its summary stands for what was there before. A rewound stretch is a branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ..core.entries import Boundary, Entry, Fold, Head, HideSpan, Record, Usage
from ..core.log import Log
from ..core.messages import Block, Object, Text, Thinking, ToolResult, ToolUse
from ..core.transcript import Conversation, OtherRecord, Transcript
from .common import Ids, transcript
from .fields import as_text, count_at, is_list, list_at, object_at, text_at, time_at, without
from .source import Line, Source

NAME = "copilot-cli"

_OWN = frozenset({"session.start", "user.message", "assistant.message", "tool.execution_start", "tool.execution_complete", "hook.start"})
_NOTES = {"abort": "reason", "session.error": "message", "model.call_failure": "message", "session.warning": "message", "error": "message"}
_MAIN = ""


@dataclass
class _Lane:
    """The records of one agent, and what is known of it so far."""

    source: str = "main"
    records: list[Record] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    """Id of an event -> how many records stood before it."""
    calls: dict[str, int] = field(default_factory=dict)
    """Id of a tool call -> place of the entry that asked for it."""
    answers: dict[int, set[str]] = field(default_factory=dict)
    """Place of an entry -> the calls it answers."""
    compacting: int | None = None
    """How many entries there were when the compaction under way began."""

    def add(self, entry: Entry, event: str) -> None:
        """An entry of this agent, from the event of this id."""
        place = len(self.entries)
        for block in entry.blocks:
            if isinstance(block, ToolUse):
                self.calls[block.id] = place
            elif isinstance(block, ToolResult):
                self.answers.setdefault(place, set()).add(block.tool_use_id)
        self.events[event] = len(self.records)
        self.entries.append(entry.id)
        self.records.append(entry)

    def legal_cut(self, cut: int) -> int:
        """The first place from ``cut`` on whose entry answers no call that stands before it."""
        while cut < len(self.entries) and any(self.calls.get(id, cut) < cut for id in self.answers.get(cut, ())):
            cut += 1
        return cut


def recognises(source: Source) -> bool:
    """A session start by Copilot, or events of its names with its five keys."""
    return source.shape == "lines" and not is_list(source) and any(_is_event(item) for item in source.first_objects)


def _is_event(item: Object) -> bool:
    kind, data = text_at(item, "type"), object_at(item, "data")
    if kind == "session.start" and text_at(data, "producer").startswith("copilot"):
        return True
    return kind in _OWN and bool(data) and "id" in item and "timestamp" in item and "parentId" in item


def read(source: Source) -> Transcript:
    """The session, its sub-agents and what was rewound. Raises InputError where no message can be read."""
    reader = _Reader(source)
    for line, event in source.objects():
        reader.take(line, event)
    return transcript(NAME, source, reader.conversations(), reader.other)


class _Reader:
    """Takes the events one by one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.ids = Ids()
        self.lanes: dict[str, _Lane] = {_MAIN: _Lane()}
        self.names: dict[str, str] = {}  # id of a sub-agent or of the call that started it -> its name
        self.branches: list[tuple[str, list[Record]]] = []
        self.other: list[OtherRecord] = []
        self.start: Object = {}
        self.system = ""
        self.model: str | None = None

    def take(self, line: Line, event: Object) -> None:
        """One event. What is no part of a conversation is kept as its bytes."""
        kind, data = text_at(event, "type"), object_at(event, "data")
        if not kind or not isinstance(event.get("data"), dict):
            self.source.bad(line.number, "no event: it has no type or no data")
            return
        lane = self._lane(event, data)
        entry = self._entry(kind, line, event, data, lane.source)
        if entry is not None:
            lane.add(entry, text_at(event, "id"))
            return
        self.other.append(OtherRecord(line.number, line.data))
        match kind:
            case "session.start" | "session.resume":
                self.start = {**self.start, **data}
                self.model = text_at(data, "selectedModel") or self.model
            case "session.model_change":
                self.model = text_at(data, "newModel") or self.model
            case "system.message":
                self.system = text_at(data, "content") or self.system
            case "subagent.started" | "subagent.selected":
                for key in (text_at(data, "toolCallId"), text_at(event, "agentId")):
                    self.names[key] = text_at(data, "agentName") or text_at(data, "agentDisplayName")
            case "assistant.usage":
                self._usage(lane, data)
            case "session.compaction_start":
                lane.compacting = len(lane.entries)
            case "session.compaction_complete":
                self._compaction(lane, line, event, data)
            case "session.snapshot_rewind":
                self._rewind(lane, line, text_at(data, "upToEventId"))

    def _lane(self, event: Object, data: Object) -> _Lane:
        key = text_at(event, "agentId") or text_at(data, "parentToolCallId")
        if key not in self.lanes:
            self.lanes[key] = _Lane(f"agent:{self.names.get(key) or key}")
        return self.lanes[key]

    def _entry(self, kind: str, line: Line, event: Object, data: Object, agent: str) -> Entry | None:
        told = _told(kind, data)
        if told is None and kind not in ("assistant.message", "tool.execution_complete"):
            return None
        id = self.ids(text_at(event, "id") or f"line{line.number}")
        time = time_at(event, "timestamp")
        if kind == "assistant.message":
            return self._response(id, data, time, agent, line)
        blocks: tuple[Block, ...] = (_result(data),) if told is None else (Text(told),) if told else ()
        typed = kind == "user.message"
        return Entry(
            id=id,
            kind="user" if typed or kind in ("tool.execution_complete", "system.notification") else "note",
            blocks=blocks,
            time=time,
            source=agent,
            meta=kind == "system.notification" or (typed and (bool(text_at(data, "source")) or agent != "main")),
            bare=typed and bool(blocks),
            line=line.number,
            raw=msgspec.Raw(line.data),
        )

    def _response(self, id: str, data: Object, time: float | None, agent: str, line: Line) -> Entry:
        model = text_at(data, "model") or self.model
        if agent == "main":
            self.model = model
        api_id = text_at(data, "apiCallId") or text_at(data, "messageId") or id
        return Entry(
            id=id,
            kind="assistant",
            blocks=tuple(_said(data)),
            time=time,
            api_id=api_id,
            model=model,
            source=agent,
            line=line.number,
            raw=msgspec.Raw(line.data),
        )

    def _usage(self, lane: _Lane, data: Object) -> None:
        """Counts of a response that stands just before: the one they name, else the last one without."""
        for place in range(len(lane.records) - 1, max(-1, len(lane.records) - 20), -1):
            entry = lane.records[place]
            if not isinstance(entry, Entry) or entry.kind != "assistant":
                continue
            named = text_at(data, "apiCallId")
            if entry.usage is None and (not named or named == entry.api_id):
                lane.records[place] = msgspec.structs.replace(entry, usage=_usage_of(data))
                return

    def _compaction(self, lane: _Lane, line: Line, event: Object, data: Object) -> None:
        begun, lane.compacting = lane.compacting, None
        summary = text_at(data, "summaryContent")
        if data.get("success") is False or not summary or not lane.entries:
            return
        cut = lane.legal_cut(len(lane.entries) if begun is None else min(begun, len(lane.entries)))
        if not cut:
            return
        time = time_at(event, "timestamp")
        before, after = count_at(data, "preCompactionTokens") or None, count_at(data, "postCompactionTokens") or None
        kept = (lane.entries[cut], lane.entries[-1]) if cut < len(lane.entries) else ()
        covered = lane.entries[cut - 1]
        boundary = Boundary(trigger=text_at(data, "trigger"), tokens_before=before, tokens_after=after, covered=covered, kept=kept)
        id = text_at(event, "id") or f"line{line.number}"
        stand_ins = (
            Entry(id=self.ids(f"{id}/boundary"), kind="boundary", time=time, boundary=boundary, source=lane.source, line=line.number),
            Entry(
                id=self.ids(f"{id}/summary"),
                kind="user",
                blocks=(Text(summary),),
                time=time,
                source=lane.source,
                meta=True,
                summary=True,
                line=line.number,
            ),
        )
        lane.events[id] = len(lane.records)
        lane.records.append(
            Fold(
                id=self.ids(id),
                level="imported",
                changes=(HideSpan(last=covered, stand_ins=stand_ins),),
                why="recorded by Copilot CLI",
                time=time,
                tokens_before=before,
                tokens_after=after,
                usage=_usage_of(object_at(data, "compactionTokensUsed")),
                line=line.number,
                raw=msgspec.Raw(line.data),
            )
        )

    def _rewind(self, lane: _Lane, line: Line, event: str) -> None:
        """Move what was said from an event on to a branch."""
        at = lane.events.get(event)
        if at is None:
            return  # the file was cut there already
        left = lane.records[at:]
        del lane.records[at:]
        kept = sum(isinstance(record, Entry) for record in lane.records)
        after = lane.entries[kept - 1] if kept else ""
        del lane.entries[kept:]
        lane.events = {id: place for id, place in lane.events.items() if place < at}
        lane.calls = {id: place for id, place in lane.calls.items() if place < kept}
        lane.answers = {place: ids for place, ids in lane.answers.items() if place < kept}
        # A compaction of what stays has nothing to hide in the branch; its summary is told there.
        told = [entry for record in left for entry in ([record] if isinstance(record, Entry) else _stand_ins(record))]
        self.branches.append((after, list[Record](told)))

    def conversations(self) -> Iterator[Conversation]:
        """The main conversation, the sub-agents', the branches."""
        context = object_at(self.start, "context")
        cwd = text_at(context, "cwd") or None
        head = Head(
            id=text_at(self.start, "sessionId"),
            model=self.model,
            system=(Text(self.system),) if self.system else (),
            cwd=cwd,
            extra=without(self.start, "sessionId"),
        )
        yield Conversation(Log(head, self.lanes[_MAIN].records))
        for key, lane in self.lanes.items():
            if key != _MAIN and lane.records:
                yield Conversation(Log(Head(id=key, name=lane.source.removeprefix("agent:"), cwd=cwd), lane.records), "sidechain")
        for number, (after, records) in enumerate(self.branches, 1):
            if records:
                yield Conversation(Log(Head(name=f"branch {number}", cwd=cwd, extra={"after": after}), records), "branch")


def _stand_ins(record: Record) -> Iterator[Entry]:
    if isinstance(record, Fold):
        for change in record.changes:
            if isinstance(change, HideSpan):
                yield from change.stand_ins


def _said(data: Object) -> Iterator[Block]:
    """What a response says: its thinking, its text, its calls."""
    thought, signature = text_at(data, "reasoningText"), text_at(data, "reasoningOpaque")
    if thought or signature:
        yield Thinking(thought, signature)
    if content := text_at(data, "content"):
        yield Text(content)
    for call in list_at(data, "toolRequests"):
        if isinstance(call, dict):
            yield ToolUse(text_at(call, "toolCallId"), text_at(call, "name"), call.get("arguments"))


def _result(data: Object) -> ToolResult:
    """What the model was told of a call: its result, or its error where there is none."""
    result = data.get("result")
    content = result.get("content") if isinstance(result, dict) else result
    failed = data.get("success") is False
    if content is None:
        error = data.get("error")
        content = error.get("message", error) if isinstance(error, dict) else error
    return ToolResult(text_at(data, "toolCallId"), as_text(content), failed)


def _told(kind: str, data: Object) -> str | None:
    """The text of an event that is one; None for every other event."""
    match kind:
        case "user.message":
            return text_at(data, "transformedContent") or text_at(data, "content")
        case "system.notification":
            return text_at(data, "content")
        case "session.truncation":
            return _truncation(data)
        case _ if kind in _NOTES:
            return f"{kind}: {text_at(data, _NOTES[kind])}"
        case _:
            return None


def _truncation(data: Object) -> str:
    removed = count_at(data, "messagesRemovedDuringTruncation")
    before, after = count_at(data, "preTruncationTokensInMessages"), count_at(data, "postTruncationTokensInMessages")
    return f"truncated: {removed:,} messages left out, from {before:,} to {after:,} tokens (which ones is not recorded)"


def _usage_of(data: Object) -> Usage | None:
    """Copilot's counts, old or new names: its input holds the cached parts."""
    read = count_at(data, "cacheReadTokens") or count_at(data, "cachedInput")
    written = count_at(data, "cacheWriteTokens")
    whole = count_at(data, "inputTokens") or count_at(data, "input")
    output = count_at(data, "outputTokens") or count_at(data, "output")
    usage = Usage(input=max(0, whole - read - written), cache_write=written, cache_read=read, output=output)
    return usage if usage.size else None
