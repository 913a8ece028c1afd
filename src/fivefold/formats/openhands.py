"""OpenHands conversations: events, as a list, one on each line, or inside results files (``{"instance_id", "history"}``).

Two generations. Old events have an ``action`` or an ``observation``; a call's API response is copied into each of its
events (``tool_call_metadata.model_response``). Events of the SDK have a ``kind``. In both a condensation is an event
of its own that names the events forgotten and the summary shown for them: it becomes a fold, and nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ..core.entries import NO_RAW, Entry, Fold, Head, HideEntries, HideSpan, Record, Usage
from ..core.log import Log
from ..core.messages import JSON, Object, Text, ToolUse
from ..core.transcript import Conversation, OtherRecord, Transcript
from .common import Ids, count, parse_time, transcript
from .openhands_events import Said, old_event, sdk_event
from .parts import items_at, object_at, objects_at, other_record, rest_of, text_at, usage_of
from .source import Source

NAME = "openhands"
_SOURCES = frozenset({"agent", "user", "environment", "hook"})
"""Who events are from; other logs have a source, a kind and a time, too."""
_LISTS = ("history", "events", "items")


def recognises(source: Source) -> bool:
    """Whether the content is OpenHands events or a results file of them."""
    if source.shape not in ("document", "lines"):
        return False
    first = next(iter(source.first_objects), None)
    return first is not None and (_is_event(first) or any(_is_event(event) for event in _events_of(first)[:2]))


def _is_event(event: JSON) -> bool:
    if not isinstance(event, dict) or text_at(event, "source") not in _SOURCES:
        return False
    return ("kind" in event and "timestamp" in event) or ("id" in event and ("action" in event or "observation" in event))


def _events_of(data: Object) -> list[JSON]:
    """The events of a results object; the oldest files hold pairs of action and observation."""
    found = next((items_at(data, key) for key in _LISTS if isinstance(data.get(key), list)), [])
    return [event for item in found for event in (item if isinstance(item, list) else [item])]


def read(source: Source) -> Transcript:
    """Read events. Raises InputError where there is no message in them."""
    other: list[OtherRecord] = []
    conversations: list[Conversation] = []
    loose: list[_Event] = []
    for number, value, raw in _values(source):
        if isinstance(value, dict) and not _is_event(value) and _events_of(value):
            events = [_Event(place, event) for place, event in enumerate(_events_of(value), 1)]
            conversations.append(_conversation(source, events, value, other))
        else:
            loose.append(_Event(number, value, raw))
    if loose:
        conversations.insert(0, _conversation(source, loose, {}, other))
    if len(conversations) > 1:
        conversations = [Conversation(c.log, "sample") for c in conversations]
    return transcript(NAME, source, conversations, other)


class _Event(NamedTuple):
    """An event with its number: the line, or its place in its list from 1."""

    number: int
    data: JSON
    raw: msgspec.Raw = NO_RAW


def _values(source: Source) -> Iterator[tuple[int, JSON, msgspec.Raw]]:
    """The values at the top of the file; a list there is opened."""
    if source.shape == "document":
        document = source.document
        for place, item in enumerate(document if isinstance(document, list) else [document], 1):
            yield place, item, NO_RAW
        return
    for line, value in source.values():
        if isinstance(value, list):
            yield from ((place, item, NO_RAW) for place, item in enumerate(value, 1))
        else:
            yield line.number, value, msgspec.Raw(line.data)


def _conversation(source: Source, events: list[_Event], data: Object, other: list[OtherRecord]) -> Conversation:
    builder = _Builder(source, _usages(data, events), other)
    for event in events:
        builder.add(event)
    model = next((e.model for e in reversed(builder.records) if isinstance(e, Entry) and e.model), None)
    head = Head(
        id=text_at(data, "instance_id"),
        model=text_at(data, "metadata", "llm_config", "model") or model,
        tools=tuple(builder.tools),
        extra=rest_of(data, *_LISTS, "instance_id"),
    )
    return Conversation(Log(head, builder.records))


def _usages(data: Object, events: Iterable[_Event]) -> dict[str, Usage]:
    """Usage by response id, from the metrics of a results file and from the state updates of the SDK."""
    found = objects_at(data, "metrics", "token_usages")
    for event in events:
        if isinstance(event.data, dict) and event.data.get("key") == "stats":
            for metrics in object_at(event.data, "value", "usage_to_metrics").values():
                found.extend(objects_at(metrics, "token_usages"))
    usages: dict[str, Usage] = {}
    for item in found:
        read, written = count(item, "cache_read_tokens"), count(item, "cache_write_tokens")
        whole, output = count(item, "prompt_tokens"), count(item, "completion_tokens")
        thinking = count(item, "reasoning_tokens")
        usage = usage_of(max(0, whole - read - written), output, thinking=thinking, read=read, written=written)
        if usage and text_at(item, "response_id"):
            usages[text_at(item, "response_id")] = usage
    return usages


@dataclass(slots=True)
class _Builder:
    """Entries and folds of one conversation, and what the model is shown of it so far."""

    source: Source
    usages: dict[str, Usage]
    other: list[OtherRecord]
    records: list[Record] = field(default_factory=list)
    tools: list[Object] = field(default_factory=list)
    ids: Ids = field(default_factory=lambda: Ids("event-"))
    shown: list[tuple[str, str]] = field(default_factory=list)
    """Event id and entry id of each message in view, in order."""
    anchors: dict[str, str] = field(default_factory=dict)
    """Stand-in id → the log's entry that it stands at."""
    calls: set[str] = field(default_factory=set)
    responses: set[str] = field(default_factory=set)

    def add(self, event: _Event) -> None:
        """Take in one event."""
        data = event.data
        if not isinstance(data, dict) or not _is_event(data):
            self.source.bad(event.number, "not an event: it has no source with an action, an observation or a kind")
            return
        condensation = _condensation(data)
        if condensation is not None:
            self._condense(event, data, condensation)
            return
        said = sdk_event(data) if "kind" in data else old_event(data, self.responses, self.calls)
        if said is None:
            self.other.append(OtherRecord(event.number, bytes(event.raw)) if event.raw else other_record(event.number, data))
            return
        self.tools.extend(said.tools)
        self._say(event, data, said)

    def _say(self, event: _Event, data: Object, said: Said) -> None:
        name = _event_id(data)
        entry = Entry(
            id=self.ids(name),
            kind=said.kind,
            blocks=said.blocks,
            time=parse_time(data.get("timestamp")),
            api_id=said.api_id,
            usage=self.usages.get(said.api_id, said.usage) if said.api_id else said.usage,
            model=said.model,
            meta=said.meta,
            summary=said.summary,
            line=event.number,
            raw=event.raw,
        )
        if said.api_id:
            self.responses.add(said.api_id)
        self.calls.update(block.id for block in said.blocks if isinstance(block, ToolUse))
        self.records.append(entry)
        if said.kind != "note":
            self.shown.append((name, entry.id))

    # --- condensations

    def _condense(self, event: _Event, data: Object, condensation: Object) -> None:
        name = _event_id(data)
        forgotten = _forgotten(condensation, [id for id, _ in self.shown])
        runs, kept = self._runs(forgotten)
        summary, offset = condensation.get("summary"), condensation.get("summary_offset")
        stand_in: Entry | None = None
        time = parse_time(data.get("timestamp"))
        if isinstance(summary, str) and summary and isinstance(offset, int):
            stand_in = Entry(
                id=self.ids(f"{name}-summary"), kind="user", blocks=(Text(summary),), time=time, meta=True, summary=True, line=event.number
            )
        if not runs:
            self._no_run(event, data, stand_in)
            return
        best = min(runs, key=lambda run: abs(run.kept_before - offset)) if stand_in and isinstance(offset, int) else None
        changes: list[HideSpan | HideEntries] = []
        if best is not None and stand_in is not None:
            mine = [id for id in best.ids if id not in self.anchors] or [self.anchors[best.ids[0]]]
            changes.append(HideSpan(first=mine[0], last=mine[-1], stand_ins=(stand_in,)))
            self.anchors[stand_in.id] = mine[0]
            kept.insert(best.kept_before, (f"{name}-summary", stand_in.id))
        single = tuple(id for run in runs for id in run.ids if run is not best or id in self.anchors)
        if single:
            changes.append(HideEntries(single))
        why = "OpenHands condensation"
        self.records.append(
            Fold(id=self.ids(name), level="imported", changes=tuple(changes), why=why, time=time, line=event.number, raw=event.raw)
        )
        self.shown = kept

    def _no_run(self, event: _Event, data: Object, stand_in: Entry | None) -> None:
        """A condensation that forgets nothing in view: its summary, where it has one, is shown all the same."""
        if stand_in is None:
            self.other.append(other_record(event.number, data))
            return
        self.records.append(stand_in)
        self.shown.append((f"{_event_id(data)}-summary", stand_in.id))

    def _runs(self, forgotten: set[str]) -> tuple[list[_Run], list[tuple[str, str]]]:
        """The stretches of the view that are forgotten, and what is kept of it."""
        runs: list[_Run] = []
        kept: list[tuple[str, str]] = []
        open_run: _Run | None = None
        for name, id in self.shown:
            if name not in forgotten:
                kept.append((name, id))
                open_run = None
            elif open_run is None:
                open_run = _Run(len(kept), [id])
                runs.append(open_run)
            else:
                open_run.ids.append(id)
        return runs, kept


@dataclass(slots=True)
class _Run:
    """Neighbours in the view that are forgotten together; so many kept ones stand before them."""

    kept_before: int
    ids: list[str]


def _event_id(data: Object) -> str:
    id = data.get("id")
    return str(id) if isinstance(id, str | int) else ""


def _condensation(data: Object) -> Object | None:
    """What a condensation event says, in either generation; None for other events."""
    if data.get("kind") == "Condensation":
        return data
    return object_at(data, "args") if data.get("action") == "condensation" else None


def _forgotten(condensation: Object, shown: list[str]) -> set[str]:
    """Ids of the forgotten events: listed, or as the first and the last of a range of numbers."""
    listed = {str(id) for id in items_at(condensation, "forgotten_event_ids") if isinstance(id, str | int)}
    first, last = condensation.get("forgotten_events_start_id"), condensation.get("forgotten_events_end_id")
    if listed or not isinstance(first, int) or not isinstance(last, int):
        return listed
    return {name for name in shown if name.isdecimal() and first <= int(name) <= last}
