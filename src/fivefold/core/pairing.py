"""What belongs together: calls and their results, the entries of one response, rounds, and where a cut is legal.

Real input repeats tool ids and answers late (I9, I10), so pairing goes by position first, then by id: a result
answers the oldest open call of its id in the response just before it, else the newest open one further back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .entries import SHOWN_AS, Entry
from .messages import ServerToolResult, ServerToolUse, ToolResult, ToolUse


class Place(NamedTuple):
    """A block in a list of entries: index of the entry, index of the block in it."""

    entry: int
    block: int


class Pair(NamedTuple):
    """A call and its answer. ``late``: another response stands between them."""

    call: Place
    result: Place
    late: bool


class Pairing(NamedTuple):
    """All calls and results of a list of entries (I1, I8)."""

    pairs: tuple[Pair, ...]
    unanswered: tuple[Place, ...]
    """Calls without a result, the open ones of the last response left out."""
    open: tuple[Place, ...]
    """Calls of the last response that wait for their result: no orphans (I1)."""
    orphans: tuple[Place, ...]
    """Results without a call."""


class Round(NamedTuple):
    """The entries ``start`` to ``stop`` (not included) that belong to one API call and its answers (spec section 0)."""

    start: int
    stop: int
    api_id: str | None


class Reading(NamedTuple):
    """Which response the entries have come to. An assistant entry goes on with the last response where it has its id and no
    person has spoken since, or where, without ids, it stands right behind it; else it begins the next one."""

    number: int = 0
    """Responses so far; 0 before the first."""
    api_id: str | None = None
    adjacent: bool = False
    spoken: bool = False
    """A person's words came since the last assistant entry."""

    def read(self, entry: Entry) -> Reading:
        """With one more entry. A new ``number`` says that it begins a response."""
        if entry.kind == "assistant":
            goes_on = self.number > 0 and entry.api_id == self.api_id
            goes_on = goes_on and (self.adjacent or (entry.api_id is not None and not self.spoken))
            return Reading(self.number + (not goes_on), entry.api_id, True, False)
        if entry.kind not in SHOWN_AS:
            return self
        return Reading(self.number, self.api_id, False, self.spoken or is_speech(entry))


def is_speech(entry: Entry) -> bool:
    """Whether an entry of the user's side is a person's words, as against results and what a harness adds to them."""
    return entry.kind == "user" and not entry.meta and not any(isinstance(block, ToolResult) for block in entry.blocks)


class _Call(NamedTuple):
    place: Place
    id: str
    response: int


def rounds(entries: Sequence[Entry]) -> list[Round]:
    """The rounds, in order. What comes before the first response is a round of its own."""
    starts: list[tuple[int, str | None]] = [(0, None)] if entries else []
    reading = Reading()
    for i, entry in enumerate(entries):
        before, reading = reading, reading.read(entry)
        if reading.number > before.number:
            if i == 0:
                starts.clear()
            starts.append((i, entry.api_id))
    stops = [start for start, _ in starts[1:]] + [len(entries)] if starts else []
    return [Round(start, stop, api_id) for (start, api_id), stop in zip(starts, stops, strict=True)]


class _Matcher:
    """Reads entries in order and pairs what it meets."""

    def __init__(self) -> None:
        self.open: dict[str, list[_Call]] = {}
        self.pairs: list[Pair] = []
        self.orphans: list[Place] = []
        self.reading = Reading()

    def read(self, index: int, entry: Entry) -> None:
        self.reading = self.reading.read(entry)
        if entry.kind == "assistant":
            for i, block in enumerate(entry.blocks):
                if isinstance(block, ToolUse):
                    self.open.setdefault(block.id, []).append(_Call(Place(index, i), block.id, self.reading.number))
        elif entry.kind in SHOWN_AS:
            for i, block in enumerate(entry.blocks):
                if isinstance(block, ToolResult):
                    self.answer(Place(index, i), block.tool_use_id)

    def answer(self, place: Place, id: str) -> None:
        calls = self.open.get(id)
        if not calls:
            self.orphans.append(place)
            return
        now = next((i for i, call in enumerate(calls) if call.response == self.reading.number), None)
        call = calls.pop(-1 if now is None else now)
        self.pairs.append(Pair(call.place, place, late=now is None))

    def left(self) -> list[_Call]:
        return sorted(call for calls in self.open.values() for call in calls)


def pair(entries: Sequence[Entry]) -> Pairing:
    """Pair calls with results. Entries that are not sent are passed over. Linear in the blocks."""
    matcher = _Matcher()
    for index, entry in enumerate(entries):
        matcher.read(index, entry)
    unanswered: list[Place] = []
    still_open: list[Place] = []
    for call in matcher.left():
        waits = call.response == matcher.reading.number and not matcher.reading.spoken
        (still_open if waits else unanswered).append(call.place)
    return Pairing(tuple(matcher.pairs), tuple(unanswered), tuple(still_open), tuple(matcher.orphans))


def legal_cuts(entries: Sequence[Entry], pairing: Pairing | None = None) -> list[bool]:
    """For each place 0…len: whether the list may be cut before it (I1, I2, I8, I9). No cut stands between a call and its
    result however far apart, inside one response, or behind a call that is still open."""
    pairing = pair(entries) if pairing is None else pairing
    blocked = [0] * (len(entries) + 2)

    def forbid(first: int, last: int) -> None:
        """No cut before the entries ``first + 1`` … ``last``."""
        blocked[first + 1] += 1
        blocked[last + 1] -= 1

    for found in pairing.pairs:
        forbid(found.call.entry, found.result.entry)
    for call in pairing.open:
        forbid(call.entry, len(entries))
    for first, last in _responses(entries):
        forbid(first, last)
    cuts: list[bool] = []
    depth = 0
    for i in range(len(entries) + 1):
        depth += blocked[i]
        cuts.append(depth == 0)
    return cuts


def _responses(entries: Sequence[Entry]) -> Iterable[tuple[int, int]]:
    """First and last entry of each response; server-side pairs stand inside one (I8)."""
    ends: dict[int, tuple[int, int]] = {}
    reading = Reading()
    for i, entry in enumerate(entries):
        reading = reading.read(entry)
        if entry.kind == "assistant":
            ends[reading.number] = (ends.get(reading.number, (i, i))[0], i)
    return ends.values()


def tool_calls(entries: Iterable[Entry]) -> int:
    """How many calls of client-side tools the entries hold."""
    return sum(isinstance(block, ToolUse) for entry in entries for block in entry.blocks)


def server_pairs(entry_blocks: Sequence[object]) -> tuple[list[int], list[int]]:
    """Of the blocks of one assistant message: the places of server calls without a result, and of server results without a call (I8)."""
    calls: dict[str, list[int]] = {}
    orphans: list[int] = []
    for i, block in enumerate(entry_blocks):
        if isinstance(block, ServerToolUse):
            calls.setdefault(block.id, []).append(i)
        elif isinstance(block, ServerToolResult):
            waiting = calls.get(block.tool_use_id)
            if waiting:
                waiting.pop(0)
            else:
                orphans.append(i)
    return sorted(i for places in calls.values() for i in places), orphans
