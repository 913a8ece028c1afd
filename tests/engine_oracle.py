"""What the engine promises, told by somebody who knows nothing of how it keeps it: a list of what is shown, the request as it goes over
the wire, and a few counters. Each entry that could be lost carries a mark, so that losing and doubling are seen without knowing why.

Nothing here asks the engine's own code to decide: no pairing, no cuts, no thinking rules, no sizes of the ledger.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

from fivefold.core.actions import Append, Done, Emit, GiveUp, Send, Summarize
from fivefold.core.entries import Entry, Fold, HideEntries, HideSpan, Record, ReplaceBlocks
from fivefold.core.events import Cancelled, CompactAsked, Event, Replied, RequestDue, RequestRejected, Undone
from fivefold.core.messages import Block, Compaction, Text, ToolResult, ToolUse, encode_block
from fivefold.core.repair import Request
from fivefold.core.state import Phase, State
from tests.oracle import Oracle

Line: TypeAlias = tuple[str, list[Block]]
"""One thing on show: its id and its blocks."""
Wire: TypeAlias = list[tuple[str, str]]
"""A request flat: the role and the JSON of each block, in order."""
MARK = re.compile(r"#\d+#")
_PNG = re.compile(r'"(iVBORw0KGgo[A-Za-z0-9+/=]*)"')


# --- what is on show


class Picture:
    """What is shown after each record: a plain list, folds applied to it one after another."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.oracle = Oracle()
        self.shown: list[Line] = []
        self.before: dict[str, list[Line]] = {}
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        self.oracle.records.append(record)
        if isinstance(record, Entry):
            self.shown = [*self.shown, (record.id, list(record.blocks))]
        else:
            if isinstance(record, Fold):
                self.before[record.id] = self.shown
            self.shown = self.oracle.shown()

    def original(self, id: str) -> Entry | None:
        """What was said or put in place under an id."""
        for record in self.oracle.records:
            if isinstance(record, Entry) and record.id == id:
                return record
            if isinstance(record, Fold):
                for change in record.changes:
                    for entry in (*change.stand_ins, *change.tail) if isinstance(change, HideSpan) else ():
                        if entry.id == id:
                            return entry
        return None


def words(blocks: Sequence[Block]) -> str:
    """All text in blocks, of calls and results too."""
    found = []
    for block in blocks:
        match block:
            case Text(text):
                found.append(text)
            case ToolUse():
                found.append(json.dumps(block.input))
            case ToolResult(content=str(text)):
                found.append(text)
            case ToolResult(content=tuple(parts)):
                found.append(words(parts))
            case Compaction(data):
                found.append(str(data.get("content", "")))
            case _:
                continue
    return "\n".join(found)


def marks(shown: Iterable[Line]) -> list[str]:
    """All marks that can be read, in order, as often as they stand there."""
    return [mark for _, blocks in shown for mark in MARK.findall(words(blocks))]


# --- what a fold may do


def lost(fold: Fold, before: list[Line], after: list[Line], picture: Picture, snipped: set[str]) -> set[str]:
    """Marks that a fold has taken out of the view without a right to: a summary has to carry what it stands for. A text instead of a
    block, a snip of what was marked and a provider's own compaction may let go."""
    gone = set(marks(before)) - set(marks(after))
    for change in fold.changes:
        if isinstance(change, ReplaceBlocks):
            for target in change.targets:
                entry = picture.original(target.entry)
                gone -= set(MARK.findall(words([entry.blocks[target.block]]))) if entry else set()
        elif isinstance(change, HideEntries) and snipped.issuperset(change.ids):
            gone -= {mark for id, blocks in before if id in change.ids for mark in MARK.findall(words(blocks))}
        elif isinstance(change, HideSpan) and fold.level == "server":
            gone &= set(marks(_system(before, picture)))
    return gone


def _system(shown: list[Line], picture: Picture) -> list[Line]:
    """The system prompts in front."""
    return list(takewhile(lambda line: (entry := picture.original(line[0])) is not None and entry.kind in ("system", "note"), shown))


def doubled(shown: Iterable[Line]) -> list[str]:
    """Marks that stand in a view more than once."""
    return [mark for mark, count in Counter(marks(shown)).items() if count > 1]


def tied(said: Sequence[Entry], ids: Iterable[str]) -> set[str]:
    """Entries with all that can't go without them: what shares a response, a call or a result with one of them."""
    found = set(ids)
    while True:
        keys = {key for entry in said if entry.id in found for key in _keys(entry)}
        more = {entry.id for entry in said if keys.intersection(_keys(entry))} - found
        if not more:
            return found
        found |= more


def _keys(entry: Entry) -> set[str]:
    keys = {f"api {entry.api_id}"} if entry.api_id is not None else set()
    keys |= {f"tool {block.id}" for block in entry.blocks if isinstance(block, ToolUse)}
    return keys | {f"tool {block.tool_use_id}" for block in entry.blocks if isinstance(block, ToolResult)}


def torn(said: Sequence[Entry], shown: Iterable[Line], too_late: Container[str]) -> list[str]:
    """What belongs together and is shown in part (I1, I2): a call and its result, the entries of one response. ``too_late``: calls
    that were folded away before their result came."""
    ids = {id for id, _ in shown}
    calls = {block.id: entry.id in ids for entry in said for block in entry.blocks if isinstance(block, ToolUse)}
    results = {block.tool_use_id: entry.id in ids for entry in said for block in entry.blocks if isinstance(block, ToolResult)}
    found = [f"call and result {id}" for id, there in results.items() if calls.get(id) is not there and id not in too_late]
    responses: dict[str, set[bool]] = {}
    for entry in said:
        if entry.api_id is not None:
            responses.setdefault(entry.api_id, set()).add(entry.id in ids)
    return found + [f"response {id}" for id, there in responses.items() if len(there) > 1]


def cuts(entries: Sequence[Entry]) -> list[int]:
    """How many entries at the front a summary may take: no call without its result goes, none stays behind, no response in part."""
    keys = [_keys(entry) for entry in entries]
    answered = {block.tool_use_id for entry in entries for block in entry.blocks if isinstance(block, ToolResult)}
    found, front, behind = [], set[str](), Counter[str](key for one in keys for key in one)
    for i, (entry, one) in enumerate(zip(entries, keys, strict=True), 1):
        front |= one
        behind -= Counter(one)
        if not any(behind[key] for key in front):
            found.append(i)
        if any(isinstance(block, ToolUse) and block.id not in answered for block in entry.blocks):
            front.add("open")  # nothing behind a call that is still open
            behind["open"] += len(entries)
    return found


# --- the wire


def flat(request: Request) -> Wire:
    """A request as it goes out, block by block."""
    wire = [("system", json.dumps(encode_block(block))) for block in request.system]
    return wire + [(message.role, json.dumps(encode_block(block))) for message in request.messages for block in message.blocks]


def true_tokens(wire: Wire, rate: float, fixed: int) -> int:
    """What the provider of these tests counts: so much a character, an image by its pixels."""
    pictures = [data for _, block in wire for data in _PNG.findall(block)]
    chars = sum(len(block) for _, block in wire) - sum(map(len, pictures))
    return fixed + int(chars * rate) + sum(map(_image_tokens, pictures))


def _image_tokens(data: str) -> int:
    width, height = struct.unpack(">II", base64.b64decode(data[:32])[16:24])
    return int(math.ceil(width / 28) * math.ceil(height / 28))


def fewer(now: Wire, before: Wire) -> bool:
    """Whether a request has fewer images or fewer bytes than another."""
    pictures = [sum(len(_PNG.findall(block)) for _, block in wire) for wire in (now, before)]
    sizes = [sum(len(block) for _, block in wire) for wire in (now, before)]
    return pictures[0] < pictures[1] or sizes[0] < sizes[1]


def prefixes(wire: Wire) -> list[int]:
    """A digest of what stands before each block."""
    digests, last = [], 0
    for part in wire:
        digests.append(last)
        last = hash((last, part))
    return [*digests, last]


@dataclass
class Thoughts:
    """Each thinking block as it was made, and what stood before it then (I2, I7)."""

    made: dict[str, str] = field(default_factory=dict)
    """Signature → its JSON."""
    stood: dict[str, set[int]] = field(default_factory=dict)
    """Signature → digests of what has stood before it when it was valid."""

    def take(self, sent: Wire, response: Sequence[Entry]) -> None:
        """A response to a request."""
        wire = list(sent)
        for block in (block for entry in response for block in entry.blocks):
            text = json.dumps(encode_block(block))
            signature = _signature(text)
            if signature is not None:
                self.made[signature] = text
                self.stood[signature] = {prefixes(wire)[-1]}
            wire.append(("assistant", text))

    def changed(self, wire: Wire) -> list[str]:
        """Thinking that goes back other than it was made, or in another order."""
        signed = [(signature, text) for _, text in wire if (signature := _signature(text)) is not None]
        order = list(self.made)
        places = [order.index(signature) for signature, _ in signed]
        return [text for signature, text in signed if self.made[signature] != text] + (["order"] if places != sorted(places) else [])

    def misplaced(self, wire: Wire) -> list[str]:
        """Thinking that stands behind something else than when it was made: a provider that binds it refuses it, for good."""
        before = prefixes(wire)
        return [text for i, (_, text) in enumerate(wire) if (one := _signature(text)) is not None and before[i] not in self.stood[one]]

    def valid_here(self, wire: Wire) -> None:
        """The provider vouches for what it is sent now (L10)."""
        before = prefixes(wire)
        for i, (_, text) in enumerate(wire):
            if (signature := _signature(text)) is not None:
                self.stood[signature].add(before[i])


def _signature(block: str) -> str | None:
    if '"type": "thinking"' not in block:
        return None
    signature = json.loads(block).get("signature")
    return signature if isinstance(signature, str) else None


# --- what is counted


@dataclass
class Run:
    """A full compaction that is going on."""

    trigger: str
    began: float
    summaries: int = 0
    of_model: int = 0
    failed_of_model: bool = False


@dataclass
class Watch:
    """Who asked for what, and what has come of it (A6, A10, R9, W4). ``saw`` takes each step and fails where a promise is broken."""

    max_failures: int
    max_recoveries: int
    floor_share: float
    cooldown: int | None = None
    owes: bool = False
    """A request is due, or was refused, and nothing has come of it yet."""
    asked: int = 0
    """Compactions asked for that are not through."""
    put_off: int = 0
    """Of them, those that wait for a call to be answered (X8)."""
    run: Run | None = None
    recoveries: int = 0
    failures: int = 0
    failed_under: tuple[object, ...] = ()
    failed_at: float = 0.0
    failed_on: object = None
    model_failures: int = 0
    left: int | None = None
    replies: int = 0
    """Responses since the last compaction."""
    sent: int = 0
    """Requests sent, for the figures of a run."""
    folded: Counter[str] = field(default_factory=Counter)

    def saw(self, event: Event, state: State, actions: Sequence[object], input: Callable[[], object], now: float) -> None:
        """One step: the event, what it led to, what a compaction would work on, the time."""
        self._came_in(event)
        under = (state.setup.window.context, state.setup.model.id)
        for i, action in enumerate(actions):
            following = actions[i + 1] if i + 1 < len(actions) else None
            match action:
                case Send():
                    self._sends(action, event)
                case GiveUp() if not isinstance(following, Done):
                    assert self.owes, "gave up on a request that nobody had made"
                    self.owes = False
                case Done():
                    assert self.asked > 0, "done with a compaction that nobody had asked for"
                    self.asked -= 1
                case Summarize():
                    self._summarises(action, under)
                case Emit(name=name, fields=fields):
                    self._emitted(name, fields, under, input, now)
                case Append(records=records) if any(isinstance(record, Fold) for record in records):
                    self.failed_on = None  # another input from here on
                case _:
                    continue
        if isinstance(event, Cancelled):
            assert self.run is None, "a cancel has to stop the compaction that goes on"
            self.asked = min(self.asked, self.put_off)
        self.put_off = int(state.tracking.asked is not None)
        if state.phase is not Phase.WAITING:
            assert not self.owes, "a request was due, and was neither sent nor given up"
            assert self.asked == self.put_off, f"{self.asked} compactions asked for are not through"
            assert self.run is None, "a compaction goes on and waits for nothing"

    def _came_in(self, event: Event) -> None:
        match event:
            case RequestDue() | RequestRejected():
                assert not self.owes
                self.owes = True
            case CompactAsked():
                self.asked += 1
            case Cancelled():
                self.owes = False
            case Replied():
                self.recoveries = 0
                self.replies += 1
            case Undone():
                self.left, self.failed_on = None, None
            case _:
                pass

    def _sends(self, action: Send, event: Event) -> None:
        assert self.owes, "sent a request that nobody had made"
        self.owes = False
        self.sent += 1
        if action.transition:
            self.recoveries += 1
            assert self.recoveries <= self.max_recoveries, "R9: too many recoveries without a response between them"

    def _summarises(self, action: Summarize, under: tuple[object, ...]) -> None:
        assert self.run is not None, "a summary outside of a compaction"
        self.run.summaries += 1
        assert self.run.summaries <= 6, "the ladder has no end"
        if action.method in ("model", "native"):
            self.run.of_model += 1
            assert self.run.of_model <= 2, "at most two summaries of a model in one run"
            tired = self.model_failures >= self.max_failures and self.failed_under == under
            assert self.run.trigger == "manual" or not tired, "A6: a model that fails goes on being asked"

    def _emitted(self, name: str, fields: dict[str, Any], under: tuple[object, ...], input: Callable[[], object], now: float) -> None:
        if name == "compaction_started":
            self.run = Run(fields["trigger"], now)
            if fields["trigger"] == "auto":
                self._may_start(fields, under, input, now)
        elif name == "summary_failed" and self.run is not None:
            self.run.failed_of_model |= fields["method"] in ("model", "native")
        elif name == "compaction_failed":
            self._failed(fields, under, input, now)
        elif name == "compaction_finished":
            self._finished(fields, under)
        elif name in ("compaction_cancelled", "compaction_vetoed"):
            self.failed_on = input() if name == "compaction_vetoed" else self.failed_on
            self.run = None

    def _may_start(self, fields: dict[str, Any], under: tuple[object, ...], input: Callable[[], object], now: float) -> None:
        assert fields["source"] not in ("compact", "session_memory"), "A2"
        cooled = self.cooldown is not None and now - self.failed_at >= self.cooldown
        assert self.failures < self.max_failures or self.failed_under != under or cooled, "A6: the breaker is open"
        assert self.failed_on is None or self.failed_on != input(), "A10: tried twice on the same input"
        if self.left is not None:
            least = max(1, int(under[0]) * self.floor_share) if isinstance(under[0], int) else 1
            assert fields["tokens"] >= self.left + least, "A10: the view has not grown over what was left"
            assert self.replies > 0, "A10: no round since the last compaction"

    def _failed(self, fields: dict[str, Any], under: tuple[object, ...], input: Callable[[], object], now: float) -> None:
        assert self.run is not None
        self._model_told(under)
        if self.run.trigger == "auto":
            self.failures = self.failures + 1 if self.failed_under == under else 1
            self.failed_at = self.run.began
        self.failed_under, self.failed_on = under, input()
        self.run = None

    def _finished(self, fields: dict[str, Any], under: tuple[object, ...]) -> None:
        assert self.run is not None
        self._model_told(under)
        self.failures, self.failed_on, self.left, self.replies = 0, None, fields["tokens_after"], 0
        self.failed_under = under
        self.folded[f"{fields['trigger']} {fields['path']}"] += 1
        self.run = None

    def _model_told(self, under: tuple[object, ...]) -> None:
        assert self.run is not None
        known = self.model_failures if self.failed_under == under else 0
        self.model_failures = known + 1 if self.run.failed_of_model else 0 if self.run.of_model else known
