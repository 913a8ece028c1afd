"""From entries to a request that a provider takes (I1–I5, I8–I10, R4), and what had to be mended on the way.

One pass does both: what ``outgoing`` mends is what a provider would have refused. Nothing of it touches the log; made-up
results exist in the request only (I1). The stated rules:

- entries of one response are sent together, its results right behind it, in the order in which they came;
- a result that came late is sent in its call's answer; a call that was never answered gets an "interrupted" result, unless it is
  the last response's and nothing has followed; a result without a call, or a second one, becomes text;
- a call that the user's side seems to make, or a result in the assistant's own turn, becomes text;
- a tool id used again gets a running number; a server-side call or result that stands alone is left out;
- thinking without its signature is left out; empty text and empty messages are left out; half surrogates become U+FFFD;
- of more than four cache marks the last four stay; an image larger than the provider takes becomes a text that says so;
- a history that begins with the assistant gets a first user message, one that ends with it a last one where the model asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from .economics import MediaLimits
from .entries import SHOWN_AS, Entry
from .limits import IMAGE_LIMITS, is_marked, limit_images, limit_marks, strip_end
from .messages import Block, Message, Object, RedactedThinking, ServerToolResult, ServerToolUse, Text, Thinking, ToolResult, ToolUse
from .pairing import Pairing, Place, Reading, pair, server_pairs
from .turns import REFUSED_BY, Family, Finding, Findings, Piece, Turn, as_blocks, clean, json_text, naturalised

INTERRUPTED = "[No result: the tool call was interrupted.]"
ORPHAN = "[Result of a tool call that is not shown]"
GO_ON = "Go on."
CONTINUED = "[The conversation begins earlier; what came before is not shown.]"
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NOT_ID = re.compile(r"[^A-Za-z0-9_-]")


class Request(NamedTuple):
    """What is sent: the system prompt of leading system entries, messages with alternating roles, and what was mended."""

    system: tuple[Block, ...]
    messages: tuple[Message, ...]
    findings: tuple[Finding, ...]


def outgoing(
    entries: Sequence[Entry],
    *,
    family: Family = "anthropic",
    foreign: bool = False,
    limits: MediaLimits | None = None,
    paused: bool = False,
    prefill: bool = True,
) -> Request:
    """The request that a list of entries (a view's) is sent as. ``family`` says whose rules beyond the common ones hold;
    ``foreign``: the entries come from another wire format than they go to, whose own keys and kinds stay behind;
    ``paused``: the last response was paused by the provider and goes back with its server-side call still open;
    ``prefill``: whether the model takes a request that ends on the assistant."""
    sent = [entry for entry in entries if entry.kind in SHOWN_AS]
    work = _Repair([_naturalised(entry) for entry in sent] if foreign else sent, family)
    turns = work.merged(work.turns())
    if work.leave_lonely_out(turns, paused):
        turns = work.merged(turns)
    if turns and turns[0].role != "user":
        turns.insert(0, work.opening(turns[0]))
    limit_images(turns, limits or IMAGE_LIMITS, work.findings)
    limit_marks(turns, work.findings, in_system=sum(map(is_marked, work.system)))
    if turns and turns[-1].role == "assistant":
        strip_end(turns[-1], work.findings)
        if not (prefill or paused or any(isinstance(piece.block, ToolUse) for piece in turns[-1].pieces)):
            turns.append(work.closing(turns[-1]))
    return Request(work.system, tuple(_message(turn) for turn in turns), tuple(work.findings))


def violations(entries: Sequence[Entry], *, family: Family = "anthropic", foreign: bool = False) -> list[Finding]:
    """What a provider of that family would refuse in a list of entries sent as it is."""
    return [found for found in outgoing(entries, family=family, foreign=foreign).findings if found.rule in REFUSED_BY[family]]


def _naturalised(entry: Entry) -> Entry:
    own = "claude" in (entry.model or "")  # recorded by another program, thought by the model it goes back to
    blocks = [naturalised(block, keep_thinking=own) for block in entry.blocks]
    return msgspec.structs.replace(entry, blocks=tuple([block for block in blocks if block is not None]), extra={})


class _Repair:
    """The state of one pass over the entries."""

    def __init__(self, entries: list[Entry], family: Family) -> None:
        self.findings = Findings()
        self.family = family
        leading = next((i for i, entry in enumerate(entries) if entry.kind != "system"), len(entries))
        cleaned = (clean(entry, block, family, self.findings) for entry in entries[:leading] for block in entry.blocks)
        self.system = tuple([block for block in cleaned if block is not None])
        self.entries = entries[leading:]
        self.pairing: Pairing = pair(self.entries)
        self.ids = self._unique_ids()
        self.call_of = {found.result: found.call for found in self.pairing.pairs}
        self.late = {found.result for found in self.pairing.pairs if found.late}
        self.results_of: dict[int, list[Place]] = {}
        for call, result, _ in self.pairing.pairs:
            self.results_of.setdefault(call.entry, []).append(result)
        self.unanswered = set(self.pairing.unanswered)

    def _unique_ids(self) -> dict[Place, str]:
        """The id that each call is sent with: its own, or with a running number where it was used before (I4, I10)."""
        ids: dict[Place, str] = {}
        used: set[str] = set()
        last: dict[str, int] = {}
        calls = [(Place(i, k), b) for i, entry in enumerate(self.entries) if entry.kind == "assistant" for k, b in enumerate(entry.blocks)]
        own = {block.id for _, block in calls if isinstance(block, ToolUse)}
        for place, block in calls:
            if not isinstance(block, ToolUse):
                continue
            id = block.id
            if self.family == "anthropic" and not _ID.fullmatch(id):
                id = _NOT_ID.sub("_", id) or "call"
                self.findings.add(
                    "V1", self.entries[place.entry], f"tool id {block.id!r} has characters that are not taken", f"sent as {id}"
                )
            if id in used:
                number = last.get(id, 1) + 1
                while f"{id}_{number}" in used or f"{id}_{number}" in own:
                    number += 1
                last[id] = number
                id = f"{id}_{number}"
                self.findings.add("I4", self.entries[place.entry], f"tool id {block.id} is used again", f"sent as {id}")
            used.add(id)
            ids[place] = id
        return ids

    # --- turns

    def turns(self) -> list[Turn]:
        """One assistant turn a response, one user turn for all that stands between two."""
        turns: list[Turn] = []
        stretches = list(self._stretches())
        for number, (response, others) in enumerate(stretches):
            if response:
                turns.append(self._assistant(response))
            # An open call can only wait while nothing has followed: with one of two results there, both are needed.
            waits = number == len(stretches) - 1 and not others
            turns.append(self._user(response, others, waits))
        return turns

    def _stretches(self) -> Iterator[tuple[list[int], list[int]]]:
        """Each response with the entries that follow it, up to the next one; the first may have no response."""
        response: list[int] = []
        others: list[int] = []
        reading = Reading()
        for i, entry in enumerate(self.entries):
            before, reading = reading, reading.read(entry)
            if reading.number > before.number and (response or others):
                yield response, others
                response, others = [], []
            (response if entry.kind == "assistant" else others).append(i)
        if response or others:
            yield response, others

    def _assistant(self, response: list[int]) -> Turn:
        turn = Turn("assistant")
        turn.sources = [self.entries[i] for i in response]
        for i in response:
            entry = self.entries[i]
            for k, block in enumerate(entry.blocks):
                if isinstance(block, ToolResult):
                    self.findings.add("I1", entry, f"result of {block.tool_use_id} in the assistant's own message", "sent as text")
                    for part in as_blocks(block):
                        self._add(turn.pieces, entry, part if isinstance(part, Text) else Text(json_text(part)))
                    continue
                if isinstance(block, ToolUse) and self.ids[Place(i, k)] != block.id:
                    block = msgspec.structs.replace(block, id=self.ids[Place(i, k)])
                self._add(turn.pieces, entry, block)
        return turn

    def _user(self, response: list[int], others: list[int], waits: bool) -> Turn:
        turn = Turn("user")
        for place in sorted(place for i in response for place in self.results_of.get(i, ())):
            self._result(turn, place)
        for i in response:
            for k, block in enumerate(self.entries[i].blocks):
                place = Place(i, k)
                if isinstance(block, ToolUse) and (place in self.unanswered or (place in self.pairing.open and not waits)):
                    self._interrupted(turn, self.entries[i], block, self.ids[place])
        words = False
        for i in others:
            words = self._others(turn, i, words)
        return turn

    def _result(self, turn: Turn, place: Place) -> None:
        entry = self.entries[place.entry]
        block = entry.blocks[place.block]
        if not isinstance(block, ToolResult):
            return
        if place in self.late:
            self.findings.add("I9", entry, f"result of {block.tool_use_id} comes after another response", "sent in its call's answer")
        id = self.ids[self.call_of[place]]
        self._add(turn.results, entry, block if block.tool_use_id == id else msgspec.structs.replace(block, tool_use_id=id))

    def _interrupted(self, turn: Turn, entry: Entry, call: ToolUse, id: str) -> None:
        self.findings.add("I1", entry, f"call {call.id} ({call.name}) has no result", "an 'interrupted' result is sent")
        turn.results.append(Piece(entry, ToolResult(id, INTERRUPTED, is_error=True)))

    def _others(self, turn: Turn, index: int, words: bool) -> bool:
        """What of a user-side entry is no answer to a call. ``words``: whether text has come in the turn; returns it."""
        entry = self.entries[index]
        turn.sources.append(entry)
        for k, block in enumerate(entry.blocks):
            place = Place(index, k)
            if place in self.call_of:
                if words and place not in self.late and isinstance(block, ToolResult):
                    self.findings.add(
                        "I1", entry, f"result of {block.tool_use_id} stands behind text in its message", "results are sent first"
                    )
                continue
            words = words or isinstance(block, Text)
            for part in self._on_users_side(entry, block):
                self._add(turn.pieces, entry, part)
        return words

    def _on_users_side(self, entry: Entry, block: Block) -> list[Block]:
        """A block of the user's side that answers no call."""
        match block:
            case ToolResult():
                self.findings.add("I1", entry, f"result of {block.tool_use_id} without its call", "sent as text")
                return [Text(ORPHAN), *as_blocks(block)]
            case ToolUse() | ServerToolUse() | ServerToolResult():
                self.findings.add("I1", entry, "a call in a message of the user's side", "sent as text")
                return [Text(json_text(block))]
            case Thinking() | RedactedThinking():
                self.findings.add("I2", entry, "thinking in a message of the user's side", "left out")
                return []
            case _:
                return [block]

    def _add(self, pieces: list[Piece], entry: Entry, block: Block) -> None:
        cleaned = clean(entry, block, self.family, self.findings)
        if cleaned is not None:
            pieces.append(Piece(entry, cleaned))

    # --- the whole request

    def opening(self, first: Turn) -> Turn:
        """A first user message for a history that begins with the assistant (I3)."""
        entry = first.sources[0]
        self.findings.add(
            "I3", entry, "the first message is the assistant's", "a first user message that says that the history begins earlier"
        )
        return Turn("user", pieces=[Piece(entry, Text(CONTINUED))])

    def closing(self, last: Turn) -> Turn:
        """A last user message for a model that answers none but the user (I3)."""
        entry = last.sources[-1]
        self.findings.add(
            "I3", entry, "the last message is the assistant's, and the model takes none", "a last user message that says to go on"
        )
        return Turn("user", pieces=[Piece(entry, Text(GO_ON))])

    def leave_lonely_out(self, turns: list[Turn], paused: bool) -> bool:
        """Leave out server-side calls and results that stand alone in their message; whether there were any (I8)."""
        any_left_out = False
        for turn in turns:
            if turn.role != "assistant":
                continue
            calls, results = server_pairs([piece.block for piece in turn.pieces])
            lonely = {*results, *(() if paused and turn is turns[-1] else calls)}
            for i in sorted(lonely):
                self._lonely(*turn.pieces[i])
            turn.pieces = [piece for i, piece in enumerate(turn.pieces) if i not in lonely]
            any_left_out = any_left_out or bool(lonely)
        return any_left_out

    def _lonely(self, entry: Entry, block: Block) -> None:
        match block:
            case ServerToolUse(id, name):
                self.findings.add("I8", entry, f"server-side call {id} ({name}) without its result", "left out")
            case ServerToolResult(id, _, kind):
                self.findings.add("I8", entry, f"server-side result ({kind}) without its call {id}", "left out")

    def merged(self, turns: list[Turn]) -> list[Turn]:
        """Turns of one role in a row as one, empty ones left out (I3)."""
        out: list[Turn] = []
        for turn in turns:
            if not turn.all():
                if turn.sources and not any(entry.blocks for entry in turn.sources):
                    self.findings.add("I3", turn.sources[0], "empty message", "left out")
                continue
            if out and out[-1].role == turn.role:
                out[-1].results += turn.results
                out[-1].pieces += turn.pieces
                out[-1].sources += turn.sources
            else:
                out.append(turn)
        return out


def _message(turn: Turn) -> Message:
    extra: Object = {}
    for entry in reversed(turn.sources):
        extra = {**extra, **entry.extra}
    blocks = tuple(piece.block for piece in turn.all())
    bare = len(turn.sources) == 1 and turn.sources[0].bare and blocks == turn.sources[0].blocks
    return Message(turn.role, blocks, bare, extra)
