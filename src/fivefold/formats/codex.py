"""Codex rollouts: JSON lines ``{timestamp, type, payload}``, and the older ones that hold bare items.

Types as in the Codex protocol (``rollout`` items): ``session_meta``, ``turn_context``, ``response_item`` (a Responses
item), ``event_msg``, ``compacted``, ``world_state`` and others. An item is an entry, so is what another agent sent; a
compaction is a fold, so is a rollback (``codex_rollback``); interruptions and errors are notes; everything else is kept as
another record.

**Which items are one response.** Items name no response: their ids share a prefix within a response in some versions and
within a connection in others. So: a response is a run of adjacent assistant items (reasoning, text, calls); it ends at an
item of the other side, at a compaction, or at a ``token_count`` whose counts are new. That event comes behind the calls,
before or behind their answers; its usage belongs to the last response that has none yet. A repeated one (it is also sent
when only rate limits change) says nothing. One with a total and no parts is Codex's own estimate after a compaction.
"""

from __future__ import annotations

import re

import msgspec

from ..core.entries import Boundary, Entry, Fold, Head, HideSpan, Record, Usage
from ..core.messages import JSON, Message, Object, Text
from ..core.transcript import OtherRecord, Transcript
from .codex_compaction import older_stand_ins, replacement_stand_ins
from .codex_rollback import rolled_back, shown_entries
from .common import Ids, conversation_of, count, openai_usage, parse_time, transcript
from .fields import is_list, object_at, text_at, without
from .responses_items import CALLS, OUTPUTS, decode
from .source import Line, Source

NAME = "codex"

ENVELOPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"})
_BETWEEN_AGENTS = "inter_agent_communication"
_BARE_ITEMS = frozenset({"message", "reasoning", "compaction", "web_search_call"}) | CALLS.keys() | OUTPUTS.keys()
_NOTED = {"turn_aborted": "The turn was aborted", "error": "Error", "stream_error": "Stream error"}
_HARNESS = re.compile(r"\s*(?:<(?:[a-z]+(?:_[a-z]+)+|skill|permissions instructions|INSTRUCTIONS)>|# AGENTS\.md instructions)")


def recognises(source: Source) -> bool:
    """Whether the lines are a rollout: enveloped ones, or a head without a type and bare items behind it."""
    if source.shape != "lines" or is_list(source):
        return False
    found = source.first_objects
    if any(map(_is_enveloped, found)):
        return True
    return bool(found) and _is_bare_head(found[0]) and all(_is_bare(item) for item in found[1:])


def _is_enveloped(item: Object) -> bool:
    """A rollout line; other logs have types of these names too, so its payload must have what Codex writes there."""
    kind, payload = text_at(item, "type"), object_at(item, "payload")
    match kind:
        case "response_item" | "event_msg":
            return bool(text_at(payload, "type"))
        case "session_meta":
            return bool(text_at(payload, "id"))
        case "compacted":
            return "message" in payload or "replacement_history" in payload
        case _:
            return kind in ENVELOPES and bool(payload)


def _is_bare_head(item: Object) -> bool:
    return "type" not in item and "instructions" in item and {"id", "timestamp"} <= item.keys()


def _is_bare(item: Object) -> bool:
    kind = item.get("type")
    return "record_type" in item or (isinstance(kind, str) and kind in _BARE_ITEMS)


def read(source: Source) -> Transcript:
    """The one conversation of a rollout."""
    rollout = _Rollout()
    for line, record in source.objects():
        problem = rollout.take(line, record)
        if problem:
            source.bad(line.number, problem)
    return transcript(NAME, source, [conversation_of(rollout.records, rollout.head())], rollout.other)


def is_harness_text(message: Message) -> bool:
    """Whether a message was written by Codex itself: instructions, environment, notices; all but what a person typed.
    Developer messages are; a user's is known by the tag (or AGENTS.md heading) that it begins with."""
    if message.role == "system" or message.extra.get("type") == "agent_message":
        return True
    first = message.blocks[0] if message.role == "user" and message.blocks else None
    return isinstance(first, Text) and _HARNESS.match(first.text) is not None


class _Rollout:
    """Takes the lines in order and grows the records of one conversation."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.other: list[OtherRecord] = []
        self.ids = Ids()
        self.meta: Object = {}
        self.model: str | None = None
        self.window: int | None = None
        self.responses = 0
        self.open = False  # the last entry is an assistant's and its response goes on
        self.unbilled: int | None = None  # place of the last entry of the last response, while no usage is known for it
        self.counts: Object = {}
        self.size: int | None = None  # what the last response's usage says
        self.loose: Usage | None = None  # a usage that belongs to no response here: of the call that compacts
        self.fold: int | None = None  # place of a fold whose size after is not known yet
        self.last_entry = ""

    # --- one line

    def take(self, line: Line, record: Object) -> str | None:
        """Take one line in. Returns what is wrong with it, if anything."""
        kind, payload = record.get("type"), record.get("payload")
        if not isinstance(payload, dict):
            return self.bare(line, record)
        time = record.get("timestamp")
        if kind == "response_item":
            return self.item(line, payload, time)
        if kind == "compacted":
            self.compacted(line, payload, time)
            return None
        if kind == "event_msg":
            if self.event(line, payload, time):
                return None
        elif kind == _BETWEEN_AGENTS and text_at(payload, "content"):
            self.between_agents(line, payload, time)
            return None
        elif kind == "session_meta":
            self.meta = self.meta or payload
        elif kind == "turn_context":
            self.model = text_at(payload, "model") or self.model
        self.other.append(OtherRecord(line.number, line.data))
        return None

    def bare(self, line: Line, record: Object) -> str | None:
        """A line of an old rollout, which has no envelope: its head, a state marker, or an item."""
        if _is_bare(record) and "record_type" not in record:
            return self.item(line, record, None)
        if _is_bare_head(record):
            self.meta = self.meta or record
        elif "record_type" not in record:
            return f"neither a rollout line nor an item (its keys: {', '.join(list(record)[:5])})"
        self.other.append(OtherRecord(line.number, line.data))
        return None

    # --- items

    def item(self, line: Line, item: Object, time: JSON) -> str | None:
        if item.get("type") == "ghost_snapshot":  # the work tree for undo; never sent
            self.other.append(OtherRecord(line.number, line.data))
            return None
        if not isinstance(item.get("type"), str):
            return "an item without a type"
        message = decode(item)
        api_id: str | None = None
        if message.role == "assistant":
            self.responses += not self.open
            api_id = f"response-{self.responses}"
            self.unbilled = len(self.records)
        self.open = message.role == "assistant"
        self.push(
            Entry(
                id=self.ids(item.get("id")),
                kind=message.role,
                blocks=message.blocks,
                time=parse_time(time),
                api_id=api_id,
                model=self.model if api_id else None,
                meta=is_harness_text(message),
                bare=message.bare,
                extra=message.extra,
                line=line.number,
                raw=msgspec.Raw(line.data),
            )
        )
        return None

    def between_agents(self, line: Line, payload: Object, time: JSON) -> None:
        """What another agent sent: the model is given it, and no person wrote it."""
        self.open = False
        self.push(
            Entry(
                id=self.ids(payload.get("id")),
                kind="user",
                blocks=(Text(text_at(payload, "content")),),
                time=parse_time(time),
                meta=True,
                line=line.number,
                raw=msgspec.Raw(line.data),
            )
        )

    def push(self, entry: Entry) -> None:
        self.records.append(entry)
        self.last_entry = entry.id

    # --- events

    def event(self, line: Line, payload: Object, time: JSON) -> bool:
        """Whether an event became a record of its own. The messages that events repeat are items already."""
        kind = text_at(payload, "type")
        if kind == "token_count":
            self.usage(object_at(payload, "info"))
        elif kind == "task_started":
            self.window = count(payload, "model_context_window") or self.window
        elif kind == "thread_rolled_back":
            self.rolled_back(line, count(payload, "num_turns"), time)
            return True
        elif kind in _NOTED:
            reason = text_at(payload, "message") or text_at(payload, "reason")
            self.note(line, f"{_NOTED[kind]}{': ' if reason else ''}{reason}", time)
            return True
        return False

    def note(self, line: Line, text: str, time: JSON) -> None:
        self.push(
            Entry(id=self.ids(), kind="note", blocks=(Text(text),), time=parse_time(time), line=line.number, raw=msgspec.Raw(line.data))
        )

    def rolled_back(self, line: Line, turns: int, time: JSON) -> None:
        """The last turns are out of view from here on; a note says so, which has the source record."""
        text = f"Rolled back {turns} turn{'' if turns == 1 else 's'}"
        changes = rolled_back(self.records, turns)
        if changes:
            fold = Fold(id=self.ids(), level="imported", changes=changes, why=text, time=parse_time(time), line=line.number)
            self.records.append(fold)
            self.open, self.unbilled, self.fold = False, None, None
        self.note(line, text, time)

    def usage(self, info: Object) -> None:
        if not info or info == self.counts:
            return
        self.counts = info
        self.window = count(info, "model_context_window") or self.window
        usage = openai_usage(info.get("last_token_usage"))
        if usage is None:
            return
        if not usage.size:
            self.after_fold(count(info, "last_token_usage", "total_tokens"))
            return
        self.open = False
        if self.unbilled is None:
            self.loose = usage
            return
        entry = self.records[self.unbilled]
        if isinstance(entry, Entry):
            self.records[self.unbilled] = msgspec.structs.replace(entry, usage=usage)
        self.unbilled = None
        self.size = usage.size

    # --- compaction

    def compacted(self, line: Line, payload: Object, time: JSON) -> None:
        """A compaction: what came before is hidden, what Codex put instead stands in. Where nothing came before (a thread
        that was forked or resumed), what stands in is all there is."""
        boundary = Boundary(tokens_before=self.size, covered=self.last_entry or None)
        first = Entry(id=self.ids(), kind="boundary", time=parse_time(time), boundary=boundary, line=line.number)
        history, message = payload.get("replacement_history"), text_at(payload, "message")
        if isinstance(history, list):
            rest = replacement_stand_ins(history, message, self.ids, line.number, is_harness_text)
        else:
            rest = older_stand_ins(shown_entries(self.records), message, self.ids, line.number)
        if self.last_entry:
            self.hide_all(line, payload, time, (first, *rest))
        else:
            for entry in rest:
                self.push(entry)
            self.other.append(OtherRecord(line.number, line.data))
        self.open, self.unbilled, self.loose = False, None, None

    def hide_all(self, line: Line, payload: Object, time: JSON, stand_ins: tuple[Entry, ...]) -> None:
        self.fold = len(self.records)
        self.records.append(
            Fold(
                id=self.ids(),
                level="imported",
                changes=(HideSpan(last=self.last_entry, stand_ins=stand_ins),),
                why="compacted by Codex",
                time=parse_time(time),
                tokens_before=self.size,
                usage=self.loose,
                extra=without(payload, "replacement_history"),
                line=line.number,
                raw=msgspec.Raw(line.data),
            )
        )

    def after_fold(self, tokens: int) -> None:
        """Codex's estimate of the size after a compaction comes in the next event."""
        fold = self.records[self.fold] if self.fold is not None else None
        if self.fold is None or not isinstance(fold, Fold) or not tokens:
            return
        span = fold.changes[0]
        if isinstance(span, HideSpan):
            first, *rest = span.stand_ins
            marked = msgspec.structs.replace(first, boundary=msgspec.structs.replace(first.boundary or Boundary(), tokens_after=tokens))
            changes = (msgspec.structs.replace(span, stand_ins=(marked, *rest)),)
            self.records[self.fold] = msgspec.structs.replace(fold, changes=changes, tokens_after=tokens)
        self.fold = None

    # --- the head

    def head(self) -> Head:
        """What belongs to the whole: the instructions, the model that was last in use, its window."""
        meta = self.meta
        instructions = (
            text_at(object_at(meta, "base_instructions"), "text") or text_at(meta, "base_instructions") or text_at(meta, "instructions")
        )
        extra = without(meta, "base_instructions", "instructions")
        return Head(
            id=text_at(meta, "id"),
            model=self.model,
            window=self.window or None,
            system=(Text(instructions),) if instructions else (),
            cwd=text_at(meta, "cwd") or None,
            name=text_at(meta, "agent_nickname"),
            extra=extra,
        )
