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
- a history that begins with the assistant gets a first user message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from .economics import MediaLimits
from .entries import SHOWN_AS, Entry
from .limits import IMAGE_LIMITS, limit_images, limit_marks, strip_end, unique_ids
from .messages import Block, Message, Object, ServerToolResult, ServerToolUse, Text, ToolResult, ToolUse
from .pairing import Pairing, Place, pair, same_response, server_pairs
from .turns import Family, Finding, Findings, Piece, Turn, as_text, clean, naturalised

INTERRUPTED = "[No result: the tool call was interrupted.]"
CONTINUED = "[The conversation begins earlier; what came before is not shown.]"


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
) -> Request:
    """The request that a list of entries (a view's) is sent as. ``family`` says whose rules beyond the common ones hold;
    ``foreign``: the entries come from another wire format than they go to, whose own keys and kinds stay behind;
    ``paused``: the last response was paused by the provider and goes back with its server-side call still open."""
    sent = [entry for entry in entries if entry.kind in SHOWN_AS]
    work = _Repair([_naturalised(entry) for entry in sent] if foreign else sent, family, paused)
    turns = work.turns()
    turns = work.merged(turns)
    if turns and turns[0].role != "user":
        first = turns[0].sources[0]
        work.findings.add(
            "I3", first, "the first message is the assistant's", "a first user message that says that the history begins earlier"
        )
        opening = Turn("user")
        opening.pieces = [Piece(first, Text(CONTINUED))]
        turns.insert(0, opening)
    unique_ids(turns, work.findings)
    limit_images(turns, limits or IMAGE_LIMITS, work.findings)
    limit_marks(turns, work.findings)
    if turns and turns[-1].role == "assistant":
        strip_end(turns[-1], work.findings)
    return Request(work.system, tuple(_message(turn) for turn in turns), tuple(work.findings))


def violations(entries: Sequence[Entry], *, family: Family = "anthropic", foreign: bool = False) -> list[Finding]:
    """What a provider would refuse in a list of entries sent as it is."""
    return list(outgoing(entries, family=family, foreign=foreign).findings)


def _naturalised(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, blocks=tuple([naturalised(block) for block in entry.blocks]), extra={})


class _Repair:
    """The state of one pass over the entries."""

    def __init__(self, entries: list[Entry], family: Family, paused: bool) -> None:
        self.findings = Findings()
        self.family = family
        self.paused = paused
        leading = next((i for i, entry in enumerate(entries) if entry.kind != "system"), len(entries))
        self.system = tuple(block for entry in entries[:leading] for block in entry.blocks)
        self.entries = entries[leading:]
        self.pairing: Pairing = pair(self.entries)
        self.results_of: dict[int, list[Place]] = {}
        self.paired: set[Place] = set()
        self.late: set[Place] = set()
        for call, result, late in sorted(self.pairing.pairs, key=lambda found: found.result):
            self.results_of.setdefault(call.entry, []).append(result)
            self.paired.add(result)
            if late:
                self.late.add(result)
        self.unanswered: dict[int, list[Place]] = {}
        # An open call can only wait while nothing has followed: with one of two results there the request needs both.
        followed = bool(self.entries) and self.entries[-1].kind != "assistant"
        for place in self.pairing.unanswered + (self.pairing.open if followed else ()):
            self.unanswered.setdefault(place.entry, []).append(place)

    # --- turns

    def turns(self) -> list[Turn]:
        """One assistant turn a response, one user turn for all that stands between two."""
        turns: list[Turn] = []
        for response, others in self._stretches():
            if response:
                turns.append(self._assistant(response))
            turns.append(self._user(response, others))
        return turns

    def _stretches(self) -> Iterator[tuple[list[int], list[int]]]:
        """Each response with the entries that follow it, up to the next one; the first may have no response."""
        response: list[int] = []
        others: list[int] = []
        adjacent = False
        for i, entry in enumerate(self.entries):
            if entry.kind != "assistant":
                others.append(i)
                adjacent = False
                continue
            if not (response and same_response(entry, self.entries[response[0]].api_id, adjacent)):
                if response or others:
                    yield response, others
                response, others = [], []
            response.append(i)
            adjacent = True
        if response or others:
            yield response, others

    def _assistant(self, response: list[int]) -> Turn:
        turn = Turn("assistant")
        turn.sources = [self.entries[i] for i in response]
        pieces = [Piece(self.entries[i], block) for i in response for block in self.entries[i].blocks]
        lonely_calls, lonely_results = server_pairs([piece.block for piece in pieces])
        waits = self.paused and response[-1] == len(self.entries) - 1
        left_out = set(lonely_results) | (set() if waits else set(lonely_calls))
        for i, (entry, block) in enumerate(pieces):
            if i in left_out:
                self._lonely(entry, block)
                continue
            if isinstance(block, ToolResult):
                self.findings.add("I1", entry, f"result of {block.tool_use_id} in the assistant's own message", "sent as text")
                block = Text(as_text(block))
            cleaned = clean(entry, block, self.family, self.findings)
            if cleaned is not None:
                turn.pieces.append(Piece(entry, cleaned))
        return turn

    def _lonely(self, entry: Entry, block: Block) -> None:
        match block:
            case ServerToolUse(id, name):
                self.findings.add("I8", entry, f"server-side call {id} ({name}) without its result", "left out")
            case ServerToolResult(id, _, kind):
                self.findings.add("I8", entry, f"server-side result ({kind}) without its call {id}", "left out")

    def _user(self, response: list[int], others: list[int]) -> Turn:
        turn = Turn("user")
        for place in sorted(place for i in response for place in self.results_of.get(i, ())):
            entry = self.entries[place.entry]
            if place in self.late:
                self.findings.add(
                    "I9", entry, f"result of {_result_id(entry, place)} comes after another response", "sent in its call's answer"
                )
            self._add(turn.results, entry, entry.blocks[place.block])
        for i in response:
            for place in self.unanswered.get(i, ()):
                self._interrupted(turn, self.entries[i], place)
        words = False
        for i in others:
            words = self._others(turn, i, words)
        return turn

    def _interrupted(self, turn: Turn, entry: Entry, place: Place) -> None:
        block = entry.blocks[place.block]
        if isinstance(block, ToolUse):
            self.findings.add("I1", entry, f"call {block.id} ({block.name}) has no result", "an 'interrupted' result is sent")
            turn.results.append(Piece(entry, ToolResult(block.id, INTERRUPTED, is_error=True)))

    def _others(self, turn: Turn, index: int, words: bool) -> bool:
        """What of a user-side entry is no answer to a call. ``words``: whether text has come in the turn; returns it."""
        entry = self.entries[index]
        turn.sources.append(entry)
        for j, block in enumerate(entry.blocks):
            place = Place(index, j)
            if place in self.paired:
                if words and place not in self.late:
                    self.findings.add(
                        "I1", entry, f"result of {_result_id(entry, place)} stands behind text in its message", "results are sent first"
                    )
                continue
            words = words or isinstance(block, Text)
            if isinstance(block, ToolResult):
                self.findings.add("I1", entry, f"result of {block.tool_use_id} without its call", "sent as text")
                block = Text(f"[Result of a tool call that is not shown]\n{as_text(block)}")
            elif isinstance(block, ToolUse):
                self.findings.add("I1", entry, f"call {block.id} in a message of the user's side", "sent as text")
                block = Text(as_text(block))
            self._add(turn.pieces, entry, block)
        return words

    def _add(self, pieces: list[Piece], entry: Entry, block: Block) -> None:
        cleaned = clean(entry, block, self.family, self.findings)
        if cleaned is not None:
            pieces.append(Piece(entry, cleaned))

    # --- the whole request

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


def _result_id(entry: Entry, place: Place) -> str:
    block = entry.blocks[place.block]
    return block.tool_use_id if isinstance(block, ToolResult) else "?"
